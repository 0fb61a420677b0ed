//! Results of slow steps, kept by the hash of everything that goes in.

use std::fs;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::shell::Workspace;

/// SHA-256 in lower-case hex.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        for digit in [byte >> 4, byte & 15] {
            hex.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        hex
    })
}

/// The result of `step` on `input`, computed at most once; `settings` names whatever else decides it.
///
/// # Errors
/// When the step fails or the cache cannot be written.
pub(super) fn cached(
    workspace: &Workspace,
    settings: &str,
    input: &[u8],
    step: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let folder = workspace.target.join("bundle-cache");
    let key = sha256_hex(format!("{settings}\n{}", sha256_hex(input)).as_bytes());
    let path = folder.join(key);
    if let Ok(bytes) = fs::read(&path) {
        return Ok(bytes);
    }
    let bytes = step()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Renamed into place, so that an interrupted run leaves no half file under a valid key.
    let part = path.with_extension("part");
    fs::write(&part, &bytes).with_context(|| format!("cannot write {}", part.display()))?;
    fs::rename(&part, &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::sha256_hex;

    #[test]
    fn hash_is_the_published_one() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256_hex(b""), empty);
    }
}
