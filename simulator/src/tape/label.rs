//! Where an operation belongs: primitive, block, module, layer.

/// A primitive as the framework executes it.
///
/// The word of each is what the timeline shows; its backward gets the suffix `.backward`.
macro_rules! prims {
    ($($(#[$doc:meta])* $name:ident => $word:literal,)*) => {
        /// A primitive as the framework executes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Prim { $($(#[$doc])* $name,)* }

        impl Prim {
            /// All primitives.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word shown to people.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

prims! {
    /// Storage of a parameter or buffer.
    Parameter => "parameter",
    /// Input data.
    Input => "input",
    /// `aten::embedding`.
    Embedding => "embedding",
    /// `aten::to` with another dtype, or a layout copy.
    Copy => "copy",
    /// A view, a module's call: work of the host alone.
    View => "view",
    /// `aten::arange`.
    Arange => "arange",
    /// `aten::add`.
    Add => "add",
    /// `aten::mul`.
    Mul => "mul",
    /// `aten::div`.
    Div => "div",
    /// `aten::neg`.
    Neg => "neg",
    /// `aten::pow`.
    Pow => "pow",
    /// `aten::mean`.
    Mean => "mean",
    /// `aten::sum`.
    Sum => "sum",
    /// `aten::rsqrt`.
    Rsqrt => "rsqrt",
    /// `aten::tanh`.
    Tanh => "tanh",
    /// `aten::cat`.
    Cat => "cat",
    /// `aten::slice`.
    Slice => "slice",
    /// `aten::gather`.
    Gather => "gather",
    /// `aten::split`.
    Split => "split",
    /// `aten::cos` and `aten::sin`.
    Trigonometry => "cos/sin",
    /// `aten::silu`.
    Silu => "silu",
    /// `aten::sigmoid`.
    Sigmoid => "sigmoid",
    /// `aten::gelu`.
    Gelu => "gelu",
    /// `aten::relu`.
    Relu => "relu",
    /// `aten::linear` without bias: `aten::mm`.
    Linear => "linear",
    /// `aten::addmm`.
    Addmm => "addmm",
    /// `aten::bmm`.
    Bmm => "bmm",
    /// `aten::_grouped_mm`.
    GroupedMm => "grouped_mm",
    /// `aten::topk`.
    TopK => "topk",
    /// `aten::sort`.
    Sort => "sort",
    /// `aten::histc` and the running sum of its counts.
    Histogram => "histc",
    /// `aten::index` and `aten::gather`: rows or elements by their numbers.
    Index => "index",
    /// `aten::masked_fill`.
    MaskedFill => "masked_fill",
    /// `aten::convolution`.
    Conv => "conv2d",
    /// `aten::cudnn_batch_norm`, `aten::native_batch_norm`.
    BatchNorm => "batch_norm",
    /// `aten::max_pool2d`, `aten::avg_pool2d`, `aten::adaptive_avg_pool2d`.
    Pool => "pool",
    /// `aten::hardswish`.
    Hardswish => "hardswish",
    /// `aten::hardsigmoid`.
    Hardsigmoid => "hardsigmoid",
    /// Noise of `StochasticDepth` and of dropout in place.
    Bernoulli => "bernoulli",
    /// `aten::native_layer_norm`.
    LayerNorm => "layer_norm",
    /// `aten::native_dropout`.
    Dropout => "dropout",
    /// `aten::_softmax`.
    Softmax => "softmax",
    /// `aten::_log_softmax`.
    LogSoftmax => "log_softmax",
    /// `aten::nll_loss`.
    NllLoss => "nll_loss",
    /// Fused linear cross-entropy.
    FusedLoss => "fused_linear_cross_entropy",
    /// `aten::scaled_dot_product_attention`.
    Sdpa => "sdpa",
    /// Attention mask preparation.
    Mask => "mask",
    /// Repetition of key and value heads.
    RepeatKv => "repeat_kv",
    /// A sum of gradients that meet.
    Accumulate => "accumulate",
    /// Workspace of cuBLAS or cuBLASLt.
    Workspace => "cublas workspace",
    /// Workspace of one of cuDNN's convolutions.
    ConvWorkspace => "cudnn workspace",
    /// Scaling of the loss, unscaling of gradients.
    GradScaler => "grad_scaler",
    /// Gradient norm and clipping.
    ClipGrad => "clip_grad_norm",
    /// Optimizer state.
    State => "optimizer state",
    /// Optimizer update.
    Update => "optimizer update",
    /// `zero_grad`.
    ZeroGrad => "zero_grad",
    /// Random initialisation.
    Init => "init",
    /// Parts of parameters from all ranks, and their copies in and out.
    AllGather => "all_gather",
    /// Sums of gradients, a part for each rank, and their copies in and out.
    ReduceScatter => "reduce_scatter",
    /// Sums over all ranks.
    AllReduce => "all_reduce",
    /// Rank 0's values for all ranks.
    Broadcast => "broadcast",
}

macro_rules! blocks {
    ($($(#[$doc:meta])* $name:ident => $word:literal,)*) => {
        /// A block of the model or a part of the step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Block { $($(#[$doc])* $name,)* }

        impl Block {
            /// All blocks.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word shown to people.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

blocks! {
    /// Token and position embeddings.
    Embedding => "embedding",
    /// Attention mask.
    Mask => "mask",
    /// Rotary tables.
    Rotary => "rotary_emb",
    /// Norm before attention.
    InputNorm => "input_layernorm",
    /// Attention.
    Attention => "self_attn",
    /// Norm before the MLP.
    PostNorm => "post_attention_layernorm",
    /// MLP.
    Mlp => "mlp",
    /// A residual addition.
    Residual => "residual",
    /// Norm after the last layer.
    FinalNorm => "final_norm",
    /// Output projection.
    LmHead => "lm_head",
    /// A layer of an image network.
    Features => "features",
    /// Loss.
    Loss => "loss",
    /// Gradient scaler.
    Scaler => "grad_scaler",
    /// Clipping.
    Clip => "clip_grad_norm",
    /// Optimizer.
    Optimizer => "optimizer",
    /// Input data.
    Data => "data",
    /// Libraries.
    Library => "library",
    /// What ranks exchange.
    Parallel => "parallel",
}

/// Where an operation belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Block.
    pub block: Block,
    /// Module or variable within the block, as the model's source names it.
    pub module: &'static str,
    /// Layer, if it is in one.
    pub layer: Option<u32>,
    /// Whether it is the backward of the primitive.
    pub backward: bool,
}

impl Default for Scope {
    fn default() -> Self {
        Self { block: Block::Data, module: "", layer: None, backward: false }
    }
}
