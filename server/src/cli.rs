//! The command line: definitions only. `commands` runs them.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use simulator::accuracy::{Limits, Side};
use simulator::scenario::{Word, parse_size};
use simulator::wire::parallel::DataParallel;
use simulator::wire::scenario::{
    Attention, Checkpointing, Implementation, Loss, OptimizerName, Precision,
};

/// GPU memory of a training step, moment by moment.
#[derive(Debug, Parser)]
#[command(name = "tidemark", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate one training process: does it fit, what stands at the peak, how long is a step
    Simulate(Box<Simulate>),
    /// Check scenario files
    #[command(subcommand)]
    Scenario(Scenario),
    /// List the models that a scenario can name
    Models(List),
    /// List the GPUs that a scenario can name
    Gpus(List),
    /// Predict measured runs and say how far off the predictions are
    Accuracy(Box<Accuracy>),
    /// Measure how fast the simulator itself is
    Bench(Bench),
    /// Serve the page and the API
    Serve(Box<Serve>),
}

/// `tidemark simulate`.
#[derive(Debug, Args)]
#[command(after_long_help = SIMULATE_HELP)]
pub struct Simulate {
    /// Scenario file, TOML or JSON; `-` reads standard input
    pub file: Option<PathBuf>,
    /// Fields of the scenario.
    #[command(flatten)]
    pub fields: Fields,
    /// How to answer.
    #[command(flatten)]
    pub output: SimulateOutput,
}

const SIMULATE_HELP: &str = "\
Exit codes:
  0  fits
  1  does not fit
  2  bad input; standard error names every fault, one a line, with its field
  3  too close to call

Examples:
  tidemark simulate --model llama-3.2-1b --gpu h100-sxm --micro-batch 4 --seq-len 2048
  tidemark simulate run.toml --checkpointing full
  tidemark simulate run.toml --format chrome-trace --output step.json";

/// How `tidemark simulate` answers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct SimulateOutput {
    /// Print the report as JSON
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write one step in another tool's format instead of the report
    #[arg(long, value_enum)]
    pub format: Option<Export>,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The step that --format writes
    #[arg(long, value_enum, default_value = "steady", value_name = "STEP")]
    pub step: Step,
}

/// Formats for one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Export {
    /// Trace events: open in Perfetto or `chrome://tracing`
    ChromeTrace,
    /// Memory snapshot: open in PyTorch's `memory_viz`
    Snapshot,
    /// One row for each allocation and free
    Csv,
    /// The timeline as the page reads it
    TimelineJson,
}

/// Which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// The first step, in which the optimizer creates its states
    First,
    /// Every later step
    Steady,
}

/// Fields of a scenario; each overrides the file's.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Scenario (flags override the file)")]
pub struct Fields {
    /// Model of the catalog (see `tidemark models`)
    #[arg(long, value_name = "ID", conflicts_with = "config")]
    pub model: Option<String>,
    /// Hugging Face config.json of the model
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// GPU of the catalog (see `tidemark gpus`)
    #[arg(long, value_name = "ID")]
    pub gpu: Option<String>,
    /// Sequences per forward pass [default: 1]
    #[arg(long, value_name = "N")]
    pub micro_batch: Option<u64>,
    /// Tokens per sequence [default: 1024]
    #[arg(long, value_name = "N")]
    pub seq_len: Option<u64>,
    /// Tokens per target sequence of an encoder–decoder [default: as many]
    #[arg(long, value_name = "N")]
    pub target_len: Option<u64>,
    /// Forward and backward passes per optimizer step [default: 1]
    #[arg(long, value_name = "N")]
    pub grad_accum: Option<u64>,
    /// Number formats [default: bf16]
    #[arg(long, value_parser = words::<Precision>())]
    pub precision: Option<String>,
    /// Let fp32 matrix products run as TF32 [default: false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub tf32: Option<bool>,
    /// Compile the model (`torch.compile`) [default: false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub compile: Option<bool>,
    /// Keep what backward needs in pinned host memory (`save_on_cpu`) [default: false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub activation_offload: Option<bool>,
    /// Step each parameter as soon as its gradient is there [default: false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub in_backward: Option<bool>,
    /// Update rule [default: adamw]
    #[arg(long, value_parser = words::<OptimizerName>())]
    pub optimizer: Option<String>,
    /// Which of PyTorch's implementations of the optimizer [default: the optimizer's own]
    #[arg(long, value_parser = words::<Implementation>())]
    pub implementation: Option<String>,
    /// Momentum of sgd and rmsprop
    #[arg(long, value_name = "X")]
    pub momentum: Option<f64>,
    /// What is computed again instead of kept [default: none]
    #[arg(long, value_parser = words::<Checkpointing>())]
    pub checkpointing: Option<String>,
    /// GPUs of the job; one rank is simulated [default: 1]
    #[arg(long, value_name = "N")]
    pub gpus: Option<u64>,
    /// GPUs that share each matrix product (tensor parallelism) [default: 1]
    #[arg(long, value_name = "N")]
    pub tp: Option<u64>,
    /// How replicas share weights, gradients and states
    #[arg(long, value_parser = words::<DataParallel>())]
    pub data: Option<String>,
    /// Train LoRA adapters of this rank instead of the model
    #[arg(long, value_name = "R")]
    pub lora_rank: Option<u64>,
    /// Modules that get one, such as `q_proj,v_proj`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub lora_targets: Option<Vec<String>>,
    /// Dropout of the adapters' input [default: 0]
    #[arg(long, value_name = "P")]
    pub lora_dropout: Option<f64>,
    /// How attention is written [default: sdpa]
    #[arg(long, value_parser = words::<Attention>())]
    pub attention: Option<String>,
    /// How the loss is written [default: transformers5]
    #[arg(long, value_parser = words::<Loss>())]
    pub loss: Option<String>,
    /// Clip the gradients' norm [default: false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub clip: Option<bool>,
    /// `PYTORCH_CUDA_ALLOC_CONF`, such as `expandable_segments:True`
    #[arg(long, value_name = "CONF")]
    pub alloc_conf: Option<String>,
    /// Memory that somebody else uses on the card, such as "2 GiB"
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub already_used: Option<u64>,
    /// Most memory that this process may reserve, such as "40 GiB"
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub process_cap: Option<u64>,
}

