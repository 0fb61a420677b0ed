//! What a reader should know although nothing is wrong.

use serde::{Deserialize, Serialize};

/// What a note is about; the page translates by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// Sequences are longer than the model was made for.
    PositionsExceeded,
    /// No job on this GPU model was ever measured.
    NeverMeasured,
    /// Some of the GPU's figures were not verified at the source.
    UnverifiedGpu,
    /// Some of the model's fields were not verified at the source.
    UnverifiedModel,
    /// Convolutions ask for workspaces by heuristics that are not published.
    ConvolutionWorkspaces,
    /// No capture on a GPU stands behind what the field asks for.
    FromSource,
    /// The compiled program is approximated.
    CompiledApproximation,
    /// Communication between GPUs takes no time.
    UntimedCommunication,
}

impl Topic {
    /// Whether it says that something was never measured or verified, which the verdict repeats.
    pub const fn is_unverified(self) -> bool {
        use Topic::{
            CompiledApproximation, FromSource, NeverMeasured, UnverifiedGpu, UnverifiedModel,
        };
        matches!(
            self,
            NeverMeasured | UnverifiedGpu | UnverifiedModel | FromSource | CompiledApproximation
        )
    }
}

/// A remark on a scenario that is simulated nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Note {
    /// Where: dotted field path.
    pub path: String,
    /// What it is about.
    pub topic: Topic,
    /// The remark in one English sentence.
    pub message: String,
    /// Its values, for translated sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}
