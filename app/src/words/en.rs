//! English.

use simulator::wire::report::{Outcome, StepKind, TimeMode};
use simulator::wire::timeline::{Category, PhaseKind};

use super::en_fields::field;
use super::{
    Choices, Form, Help, OomSentence, RankWords, Sentence, Share, Shell, SpeedSentence, Tables,
    VerdictWords, Words,
};
use crate::field::FieldsetName;
use crate::state::Tab;

/// All English words.
pub(crate) const EN: Words = Words {
    shell: SHELL,
    form: FORM,
    verdict: VERDICT,
    tables: TABLES,
    ranks: RANKS,
    help: HELP,
    share: SHARE,
    category,
    phase,
    in_phase,
    step,
    tab,
    fieldset,
    field,
    config_key,
    preset: |_| None,
    fault: |fault| sentence_case(&fault.message),
    note: |note| sentence_case(&note.message),
    figure,
};

/// The simulator's sentence with a capital and a full stop, as the page writes them.
fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let stop = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{}{stop}", letters.as_str())
}

const SHELL: Shell = Shell {
    title: "Plan",
    skip: "Skip to the answer",
    undo: "Undo",
    redo: "Redo",
    share: "Share",
    export: "Export",
    unit: "Unit of memory",
    language: "Language",
    theme: "Theme",
    light: "Light",
    dark: "Dark",
    help: "Keys and help",
    close: "Close",
    inputs: "Inputs",
    done: "Done",
    dismiss: "Dismiss",
    first_or_steady: "Which step",
    not_found: "No such page",
    not_found_text: "Nothing is at this address.",
    to_plan: "Go to the plan",
    link_newer: "This link was made by a newer Tidemark. Reload the page, or ask whoever runs this server to update it.",
    link_broken: "This link is cut off or garbled, so the page shows its default plan instead.",
    prediction_changed: |then, now| {
        format!(
            "The rules have improved since this link was made: it said {then} at the peak, now it is {now}."
        )
    },
    link_loading: "Loading the shared plan…",
    link_missing: "No plan is stored under this short link on this server.",
    worker_failed: "The simulator stopped on these inputs; the answer below is for the inputs before. Please report the link of this page.",
};

const FORM: Form = Form {
    title: "Inputs",
    search: "Find a setting",
    preset: "Start from",
    preset_own: "Your own",
    more: "More",
    reset: "Back to where you started",
    whole_number: "Write a whole number.",
    number: "Write a number.",
    size: "Write a size such as 79.6, 80 GB or 512 MiB.",
    mend: |value| format!("Set to {value}"),
    mend_of: |field, value| format!("{field}: {value}"),
    mend_off: "Leave out",
    drop_here: "Drop a config.json here, or",
    drop_now: "Drop it to use this model",
    choose_file: "choose a file",
    paste: "paste it",
    paste_title: "Paste a config.json",
    paste_help: "The config.json of a Hugging Face model, or a Tidemark scenario as JSON. It stays in this browser.",
    paste_use: "Use it",
    import_failed: |name| format!("{name} cannot be used:"),
    imported: |name| format!("{name} is in use."),
    edit_shape: "Edit its shape",
    own_model: "Your own model",
    other_faults: "Other faults",
    catalog_facts: |parameters, layers| format!("{parameters} parameters · {layers} layers"),
    rank_facts: |parameters| format!("{parameters} on this rank"),
    trained_facts: |parameters| format!("{parameters} trained"),
    momentum_none: "none",
    as_the_input: "as the input",
    optional: "no limit",
    choices: Choices {
        fp32: "fp32",
        bf16: "bf16, weights and states too",
        amp_bf16: "fp32 with autocast to bf16",
        amp_fp16: "fp32 with autocast to fp16, scaled",
        reduce_own: "as they are",
        foreach: "foreach",
        fused: "fused",
        looped: "loop",
        checkpoint_none: "keep all",
        checkpoint_full: "every layer",
        checkpoint_selective: "core attention",
        distributed_optimizer: "distributed optimizer",
        sdpa: "SDPA",
        eager: "eager",
        loss_5: "transformers 5: fp32 copy of the logits",
        loss_4: "transformers 4.3x: fp32 copy, shifted copy",
        loss_fused: "fused with the head (Liger)",
    },
};

const VERDICT: VerdictWords = VerdictWords {
    heading: "Does it fit?",
    outcome: |outcome| match outcome {
        Outcome::Fits => "Fits",
        Outcome::DoesNotFit => "Does not fit",
        Outcome::TooClose => "Too close to call",
    },
    sentence,
    out_of_memory: |OomSentence { size, what, phase, step }| {
        format!("{what} asks for {size} in {phase} of the {step} and is refused.")
    },
    speed: |SpeedSentence { step, tokens, mfu }| {
        let mfu = mfu.map_or_else(String::new, |mfu| format!(" · MFU {mfu}"));
        format!("Step {step} · {tokens} tokens/s{mfu}")
    },
    host_bound: "launch-bound",
    mode: |mode| match mode {
        TimeMode::Nominal => "nominal times",
        TimeMode::Measured => "measured rates",
    },
    mode_help: |mode| match mode {
        TimeMode::Nominal => {
            "From the datasheet and general efficiencies; nothing was measured on this GPU."
        }
        TimeMode::Measured => "From rates measured on this GPU model.",
    },
    unverified: "Not verified:",
    waiting: "Working it out…",
    faults: |n| match n {
        1 => "One input needs a look; the answer below is for the inputs before.".to_owned(),
        n => format!("{n} inputs need a look; the answer below is for the inputs before."),
    },
    gauge: |peak, limit, band| format!("{peak} of {limit} used, give or take {band}"),
};

