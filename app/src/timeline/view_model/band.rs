//! The bands of the stack, from the bottom: categories, activations split by the block they serve.

use simulator::wire::timeline::Category;

/// One band of live tensors. Memory outside the pool lies below them, slack above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Band {
    /// Parameters and buffers.
    Weights,
    /// Optimizer states.
    OptimizerStates,
    /// Gradients of parameters.
    Gradients,
    /// Token ids and labels.
    Inputs,
    /// Activations kept by attention.
    AttentionActivations,
    /// Activations kept by the feed-forward block.
    MlpActivations,
    /// Activations kept by norms.
    NormActivations,
    /// All other activations: embeddings, residuals, masks.
    OtherActivations,
    /// Logits, log-probabilities and their gradients.
    Logits,
    /// What dies within its own computation.
    Temporaries,
}

/// Number of bands.
pub const N_BANDS: usize = 10;

impl Band {
    /// All bands in stacking order.
    pub const ALL: [Self; N_BANDS] = [
        Self::Weights,
        Self::OptimizerStates,
        Self::Gradients,
        Self::Inputs,
        Self::AttentionActivations,
        Self::MlpActivations,
        Self::NormActivations,
        Self::OtherActivations,
        Self::Logits,
        Self::Temporaries,
    ];

    /// Place in the stack, from the bottom.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The band at a place of the stack.
    pub fn at(index: u8) -> Self {
        Self::ALL[usize::from(index).min(N_BANDS - 1)]
    }

    /// The category whose colour it wears.
    pub fn category(self) -> Category {
        match self {
            Self::Weights => Category::Weights,
            Self::OptimizerStates => Category::OptimizerStates,
            Self::Gradients => Category::Gradients,
            Self::Inputs => Category::Inputs,
            Self::AttentionActivations
            | Self::MlpActivations
            | Self::NormActivations
            | Self::OtherActivations => Category::Activations,
            Self::Logits => Category::Logits,
            Self::Temporaries => Category::Temporaries,
        }
    }

    /// How far its shade moves from the category's colour towards the paper, in hundredths.
    pub fn tint(self) -> u8 {
        match self {
            Self::MlpActivations => 16,
            Self::NormActivations => 34,
            Self::OtherActivations => 50,
            _ => 0,
        }
    }
}

/// What kind of block an activation serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Attention of any sort.
    Attention,
    /// Feed-forward, experts included.
    Mlp,
    /// Layer norm, RMS norm.
    Norm,
    /// Anything else.
    Other,
}

impl BlockKind {
    /// Reads the kind off a block's name (`self_attn`, `mlp`, `input_layernorm`, `ln_1`).
    pub fn of(block: &str) -> Self {
        let block = block.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| block.contains(word));
        // `post_attention_layernorm` is a norm: the last word of a name says what it is.
        if has(&["norm"]) || block.starts_with("ln_") {
            Self::Norm
        } else if has(&["attn", "attention", "rotary"]) {
            Self::Attention
        } else if has(&["mlp", "ffn", "feed_forward", "expert", "moe"]) {
            Self::Mlp
        } else {
            Self::Other
        }
    }
}

/// The band of a tensor by its category's number and its block's kind.
pub fn band_of(category: u8, block: BlockKind) -> Band {
    let category = Category::ALL.get(usize::from(category)).copied();
    match category.unwrap_or(Category::Temporaries) {
        Category::Weights => Band::Weights,
        Category::OptimizerStates => Band::OptimizerStates,
        Category::Gradients => Band::Gradients,
        Category::Inputs => Band::Inputs,
        Category::Activations => match block {
            BlockKind::Attention => Band::AttentionActivations,
            BlockKind::Mlp => Band::MlpActivations,
            BlockKind::Norm => Band::NormActivations,
            BlockKind::Other => Band::OtherActivations,
        },
        Category::Logits => Band::Logits,
        // No tensor lies outside the pool or in the slack; one that claims to is drawn on top.
        Category::Temporaries | Category::OutsidePool | Category::Slack => Band::Temporaries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_off_names() {
        let cases = [
            ("self_attn", BlockKind::Attention),
            ("post_attention_layernorm", BlockKind::Norm),
            ("ln_1", BlockKind::Norm),
            ("mlp", BlockKind::Mlp),
            ("lm_head", BlockKind::Other),
            ("embed_tokens", BlockKind::Other),
        ];
        for (name, kind) in cases {
            assert_eq!(BlockKind::of(name), kind, "{name}");
        }
    }

    #[test]
    fn bands_are_in_stacking_order_of_their_categories() {
        for (index, band) in Band::ALL.into_iter().enumerate() {
            assert_eq!(band.index(), index);
            assert!(index == 0 || Band::ALL[index - 1].category() <= band.category());
        }
    }
}
