//! Known models and GPUs, read from the data files under `simulator/data`.
//!
//! One file is one entry, with its source and date; `build.rs` lists the files. An entry is found
//! by its id or by an alias (a Hugging Face repository, the name that the driver shows), in any
//! case and with any punctuation.

mod nearest;
mod outside_pool;

pub(crate) use nearest::{nearest, slip};
pub use outside_pool::OutsideEstimate;

use serde::de::DeserializeOwned;

use crate::order;
use crate::wire::{Fault, GpuProfile, ModelCard, ModelKind, Rule};

include!(concat!(env!("OUT_DIR"), "/catalog_files.rs"));

/// Makers in the order shown to people; others follow.
const VENDORS: [&str; 3] = ["NVIDIA", "AMD", "Intel"];

/// All catalog entries, in the order shown to people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// Models.
    pub models: Vec<ModelCard>,
    /// GPUs.
    pub gpus: Vec<GpuProfile>,
}

impl Catalog {
    /// The entries that come with the program.
    ///
    /// Parses every data file anew (about a millisecond): call it once and keep the result.
    ///
    /// # Panics
    ///
    /// When a data file is not a catalog entry; a test holds that none is.
    pub fn builtin() -> Self {
        let mut gpus: Vec<GpuProfile> = GPUS.iter().map(parse).collect();
        let place = |gpu: &GpuProfile| {
            VENDORS.iter().position(|vendor| *vendor == gpu.vendor).unwrap_or(VENDORS.len())
        };
        order::sort_by(&mut gpus, |a, b| place(a).cmp(&place(b)));
        let mut models: Vec<ModelCard> = MODELS.iter().map(parse).collect();
        let place = |card: &ModelCard| {
            let kind = ModelKind::ALL.iter().position(|kind| *kind == card.kind);
            let series = card.id.rsplit_once('-').map_or(card.id.as_str(), |(series, _)| series);
            (kind, series.to_owned(), card.published_parameters)
        };
        order::sort_by(&mut models, |a, b| place(a).cmp(&place(b)));
        Self { models, gpus }
    }

    /// The GPU of this id or alias.
    pub fn gpu(&self, id: &str) -> Option<&GpuProfile> {
        find(&self.gpus, id, |gpu| &gpu.id, |gpu| &gpu.aliases)
    }

    /// The model of this id or alias.
    pub fn model(&self, id: &str) -> Option<&ModelCard> {
        find(&self.models, id, |model| &model.id, |model| &model.aliases)
    }

    /// What to say about a GPU id that is not in the catalog: the nearest ones, as mends.
    pub fn unknown_gpu(&self, path: &str, id: &str) -> Fault {
        let names = self.gpus.iter().map(|gpu| (gpu.id.as_str(), gpu.aliases.as_slice()));
        unknown_id(path, id, "GPU", names)
    }

    /// What to say about a model id that is not in the catalog: the nearest ones, as mends.
    pub fn unknown_model(&self, path: &str, id: &str) -> Fault {
        let names = self.models.iter().map(|model| (model.id.as_str(), model.aliases.as_slice()));
        unknown_id(path, id, "model", names)
    }
}

fn parse<T: DeserializeOwned>((name, text): &(&str, &str)) -> T {
    match serde_json::from_slice(text.as_bytes()) {
        Ok(entry) => entry,
        Err(error) => panic!("simulator/data/…/{name}: {error}"),
    }
}

fn find<'a, T>(
    entries: &'a [T],
    wanted: &str,
    id: impl Fn(&T) -> &String,
    aliases: impl Fn(&T) -> &Vec<String>,
) -> Option<&'a T> {
    if let Some(exact) = entries.iter().find(|entry| id(entry) == wanted) {
        return Some(exact);
    }
    let wanted = folded(wanted);
    entries.iter().find(|entry| {
        folded(id(entry)) == wanted || aliases(entry).iter().any(|alias| folded(alias) == wanted)
    })
}

/// Letters and digits in lower case: `RTX 4090` and `rtx-4090` are one name.
fn folded(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn unknown_id<'a>(
    path: &str,
    wanted: &str,
    kind: &str,
    entries: impl Iterator<Item = (&'a str, &'a [String])>,
) -> Fault {
    let wanted_folded = folded(wanted);
    let mut scored: Vec<(usize, &str)> = entries
        .map(|(id, aliases)| {
            let names = aliases.iter().map(String::as_str).chain([id]);
            let distance = names.map(|name| nearest::distance(&wanted_folded, &folded(name)));
            (distance.min().unwrap_or(usize::MAX), id)
        })
        .collect();
    order::sort_by(&mut scored, |(one, _), (other, _)| one.cmp(other));
    let near: Vec<&str> = scored.iter().take(3).map(|(_, id)| *id).collect();
    let message = format!("no {kind} is called `{wanted}`; near it: {}", near.join(", "));
    let mut fault = Fault::new(path, Rule::UnknownId, message);
    fault.arguments = [wanted].into_iter().chain(near.iter().copied()).map(String::from).collect();
    near.iter().fold(fault, |fault, id| fault.mend(path, *id))
}

#[cfg(test)]
mod tests;