fn sentence(s: &Sentence<'_>) -> String {
    let Sentence { peak, limit, band, margin, unit, phase, step, .. } = s;
    let cap = if s.by_cap { " that the process may use" } else { "" };
    let on = s.stage.map_or_else(String::new, |stage| format!(" on stage {stage}"));
    match s.outcome {
        Outcome::Fits => format!(
            "{peak} of {limit} {unit}{cap} at the peak (± {band}), in {phase} of the {step}{on}. {margin} {unit} free."
        ),
        Outcome::TooClose => format!(
            "{peak} of {limit} {unit}{cap} at the peak, in {phase} of the {step}{on}; the error band of ± {band} {unit} crosses the limit."
        ),
        Outcome::DoesNotFit => format!(
            "{peak} {unit} at the peak (± {band}), in {phase} of the {step}{on}: {margin} {unit} more than the {limit}{cap}."
        ),
    }
}

const TABLES: Tables = Tables {
    tensor: "Tensor",
    category: "Category",
    primitive: "Primitive",
    block: "Block",
    layer: "Layer",
    size: "Size",
    share: "Share",
    born: "Born",
    dies: "Dies",
    before: "before",
    never: "after",
    tensors: "Tensors",
    phase: "Phase",
    start: "At its start",
    end: "At its end",
    peak: "Peak",
    time: "Time",
    value: "Value",
    formula: "Formula",
    source: "Source",
    figure: "Figure",
    filter: "Filter tensors",
    figures_filter: "Filter figures",
    alive: |n, bytes, event, time| format!("{n} tensors alive, {bytes}, at event {event} ({time})"),
    alive_in: |n, bytes, events, time| {
        format!("{n} tensors live in events {events} ({time}), {bytes} together")
    },
    cursor_range: "selection",
    cursor_peak: "peak",
    cursor_held: "held here",
    cursor_hover: "at the cursor",
    to_peak: "Back to the peak",
    peak_caption: |phase, time| {
        format!("What stands at the peak, in {phase}, {time} into the step")
    },
    at_peak: "At the peak",
    breakdown: "By block and primitive",
    total: "Total on the device",
    forward: "Forward and loss",
    backward: "Backward",
    optimizer: "Optimizer",
    idle: "Device waits for the host",
    step_time: "Whole step",
    tokens_per_s: "Tokens per second",
    mfu: "MFU",
    requested: "Requested",
    requested_help: "Highest sum of what the program asked for and has not given back.",
    allocated: "Allocated",
    allocated_help: "The same in whole blocks, after rounding: torch.cuda.max_memory_allocated.",
    reserved: "Reserved",
    reserved_help: "Held from the driver in segments: torch.cuda.max_memory_reserved.",
    outside: "Outside the pool",
    outside_help: "Context, kernels and library workspaces, which the allocator does not see.",
    already: "Already in use",
    already_help: "By other processes, as given in the inputs.",
    device: "On the device",
    device_help: "What the driver's tool shows at the peak; compared with the card's memory.",
    allocations: "Allocations",
    allocations_help: "Requests to the allocator in one step.",
    base: "At the step's start",
    base_help: "Requested bytes that are alive before the step begins.",
    meaning: "Meaning",
    micro_batch: |n| format!("micro-batch {}", n + 1),
    no_figures: "No figures were given for this answer.",
    empty: "Nothing matches.",
};

const RANKS: RankWords = RankWords {
    stage: |stage| format!("Stage {stage}"),
    highest: "highest",
    highest_is: |s| {
        format!(
            "Stage {} of {} is the highest: {} allocated in {} of micro-batch {} of the {}, at {}. {}.",
            s.stage,
            s.stages,
            s.size,
            s.phase,
            s.micro_batch + 1,
            s.step,
            s.what,
            in_flight(s.in_flight)
        )
    },
    in_flight,
    none: "Every GPU of this job holds as much as the one that is shown. The stages of a pipeline \
           (Megatron-core) differ, and are shown here side by side.",
};

fn in_flight(forwards: u64) -> String {
    match forwards {
        1 => "1 forward in flight".to_owned(),
        forwards => format!("{forwards} forwards in flight"),
    }
}

