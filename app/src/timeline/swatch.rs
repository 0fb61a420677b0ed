//! Class names of the little squares that show a category's colour.

use super::view_model::Band;
use super::view_model::scene::Ink;

/// Classes of a swatch; `timeline.css` gives them their colours.
pub(super) fn swatch_class(ink: Ink) -> String {
    let name = match ink {
        Ink::Band(Band::AttentionActivations) => "activations-attention",
        Ink::Band(Band::MlpActivations) => "activations-mlp",
        Ink::Band(Band::NormActivations) => "activations-norm",
        Ink::Band(Band::OtherActivations) => "activations-other",
        Ink::Band(band) => band.category().word(),
        Ink::OutsidePool => "outside_pool",
        Ink::Slack => "slack",
        _ => "none",
    };
    format!("tl-swatch tl-{name}")
}