/// The words of a choice, for `--help` and for checking.
fn words<W: Word>() -> PossibleValuesParser {
    PossibleValuesParser::new(W::WORDS.iter().map(|(word, _)| *word))
}

/// A size as people write it.
fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "write it like \"2 GiB\", \"500 MB\" or 2147483648".to_owned())
}

/// `tidemark scenario`.
#[derive(Debug, Subcommand)]
pub enum Scenario {
    /// Check a scenario file: exit code 0 when it can be simulated, 2 with every fault otherwise
    Check {
        /// Scenario file, TOML or JSON; `-` reads standard input
        file: PathBuf,
    },
}

/// `tidemark models`, `tidemark gpus`.
#[derive(Debug, Args)]
pub struct List {
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `tidemark accuracy`.
#[derive(Debug, Args)]
#[command(after_long_help = ACCURACY_HELP)]
pub struct Accuracy {
    /// Captures (*.json.gz), published runs (*.jsonl), or folders of them
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Print JSON (docs/formats.md)
    #[arg(long)]
    pub json: bool,
    /// Fail when a statistic is larger: METRIC:median=0.2,p95=0.5,worst=1
    #[arg(long, value_name = "LIMITS", value_parser = |text: &str| Limits::parse(Side::Max, text))]
    pub max: Vec<Limits>,
    /// Fail when a statistic is smaller, such as `events_matched_pct:worst=97`
    #[arg(long, value_name = "LIMITS", value_parser = |text: &str| Limits::parse(Side::Min, text))]
    pub min: Vec<Limits>,
    /// Which cases.
    #[command(flatten)]
    pub cases: AccuracyCases,
    /// Where times come from.
    #[command(flatten)]
    pub times: AccuracyTimes,
    /// One case in detail.
    #[command(flatten)]
    pub explain: AccuracyExplain,
}

const ACCURACY_HELP: &str = "\
Limits are over all chosen cases: of errors their size in %, of other metrics the number itself.
Metrics: allocated_peak, reserved_peak, device_peak, step_time, forward_time, backward_time,
optimizer_time, events_matched_pct, curve_gap_pct, segments_equal.

Exit codes:
  0  all limits hold
  1  a limit failed
  2  an input could not be read

Examples:
  tidemark accuracy tests/ground-truth
  tidemark accuracy tests/ground-truth --id 'llama*' --max allocated_peak:median=0.2,worst=1
  tidemark accuracy tests/ground-truth --explain llama1b-bf16";

/// Which cases of `tidemark accuracy`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cases")]
pub struct AccuracyCases {
    /// Only cases of this family (repeatable)
    #[arg(long, value_name = "FAMILY")]
    pub family: Vec<String>,
    /// Only cases whose id matches, `*` for any characters (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub id: Vec<String>,
}

/// Where the times of `tidemark accuracy` come from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Times")]
pub struct AccuracyTimes {
    /// From the datasheet alone, without the measured profile of the GPU
    #[arg(long)]
    pub nominal: bool,
    /// From another hardware profile (not supported yet)
    #[arg(long, value_name = "FILE", conflicts_with = "nominal")]
    pub profile: Option<PathBuf>,
    /// From a fit on other captures (not supported yet)
    #[arg(long, value_name = "FILES", num_args = 1.., conflicts_with_all = ["nominal", "profile"])]
    pub calibrate: Vec<PathBuf>,
}

/// One case of `tidemark accuracy` in detail.
#[derive(Debug, Args)]
#[command(next_help_heading = "One case in detail")]
pub struct AccuracyExplain {
    /// Show where the prediction of this case and its capture part
    #[arg(long, value_name = "ID", conflicts_with = "json")]
    pub explain: Option<String>,
    /// Smallest request that is compared
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1 MiB")]
    pub smallest: u64,
    /// How many places are shown
    #[arg(long, value_name = "COUNT", default_value_t = 12)]
    pub places: usize,
}

/// `tidemark bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// Print JSON: name → median seconds
    #[arg(long)]
    pub json: bool,
    /// Compare with the budgets; exit code 1 when one is exceeded
    #[arg(long)]
    pub check: bool,
}

/// `tidemark serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Port; 0 takes a free one
    #[arg(long, env = "TIDEMARK_PORT", default_value_t = 7070, value_name = "PORT")]
    pub port: u16,
    /// Address to listen on
    #[arg(long, env = "TIDEMARK_BIND", default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub bind: IpAddr,
    /// Folder of the SQLite file
    #[arg(long, env = "TIDEMARK_DATA", default_value = "data", value_name = "DIR")]
    pub data: PathBuf,
    /// PostgreSQL instead of SQLite: `postgres://user:password@host/database`
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// Whoever stores something must show this token (or `sha256:` and its hash in hex). Without
    /// it, storing is open on a loopback address and closed on any other
    #[arg(long, env = "TIDEMARK_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// One reverse proxy stands before the server: count requests by the last address in its
    /// X-Forwarded-For
    #[arg(long, env = "TIDEMARK_BEHIND_PROXY")]
    pub behind_proxy: bool,
}