const HELP: Help = Help {
    title: "Keys",
    timeline: "On the timeline",
    page: "Anywhere",
    timeline_keys: &[
        ("W S", "zoom in, out"),
        ("A D", "pan left, right"),
        ("← →", "event by event; with Shift by ten"),
        ("↑ ↓", "tensor by tensor in the stack"),
        ("[ ]", "phase by phase"),
        ("P", "to the peak"),
        ("F", "fit the lit tensor, or the whole step"),
        ("M", "pin, unpin the lit tensor"),
        ("X Y", "switch the axes"),
        ("Esc", "let go of everything"),
        ("wheel, drag", "zoom at the pointer, pan"),
        ("Shift + drag", "select a range"),
        ("double click", "the whole step"),
    ],
    page_keys: &[
        ("Ctrl + Z", "undo"),
        ("Ctrl + Y", "redo"),
        ("/", "filter tensors"),
        ("Ctrl + K", "find a setting"),
        ("1 – 6", "choose a tab"),
        ("T", "first step, steady step"),
        ("?", "this help"),
    ],
};

const SHARE: Share = Share {
    title: "Share this plan",
    long_link: "Link that holds everything",
    short_link: "Short link",
    make_short: "Make a short link",
    copy: "Copy",
    copied: "Copied",
    short_failed: |why| format!("The server did not store it: {why}"),
    note: "Both hold the inputs and what you look at. The first needs no server.",
    csv: "Tensors (CSV)",
    png: "Timeline (PNG)",
    svg: "Timeline (SVG)",
    json: "Report (JSON)",
    trace: "Chrome trace (JSON)",
    scenario: "Scenario (JSON)",
    print: "Print or PDF",
};

const fn category(category: Category) -> &'static str {
    match category {
        Category::OutsidePool => "Outside the pool",
        Category::Weights => "Weights",
        Category::OptimizerStates => "Optimizer states",
        Category::Gradients => "Gradients",
        Category::Inputs => "Inputs",
        Category::Activations => "Activations",
        Category::Logits => "Logits and loss",
        Category::Temporaries => "Temporaries",
        Category::Slack => "Allocator slack",
    }
}

const fn phase(phase: PhaseKind) -> &'static str {
    match phase {
        PhaseKind::Build => "build",
        PhaseKind::Forward => "forward",
        PhaseKind::Loss => "loss",
        PhaseKind::Backward => "backward",
        PhaseKind::Clip => "clipping",
        PhaseKind::Optimizer => "optimizer",
        PhaseKind::ZeroGrad => "zero_grad",
    }
}

const fn in_phase(phase: PhaseKind) -> &'static str {
    match phase {
        PhaseKind::Build => "construction",
        PhaseKind::Forward => "the forward pass",
        PhaseKind::Loss => "the loss",
        PhaseKind::Backward => "the backward pass",
        PhaseKind::Clip => "gradient clipping",
        PhaseKind::Optimizer => "the optimizer's update",
        PhaseKind::ZeroGrad => "zero_grad",
    }
}

const fn step(step: StepKind) -> &'static str {
    match step {
        StepKind::First => "first step",
        StepKind::Steady => "steady step",
    }
}

const fn tab(tab: Tab) -> &'static str {
    match tab {
        Tab::Cursor => "At the cursor",
        Tab::Peak => "Peak",
        Tab::Ranks => "Ranks",
        Tab::Time => "Time",
        Tab::Allocator => "Allocator",
        Tab::Why => "Why this number",
    }
}

const fn fieldset(name: FieldsetName) -> &'static str {
    match name {
        FieldsetName::Model => "Model",
        FieldsetName::Hardware => "Hardware",
        FieldsetName::Workload => "Workload",
        FieldsetName::Precision => "Precision",
        FieldsetName::Adapter => "Adapter",
        FieldsetName::Optimizer => "Optimizer",
        FieldsetName::Savings => "Checkpointing",
        FieldsetName::Stack => "Attention, loss, allocator",
    }
}

fn config_key(key: &str) -> Option<&'static str> {
    Some(match key {
        "hidden_size" | "n_embd" => "Hidden size",
        "intermediate_size" | "n_inner" => "MLP size",
        "num_hidden_layers" | "n_layer" => "Layers",
        "num_attention_heads" | "n_head" => "Heads",
        "num_key_value_heads" => "KV heads",
        "head_dim" => "Head size",
        "vocab_size" => "Vocabulary",
        "max_position_embeddings" | "n_positions" => "Positions",
        "tie_word_embeddings" => "Tied embeddings",
        "sliding_window" => "Sliding window",
        _ => return None,
    })
}

fn figure(id: &str) -> Option<&'static str> {
    Some(match id {
        "parameters" => "Parameters",
        "trainable_parameters" => "Trained parameters",
        "weights" => "Weights",
        "gradients" => "Gradients",
        "optimizer_states" => "Optimizer states",
        "activations" => "Activations",
        "logits" => "Logits",
        "log_softmax" => "Log-softmax",
        "log_probabilities" => "Log-probabilities",
        "peak_requested" => "Peak requested",
        "peak_allocated" => "Peak allocated",
        "peak_reserved" => "Peak reserved",
        "outside_pool" => "Outside the pool",
        "device_peak" => "Peak on the device",
        "margin" => "Margin",
        "band" => "Error band",
        "step_time" => "Step time",
        "tokens_per_s" => "Tokens per second",
        "model_flops" => "Model FLOPs",
        "mfu" => "MFU",
        _ => return None,
    })
}
