//! 中文：用领域内的说法，不逐字翻译。

use simulator::wire::report::{Outcome, StepKind, TimeMode};
use simulator::wire::timeline::{Category, PhaseKind};

use super::zh_faults::{fault, note};
use super::zh_fields::field;
use super::{
    Choices, Form, Help, OomSentence, RankWords, Sentence, Share, Shell, SpeedSentence, Tables,
    VerdictWords, Words,
};
use crate::field::FieldsetName;
use crate::state::Tab;

/// All Chinese words.
pub(crate) const ZH: Words = Words {
    shell: SHELL,
    form: FORM,
    verdict: VERDICT,
    tables: TABLES,
    ranks: RANKS,
    help: HELP,
    share: SHARE,
    category,
    phase,
    in_phase: phase,
    step,
    tab,
    fieldset,
    field,
    config_key,
    preset,
    fault,
    note,
    figure,
};

const SHELL: Shell = Shell {
    title: "规划",
    skip: "跳到结论",
    undo: "撤销",
    redo: "重做",
    share: "分享",
    export: "导出",
    unit: "显存单位",
    language: "语言",
    theme: "配色",
    light: "浅色",
    dark: "深色",
    help: "快捷键与帮助",
    close: "关闭",
    inputs: "输入",
    done: "完成",
    dismiss: "知道了",
    first_or_steady: "查看哪一步",
    not_found: "页面不存在",
    not_found_text: "这个网址下没有内容。",
    to_plan: "回到规划页",
    link_newer: "该链接由更新版本的 Tidemark 生成。请刷新页面，或请管理员升级本服务。",
    link_broken: "该链接不完整或已损坏，页面改为显示默认方案。",
    prediction_changed: |then, now| {
        format!("生成该链接之后预测规则有改进：当时的峰值为 {then}，现在为 {now}。")
    },
    link_loading: "正在载入分享的方案……",
    link_missing: "本服务器上没有这个短链接对应的方案。",
    worker_failed: "模拟器在当前输入下异常退出，下面显示的是上一次输入的结果。请把本页链接反馈给我们。",
};

const FORM: Form = Form {
    title: "输入",
    search: "查找设置项",
    preset: "从预设开始",
    preset_own: "自定义",
    more: "更多",
    reset: "恢复初始值",
    whole_number: "请输入整数。",
    number: "请输入数字。",
    size: "请输入容量，例如 79.6、80 GB 或 512 MiB。",
    mend: |value| format!("改为 {value}"),
    mend_of: |field, value| format!("{field}：{value}"),
    mend_off: "去掉",
    drop_here: "把 config.json 拖到这里，或",
    drop_now: "松手即可使用该模型",
    choose_file: "选择文件",
    paste: "直接粘贴",
    paste_title: "粘贴 config.json",
    paste_help: "Hugging Face 模型的 config.json，或 JSON 格式的 Tidemark 方案。内容只留在本浏览器中。",
    paste_use: "使用",
    import_failed: |name| format!("{name} 无法使用："),
    imported: |name| format!("已使用 {name}。"),
    edit_shape: "编辑结构",
    own_model: "自定义模型",
    other_faults: "其他问题",
    catalog_facts: |parameters, layers| format!("{parameters} 参数 · {layers} 层"),
    rank_facts: |parameters| format!("本 rank {parameters}"),
    trained_facts: |parameters| format!("训练 {parameters}"),
    momentum_none: "无",
    as_the_input: "与输入相同",
    optional: "不限制",
    choices: Choices {
        fp32: "fp32",
        bf16: "bf16（权重与优化器状态也是）",
        amp_bf16: "fp32 权重 + bf16 autocast",
        amp_fp16: "fp32 权重 + fp16 autocast，带梯度缩放",
        reduce_own: "保持原格式",
        foreach: "foreach",
        fused: "fused",
        looped: "逐个参数",
        checkpoint_none: "全部保留",
        checkpoint_full: "逐层重计算",
        checkpoint_selective: "仅核心注意力",
        distributed_optimizer: "分布式优化器",
        sdpa: "SDPA",
        eager: "eager",
        loss_5: "transformers 5：logits 转 fp32",
        loss_4: "transformers 4.3x：转 fp32 并复制移位",
        loss_fused: "与输出层融合（Liger）",
    },
};

