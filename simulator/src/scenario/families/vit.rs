//! `ViTForImageClassification`: patches as tokens, norms before attention and MLP, a classifier.

use super::fields::must_be_on;
use super::{Activation, Data, Family, Positions, Task, activation, linear, must_divide};
use crate::scenario::Table;
use crate::scenario::limits;
use crate::wire::{Fault, Faults, Rule};

/// Its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Vit {
    /// `hidden_size`.
    pub hidden: u64,
    /// `intermediate_size`.
    pub intermediate: u64,
    /// `num_hidden_layers`.
    pub layers: u64,
    /// `num_attention_heads`.
    pub heads: u64,
    /// `image_size`, pixels a side.
    pub image: u64,
    /// `patch_size`, pixels a side.
    pub patch: u64,
    /// `num_labels`.
    pub labels: u64,
    /// `hidden_act`.
    pub activation: Activation,
    /// `hidden_dropout_prob`.
    pub hidden_dropout: f64,
    /// `attention_probs_dropout_prob`.
    pub attention_dropout: f64,
}

/// Channels of an image.
pub(crate) const CHANNELS: u64 = 3;

impl Vit {
    /// Patches of an image.
    pub const fn patches(&self) -> u64 {
        let side = self.image / self.patch;
        side * side
    }
}

impl Family for Vit {
    fn class(&self) -> &'static str {
        "ViTForImageClassification"
    }

    fn task(&self) -> Task {
        Task::Classification
    }

    fn data(&self) -> Data {
        Data::Images(self.image)
    }

    alike_layers!();

    /// Labels: what the classifier tells apart.
    fn vocab(&self) -> u64 {
        self.labels
    }

    /// The patches and the class token.
    fn tokens(&self, _seq_len: u64) -> u64 {
        self.patches() + 1
    }

    fn positions(&self) -> Positions {
        Positions::Table(self.patches() + 1)
    }

    fn widest(&self) -> u64 {
        self.intermediate.max(self.hidden)
    }

    fn tied(&self) -> bool {
        false
    }

    /// ```text
    /// h + (3·p²·h + h) + (N + 1)·h + L·(4·(h² + h) + 2·h·f + f + h + 4h) + 2h + h·C + C
    /// ```
    fn parameters(&self) -> u128 {
        let [h, f, layers] = [self.hidden, self.intermediate, self.layers].map(u128::from);
        let [patch, patches, labels] = [self.patch, self.patches(), self.labels].map(u128::from);
        let embeddings =
            h + linear(u128::from(CHANNELS) * patch * patch, h, true) + (patches + 1) * h;
        let attention = 4 * linear(h, h, true);
        let mlp = linear(h, f, true) + linear(f, h, true);
        let norms = 2 * 2 * h;
        embeddings + layers * (attention + mlp + norms) + 2 * h + linear(h, labels, true)
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { hidden, intermediate, layers, patch, labels, .. } = self;
        [
            "(3p² + N + 3)·h + L·(4h² + 2h·f + f + 9h) + 2h + C·h + C".to_owned(),
            format!(
                "p={patch}, N={}, h={hidden}, L={layers}, f={intermediate}, C={labels}",
                self.patches()
            ),
        ]
    }
}

/// Source: transformers 5.17, `models/vit/configuration_vit.py`.
pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults) -> Option<Vit> {
    let hidden = table.integer_or("hidden_size", limits::WIDTH, 768, faults);
    let intermediate = table.integer_or("intermediate_size", limits::WIDTH, 3_072, faults);
    let layers = table.integer_or("num_hidden_layers", limits::LAYERS, 12, faults);
    let heads = table.integer_or("num_attention_heads", limits::HEADS, 12, faults);
    let image = table.integer_or("image_size", limits::IMAGE_SIDE, 224, faults);
    let patch = table.integer_or("patch_size", limits::IMAGE_SIDE, 16, faults);
    let channels = table.integer_or("num_channels", 1..=1_024, CHANNELS, faults);
    let labels = labels(table, faults);
    let activation = activation(table, "hidden_act", Activation::Gelu, faults);
    let hidden_dropout = table.number_or("hidden_dropout_prob", limits::DROPOUT, 0.0, faults);
    let attention_dropout =
        table.number_or("attention_probs_dropout_prob", limits::DROPOUT, 0.0, faults);
    must_be_on(table, "qkv_bias", "layers without bias are not simulated", faults);
    if channels.is_some_and(|channels| channels != CHANNELS) {
        let message = format!("only images of {CHANNELS} channels are simulated");
        faults.push(Fault::new(table.path("num_channels"), Rule::Unsupported, message));
    }
    if let (Some(hidden), Some(heads)) = (hidden, heads) {
        must_divide(table, ("num_attention_heads", heads), ("hidden_size", hidden), faults);
    }
    if let (Some(image), Some(patch)) = (image, patch) {
        must_divide(table, ("patch_size", patch), ("image_size", image), faults);
    }
    Some(Vit {
        hidden: hidden?,
        intermediate: intermediate?,
        layers: layers?,
        heads: heads?,
        image: image?,
        patch: patch?,
        labels: labels?,
        activation: activation?,
        hidden_dropout: hidden_dropout?,
        attention_dropout: attention_dropout?,
    })
}

/// `num_labels`, or as many as `id2label` names; two by default. With one label the loss would be
/// another (`ForSequenceClassificationLoss`).
fn labels(table: &mut Table<'_>, faults: &mut Faults) -> Option<u64> {
    let named =
        table.value("id2label").and_then(|value| value.as_object()).map(serde_json::Map::len);
    let default = named.map_or(2, |named| named as u64);
    let labels = table.integer_or("num_labels", limits::VOCAB, default, faults)?;
    if labels == 1 {
        let message = "a regression over one label is not simulated";
        faults.push(Fault::new(table.path("num_labels"), Rule::Unsupported, message));
    }
    Some(labels)
}
