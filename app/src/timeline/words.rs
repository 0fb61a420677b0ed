//! What the timeline says, in English and in Chinese.

use simulator::wire::timeline::{Category, PhaseKind};

use super::view_model::Band;

/// Every text of the timeline in one language. `{}` stands for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineWords {
    /// By `PhaseKind`: build, forward, loss, backward, clip, optimizer, `zero_grad`.
    phases: [&'static str; 7],
    phases_short: [&'static str; 7],
    /// By `Category`.
    categories: [&'static str; 9],
    /// Activations by block: attention, feed-forward, norms, other.
    activations: [&'static str; 4],
    blocks: [&'static str; 4],
    pub already_used: &'static str,
    pub capacity: &'static str,
    pub peak: &'static str,
    pub on_device: &'static str,
    pub free: &'static str,
    pub over: &'static str,
    pub micro_batch: &'static str,
    pub host: &'static str,
    pub compute: &'static str,
    pub chart: &'static str,
    pub chart_role: &'static str,
    pub keys_hint: &'static str,
    pub time: &'static str,
    pub order: &'static str,
    pub x_axis: &'static str,
    pub y_axis: &'static str,
    pub y_auto: &'static str,
    pub y_capacity: &'static str,
    pub y_live: &'static str,
    pub y_window: &'static str,
    pub zoom_in: &'static str,
    pub zoom_out: &'static str,
    pub whole: &'static str,
    pub whole_step: &'static str,
    pub to_the_peak: &'static str,
    pub time_hint: &'static str,
    pub order_hint: &'static str,
    pub to_peak: &'static str,
    pub as_table: &'static str,
    pub legend: &'static str,
    pub uncertainty: &'static str,
    pub event: &'static str,
    pub event_of: &'static str,
    pub layer: &'static str,
    pub size: &'static str,
    pub born: &'static str,
    pub dies: &'static str,
    pub before_step: &'static str,
    pub after_step: &'static str,
    pub share_of_peak: &'static str,
    pub not_at_peak: &'static str,
    pub live: &'static str,
    pub live_peak: &'static str,
    pub phase_hint: &'static str,
    pub reserved: &'static str,
    pub pinned: &'static str,
    pub free_here: &'static str,
    pub outside_hint: &'static str,
    pub already_used_hint: &'static str,
    pub slack_hint: &'static str,
    pub issued: &'static str,
    pub runs: &'static str,
    pub waits: &'static str,
    pub selection: &'static str,
    pub allocated_in: &'static str,
    pub freed_in: &'static str,
    pub net: &'static str,
    pub highest: &'static str,
    pub clear: &'static str,
    pub zoom_to_selection: &'static str,
    pub phase: &'static str,
    pub total: &'static str,
    pub length: &'static str,
    pub table_caption: &'static str,
    pub empty: &'static str,
}

impl TimelineWords {
    /// A phase's name.
    pub fn phase(&self, kind: PhaseKind) -> &'static str {
        self.phases[kind as usize]
    }

    /// A phase's name where there is little room.
    pub fn phase_short(&self, kind: PhaseKind) -> &'static str {
        self.phases_short[kind as usize]
    }

    /// A category's name.
    pub fn category(&self, category: Category) -> &'static str {
        self.categories[category as usize]
    }

    /// The block that a band of activations serves.
    pub fn block(&self, band: Band) -> Option<&'static str> {
        match band {
            Band::AttentionActivations => Some(self.blocks[0]),
            Band::MlpActivations => Some(self.blocks[1]),
            Band::NormActivations => Some(self.blocks[2]),
            Band::OtherActivations => Some(self.blocks[3]),
            _ => None,
        }
    }

    /// A band's name.
    pub fn band(&self, band: Band) -> &'static str {
        match band {
            Band::AttentionActivations => self.activations[0],
            Band::MlpActivations => self.activations[1],
            Band::NormActivations => self.activations[2],
            Band::OtherActivations => self.activations[3],
            _ => self.category(band.category()),
        }
    }
}