const VERDICT: VerdictWords = VerdictWords {
    heading: "装得下吗？",
    outcome: |outcome| match outcome {
        Outcome::Fits => "装得下",
        Outcome::DoesNotFit => "装不下",
        Outcome::TooClose => "难以断定",
    },
    sentence,
    out_of_memory: |OomSentence { size, what, phase, step }| {
        format!("{step}的{phase}阶段，{what} 申请 {size} 被拒绝。")
    },
    speed: |SpeedSentence { step, tokens, mfu }| {
        let mfu = mfu.map_or_else(String::new, |mfu| format!(" · MFU {mfu}"));
        format!("每步 {step} · {tokens} token/s{mfu}")
    },
    host_bound: "受限于内核启动",
    mode: |mode| match mode {
        TimeMode::Nominal => "标称时间",
        TimeMode::Measured => "实测速率",
    },
    mode_help: |mode| match mode {
        TimeMode::Nominal => "按规格书与通用效率估算，未在该 GPU 上实测。",
        TimeMode::Measured => "采用在该型号 GPU 上实测的速率。",
    },
    unverified: "未经核实：",
    waiting: "正在计算……",
    faults: |n| format!("有 {n} 处输入需要修改，下面仍是上一次输入的结果。"),
    gauge: |peak, limit, band| format!("已用 {peak}，共 {limit}，误差 ± {band}"),
};

fn sentence(s: &Sentence<'_>) -> String {
    let Sentence { peak, limit, band, margin, unit, phase, step, .. } = s;
    let whole = if s.by_cap { "进程上限" } else { "显存" };
    let on = s.stage.map_or_else(String::new, |stage| format!("流水线第 {stage} 级"));
    match s.outcome {
        Outcome::Fits => format!(
            "峰值 {peak} {unit}（± {band}），{whole} {limit} {unit}，出现在{on}{step}的{phase}阶段，还剩 {margin} {unit}。"
        ),
        Outcome::TooClose => format!(
            "峰值 {peak} {unit}，{whole} {limit} {unit}，出现在{on}{step}的{phase}阶段；± {band} {unit} 的误差带跨过了上限。"
        ),
        Outcome::DoesNotFit => format!(
            "峰值 {peak} {unit}（± {band}），出现在{on}{step}的{phase}阶段，比{whole} {limit} {unit} 多出 {margin} {unit}。"
        ),
    }
}

const TABLES: Tables = Tables {
    tensor: "张量",
    category: "类别",
    primitive: "算子",
    block: "模块",
    layer: "层",
    size: "大小",
    share: "占比",
    born: "分配",
    dies: "释放",
    before: "步前",
    never: "步后",
    tensors: "张量数",
    phase: "阶段",
    start: "开始时",
    end: "结束时",
    peak: "峰值",
    time: "时间",
    value: "数值",
    formula: "公式",
    source: "出处",
    figure: "指标",
    filter: "筛选张量",
    figures_filter: "筛选指标",
    alive: |n, bytes, event, time| format!("事件 {event}（{time}）时有 {n} 个张量存活，共 {bytes}"),
    alive_in: |n, bytes, events, time| {
        format!("事件 {events}（{time}）期间有 {n} 个张量存活，合计 {bytes}")
    },
    cursor_range: "选区",
    cursor_peak: "峰值",
    cursor_held: "停在此处",
    cursor_hover: "光标处",
    to_peak: "回到峰值",
    peak_caption: |phase, time| format!("峰值时刻的显存构成：{phase}阶段，步内 {time}"),
    at_peak: "峰值构成",
    breakdown: "按模块与算子",
    total: "设备显存合计",
    forward: "前向与损失",
    backward: "反向",
    optimizer: "优化器",
    idle: "设备等待主机",
    step_time: "整步",
    tokens_per_s: "每秒 token 数",
    mfu: "MFU",
    requested: "请求量",
    requested_help: "程序已申请、尚未释放的字节数之和的最大值。",
    allocated: "已分配",
    allocated_help: "按整块计（含取整）：torch.cuda.max_memory_allocated。",
    reserved: "已预留",
    reserved_help: "缓存分配器以段为单位向驱动占有：torch.cuda.max_memory_reserved。",
    outside: "池外",
    outside_help: "CUDA 上下文、内核与库的工作区，缓存分配器看不到。",
    already: "已被占用",
    already_help: "其他进程占用，由输入给出。",
    device: "设备显存",
    device_help: "峰值时驱动工具显示的数值，与显卡容量相比较。",
    allocations: "分配次数",
    allocations_help: "一步内向缓存分配器的申请次数。",
    base: "步开始时",
    base_help: "一步开始前已存活的请求字节数。",
    meaning: "含义",
    micro_batch: |n| format!("微批 {}", n + 1),
    no_figures: "该结果没有附带公式。",
    empty: "没有匹配项。",
};

