//! Which files there are, and their bytes.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flate2::read::MultiGzDecoder;

/// What a file holds, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// One capture, compressed.
    Capture,
    /// Published runs, one a line.
    Rows,
}

/// A file to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) format: Format,
}

impl Input {
    /// The file's name without its ending.
    pub(super) fn name(&self) -> String {
        let name = self.path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
        name.trim_end_matches(".gz").trim_end_matches(".json").trim_end_matches(".jsonl").to_owned()
    }

    /// Its bytes, decompressed.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let bytes = fs::read(&self.path)?;
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return Ok(bytes);
        }
        let mut plain = Vec::new();
        MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut plain)?;
        Ok(plain)
    }
}

/// All files below the paths, sorted within each: folders are read recursively for `*.json.gz` and
/// `*.jsonl`, anything else in them is skipped. A file that is named itself is always taken.
pub(super) fn collect(paths: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = inputs.len();
            walk(path, &mut inputs).with_context(|| path.display().to_string())?;
            if inputs.len() == before {
                bail!("{}: no captures (*.json.gz) and no rows (*.jsonl) in it", path.display());
            }
        } else {
            fs::metadata(path).with_context(|| path.display().to_string())?;
            let format = format_of(path).unwrap_or(Format::Capture);
            inputs.push(Input { path: path.clone(), format });
        }
    }
    Ok(inputs)
}

fn walk(folder: &Path, inputs: &mut Vec<Input>) -> io::Result<()> {
    let mut paths = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort_unstable();
    for path in paths {
        if path.is_dir() {
            walk(&path, inputs)?;
        } else if let Some(format) = format_of(&path) {
            inputs.push(Input { path, format });
        }
    }
    Ok(())
}

fn format_of(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy();
    if name.ends_with(".json.gz") {
        Some(Format::Capture)
    } else if name.ends_with(".jsonl") {
        Some(Format::Rows)
    } else {
        None
    }
}