/// Puts values into the `{}`s of a text, in order.
pub fn fill(text: &str, values: &[&str]) -> String {
    let mut filled = String::with_capacity(text.len() + 16);
    let mut values = values.iter();
    for (index, piece) in text.split("{}").enumerate() {
        if index > 0 {
            filled.push_str(values.next().copied().unwrap_or_default());
        }
        filled.push_str(piece);
    }
    filled
}

/// English.
pub const ENGLISH: TimelineWords = TimelineWords {
    phases: ["Build", "Forward", "Loss", "Backward", "Clip", "Optimizer", "Zero grad"],
    phases_short: ["B", "Fwd", "L", "Bwd", "C", "Opt", "Z"],
    categories: [
        "Outside the pool",
        "Weights",
        "Optimizer states",
        "Gradients",
        "Inputs",
        "Activations",
        "Logits and loss",
        "Temporaries",
        "Allocator slack",
    ],
    activations: [
        "Activations: attention",
        "Activations: MLP",
        "Activations: norms",
        "Activations: other",
    ],
    blocks: ["attention", "MLP", "norms", "other"],
    already_used: "Already in use",
    capacity: "capacity {}",
    peak: "peak {} live",
    on_device: "{} on the device",
    free: "{} free",
    over: "{} over",
    micro_batch: "micro-batch {}",
    host: "Host",
    compute: "GPU",
    chart: "GPU memory over one step: {} live at the peak in {}, {} on the device, capacity {}.",
    chart_role: "memory timeline",
    keys_hint: "Arrow keys step through events, up and down through tensors; W, S, A, D zoom and \
                pan; P goes to the peak, F fits, M pins, slash searches tensors.",
    time: "Host time",
    order: "Events",
    x_axis: "Horizontal axis",
    y_axis: "Vertical axis",
    y_auto: "Auto",
    y_capacity: "To capacity",
    y_live: "To live bytes",
    y_window: "Zoomed in",
    zoom_in: "Zoom in (W)",
    zoom_out: "Zoom out (S)",
    whole: "All",
    whole_step: "Whole step (0)",
    to_the_peak: "Peak",
    time_hint: "Time of the host, which allocates and frees ahead of the GPU (X switches)",
    order_hint: "Every allocation and free equally wide (X switches)",
    to_peak: "Go to the peak (P)",
    as_table: "Table",
    legend: "Categories",
    uncertainty: "Uncertainty ±",
    event: "event {}",
    event_of: "event {} of {}",
    layer: "layer {}",
    size: "Size",
    born: "Born",
    dies: "Dies",
    before_step: "before the step",
    after_step: "outlives the step",
    share_of_peak: "Share of the peak",
    not_at_peak: "not alive at the peak",
    live: "Live",
    live_peak: "Highest live",
    phase_hint: "Click to zoom to it, click again for the whole step.",
    reserved: "Reserved",
    pinned: "pinned",
    free_here: "Free",
    outside_hint: "Context, kernels and libraries, held by the driver outside the caching allocator.",
    already_used_hint: "In use on the card before this process starts.",
    slack_hint: "Reserved by the caching allocator and not handed out: rounding, splits, \
                 fragmentation.",
    issued: "Issued",
    runs: "Runs",
    waits: "waits {}",
    selection: "{} events · {}",
    allocated_in: "allocated {} in {} tensors",
    freed_in: "freed {} in {} tensors",
    net: "net {}",
    highest: "highest {} live",
    clear: "Clear",
    zoom_to_selection: "Zoom to it",
    phase: "Phase",
    total: "Total live",
    length: "Length",
    table_caption: "Memory by phase and category, at the moment of each phase's peak",
    empty: "No step to show yet",
};