const RANKS: RankWords = RankWords {
    stage: |stage| format!("第 {stage} 级"),
    highest: "最高",
    highest_is: |s| {
        format!(
            "共 {} 级，第 {} 级最高：已分配 {}，出现在{}第 {} 个微批的{}阶段，位于 {}，{} 个前向尚未反向。",
            s.stages,
            s.stage,
            s.size,
            s.step,
            s.micro_batch + 1,
            s.phase,
            s.what,
            s.in_flight
        )
    },
    in_flight: |forwards| format!("{forwards} 个前向在途"),
    none: "该任务的每张 GPU 占用相同。流水线（Megatron-core）的各级占用不同，会在这里并排显示。",
};

const HELP: Help = Help {
    title: "快捷键",
    timeline: "时间线上",
    page: "任意位置",
    timeline_keys: &[
        ("W S", "放大、缩小"),
        ("A D", "左移、右移"),
        ("← →", "逐个事件移动，按住 Shift 每次十个"),
        ("↑ ↓", "在堆叠中逐个张量移动"),
        ("[ ]", "逐个阶段移动"),
        ("P", "跳到峰值"),
        ("F", "显示选中张量的存活期或整步"),
        ("M", "固定 / 取消固定选中的张量"),
        ("X Y", "切换坐标轴"),
        ("Esc", "全部取消"),
        ("滚轮、拖动", "以指针为中心缩放、平移"),
        ("Shift + 拖动", "选择一段"),
        ("双击", "显示整步"),
    ],
    page_keys: &[
        ("Ctrl + Z", "撤销"),
        ("Ctrl + Y", "重做"),
        ("/", "筛选张量"),
        ("Ctrl + K", "查找设置项"),
        ("1 – 6", "切换标签页"),
        ("T", "切换首步 / 稳态步"),
        ("?", "显示本帮助"),
    ],
};

const SHARE: Share = Share {
    title: "分享方案",
    long_link: "完整链接",
    short_link: "短链接",
    make_short: "生成短链接",
    copy: "复制",
    copied: "已复制",
    short_failed: |why| format!("服务器未能保存：{why}"),
    note: "两种链接都包含输入和当前视图；完整链接不依赖服务器。",
    csv: "张量表（CSV）",
    png: "时间线（PNG）",
    svg: "时间线（SVG）",
    json: "报告（JSON）",
    trace: "Chrome trace（JSON）",
    scenario: "方案（JSON）",
    print: "打印或存为 PDF",
};

const fn category(category: Category) -> &'static str {
    match category {
        Category::OutsidePool => "池外显存",
        Category::Weights => "权重",
        Category::OptimizerStates => "优化器状态",
        Category::Gradients => "梯度",
        Category::Inputs => "输入数据",
        Category::Activations => "激活",
        Category::Logits => "Logits 与损失",
        Category::Temporaries => "临时张量",
        Category::Slack => "分配器空隙",
    }
}

const fn phase(phase: PhaseKind) -> &'static str {
    match phase {
        PhaseKind::Build => "构建",
        PhaseKind::Forward => "前向",
        PhaseKind::Loss => "损失",
        PhaseKind::Backward => "反向",
        PhaseKind::Clip => "梯度裁剪",
        PhaseKind::Optimizer => "优化器",
        PhaseKind::ZeroGrad => "梯度清零",
    }
}

const fn step(step: StepKind) -> &'static str {
    match step {
        StepKind::First => "首步",
        StepKind::Steady => "稳态步",
    }
}

const fn tab(tab: Tab) -> &'static str {
    match tab {
        Tab::Cursor => "光标处",
        Tab::Peak => "峰值",
        Tab::Ranks => "各级",
        Tab::Time => "时间",
        Tab::Allocator => "缓存分配器",
        Tab::Why => "数值由来",
    }
}

const fn fieldset(name: FieldsetName) -> &'static str {
    match name {
        FieldsetName::Model => "模型",
        FieldsetName::Hardware => "硬件",
        FieldsetName::Workload => "负载",
        FieldsetName::Precision => "精度",
        FieldsetName::Adapter => "适配器",
        FieldsetName::Optimizer => "优化器",
        FieldsetName::Savings => "重计算",
        FieldsetName::Stack => "注意力、损失与分配器",
    }
}

fn config_key(key: &str) -> Option<&'static str> {
    Some(match key {
        "hidden_size" | "n_embd" => "隐藏维度",
        "intermediate_size" | "n_inner" => "MLP 维度",
        "num_hidden_layers" | "n_layer" => "层数",
        "num_attention_heads" | "n_head" => "注意力头数",
        "num_key_value_heads" => "KV 头数",
        "head_dim" => "头维度",
        "vocab_size" => "词表大小",
        "max_position_embeddings" | "n_positions" => "最大位置数",
        "tie_word_embeddings" => "共享词嵌入",
        "sliding_window" => "滑动窗口",
        _ => return None,
    })
}

fn preset(id: &str) -> Option<&'static str> {
    Some(match id {
        "llama-3.2-1b" => "Llama 3.2 1B，纯 bf16，单张 H200",
        "llama-3.1-8b-checkpointed" => "Llama 3.1 8B，逐层重计算：峰值在优化器更新",
        "llama-3.1-8b-fused-80gb" => "Llama 3.1 8B，80 GB 显卡：fused 优化器，几无余量",
        "gpt2-autocast" => "GPT-2 small，autocast 与 eager 注意力，24 GB 显卡",
        "qwen2.5-0.5b-logits" => "Qwen2.5 0.5B：小模型，logits 占满显存",
        "qwen3-8b-fp32-weights" => "Qwen3 8B，fp32 权重加 autocast：每参数 16 字节",
        "llama-3.1-70b-3d" => "Llama 3.1 70B，64 张 H100：Megatron-core 张量并行 8 × 流水线 4",
        _ => return None,
    })
}

fn figure(id: &str) -> Option<&'static str> {
    Some(match id {
        "parameters" => "参数量",
        "trainable_parameters" => "可训练参数量",
        "weights" => "权重",
        "gradients" => "梯度",
        "optimizer_states" => "优化器状态",
        "activations" => "激活",
        "logits" => "Logits",
        "log_softmax" => "Log-softmax",
        "log_probabilities" => "对数概率",
        "peak_requested" => "请求量峰值",
        "peak_allocated" => "已分配峰值",
        "peak_reserved" => "已预留峰值",
        "outside_pool" => "池外显存",
        "device_peak" => "设备显存峰值",
        "margin" => "余量",
        "band" => "误差带",
        "step_time" => "每步时间",
        "tokens_per_s" => "每秒 token 数",
        "model_flops" => "模型 FLOPs",
        "mfu" => "MFU",
        _ => return None,
    })
}