/// Chinese.
pub const CHINESE: TimelineWords = TimelineWords {
    phases: ["构建", "前向", "损失", "反向", "梯度裁剪", "优化器", "梯度清零"],
    phases_short: ["构", "前", "损", "反", "裁", "优", "零"],
    categories: [
        "池外显存",
        "权重",
        "优化器状态",
        "梯度",
        "输入",
        "激活",
        "Logits 与损失",
        "临时张量",
        "分配器空隙",
    ],
    activations: ["激活：注意力", "激活：MLP", "激活：归一化", "激活：其他"],
    blocks: ["注意力", "MLP", "归一化", "其他"],
    already_used: "已被占用",
    capacity: "容量 {}",
    peak: "峰值：存活 {}",
    on_device: "设备占用 {}",
    free: "剩余 {}",
    over: "超出 {}",
    micro_batch: "微批次 {}",
    host: "主机",
    compute: "GPU",
    chart: "一个训练步内的显存：峰值时存活 {}（{}阶段），设备占用 {}，容量 {}。",
    chart_role: "显存时间线",
    keys_hint: "左右方向键逐个事件移动，上下方向键切换张量；W、S 缩放，A、D 平移；\
                P 跳到峰值，F 适配窗口，M 固定，/ 搜索张量。",
    time: "主机时间",
    order: "事件序",
    x_axis: "横轴",
    y_axis: "纵轴",
    y_auto: "自动",
    y_capacity: "到容量",
    y_live: "到存活字节",
    y_window: "放大细节",
    zoom_in: "放大（W）",
    zoom_out: "缩小（S）",
    whole: "全部",
    whole_step: "整个训练步（0）",
    to_the_peak: "峰值",
    time_hint: "主机时间：主机领先于 GPU 分配和释放显存（X 切换）",
    order_hint: "每次分配或释放等宽（X 切换）",
    to_peak: "跳到峰值（P）",
    as_table: "表格",
    legend: "类别",
    uncertainty: "误差 ±",
    event: "事件 {}",
    event_of: "事件 {} / {}",
    layer: "第 {} 层",
    size: "大小",
    born: "分配",
    dies: "释放",
    before_step: "训练步开始之前",
    after_step: "训练步结束后仍存活",
    share_of_peak: "占峰值",
    not_at_peak: "峰值时不存活",
    live: "存活",
    live_peak: "最高存活",
    phase_hint: "点击放大到该阶段，再次点击显示整个训练步。",
    reserved: "已预留",
    pinned: "已固定",
    free_here: "空闲",
    outside_hint: "上下文、内核与库，由驱动持有，不经过缓存分配器。",
    already_used_hint: "本进程启动前，卡上已有的占用。",
    slack_hint: "缓存分配器已预留但未分出的显存：取整、切分与碎片。",
    issued: "下发",
    runs: "执行",
    waits: "等待 {}",
    selection: "{} 个事件 · {}",
    allocated_in: "分配 {}，共 {} 个张量",
    freed_in: "释放 {}，共 {} 个张量",
    net: "净变化 {}",
    highest: "最高存活 {}",
    clear: "清除",
    zoom_to_selection: "放大到选区",
    phase: "阶段",
    total: "存活合计",
    length: "时长",
    table_caption: "各阶段峰值时刻的显存，按类别",
    empty: "还没有可显示的训练步",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fill_their_places() {
        assert_eq!(fill("event {} of {}", &["3", "7"]), "event 3 of 7");
        assert_eq!(fill("plain", &["x"]), "plain");
        assert_eq!(fill("{} and {}", &["a"]), "a and ");
    }

    #[test]
    fn both_languages_ask_for_the_same_values() {
        let places = |text: &str| text.matches("{}").count();
        let pairs = [
            (ENGLISH.chart, CHINESE.chart),
            (ENGLISH.event_of, CHINESE.event_of),
            (ENGLISH.selection, CHINESE.selection),
            (ENGLISH.allocated_in, CHINESE.allocated_in),
        ];
        for (english, chinese) in pairs {
            assert_eq!(places(english), places(chinese), "{english}");
        }
    }
}
