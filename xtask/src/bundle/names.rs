//! Content-hashed names: every asset's name carries the hash of what it holds, after the names in it
//! were rewritten. So a browser may keep it for ever, and a changed file changes all that lead to it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::cache::sha256_hex;

/// How assets are referred to, and where their names begin.
const PREFIX: &str = "/assets/";

/// A file under the name that people write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// `index.html`, or below `assets/`.
    pub logical: String,
    pub bytes: Vec<u8>,
    /// Keeps its name.
    pub fixed: bool,
}

/// A file under the name that the browser asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub path: String,
    pub bytes: Vec<u8>,
    pub sha256: String,
    pub immutable: bool,
}

/// Gives every file its final name and content, sorted by name.
///
/// # Errors
/// When two files share a name, a file refers to an asset that does not exist, or files refer to
/// each other in a circle (no hash could then be computed).
pub(super) fn resolve(sources: Vec<Source>) -> Result<Vec<Named>> {
    let mut open: BTreeMap<String, Source> = BTreeMap::new();
    for source in sources {
        if let Some(twin) = open.insert(source.logical.clone(), source) {
            bail!("two files are called {}", twin.logical);
        }
    }
    check_references(&open)?;
    let mut done: BTreeMap<String, Named> = BTreeMap::new();
    while !open.is_empty() {
        let is_ready = |source: &Source| {
            references(source).iter().all(|(_, name)| done.contains_key(name.as_str()))
        };
        let ready: Vec<String> =
            open.values().filter(|s| is_ready(s)).map(|s| s.logical.clone()).collect();
        if ready.is_empty() {
            let names: Vec<&str> = open.keys().map(String::as_str).collect();
            bail!("these files refer to each other in a circle: {}", names.join(", "));
        }
        for logical in ready {
            if let Some(source) = open.remove(&logical) {
                let named = name(source, &done)?;
                done.insert(logical, named);
            }
        }
    }
    let mut named: Vec<Named> = done.into_values().collect();
    named.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(named)
}

fn check_references(sources: &BTreeMap<String, Source>) -> Result<()> {
    for source in sources.values() {
        for (_, name) in references(source) {
            if !sources.contains_key(&name) {
                bail!("{} refers to /{name}, which does not exist", source.logical);
            }
        }
    }
    Ok(())
}

/// Rewrites the names inside, then names the file itself.
fn name(source: Source, done: &BTreeMap<String, Named>) -> Result<Named> {
    let found = references(&source);
    let bytes = if found.is_empty() {
        source.bytes
    } else {
        let text = String::from_utf8(source.bytes).context("a text file that is no UTF-8")?;
        let mut rewritten = String::with_capacity(text.len() + 32 * found.len());
        let mut copied = 0;
        for (start, logical) in &found {
            let target = done.get(logical).context("an asset named before its references")?;
            rewritten.push_str(&text[copied..*start]);
            rewritten.push_str(&target.path);
            copied = start + 1 + logical.len();
        }
        rewritten.push_str(&text[copied..]);
        rewritten.into_bytes()
    };
    let sha256 = sha256_hex(&bytes);
    let path = if source.fixed {
        format!("/{}", source.logical)
    } else {
        format!("/{}", hashed(&source.logical, &sha256[..16]))
    };
    Ok(Named { path, bytes, sha256, immutable: !source.fixed })
}

/// `assets/app.js` and a hash become `assets/app.<hash>.js`.
fn hashed(logical: &str, hash: &str) -> String {
    let file_start = logical.rfind('/').map_or(0, |at| at + 1);
    match logical[file_start..].rfind('.') {
        Some(dot) => {
            let (stem, extension) = logical.split_at(file_start + dot);
            format!("{stem}.{hash}{extension}")
        }
        None => format!("{logical}.{hash}"),
    }
}

/// Where a text file names assets: the position of the leading slash and the logical name.
fn references(source: &Source) -> Vec<(usize, String)> {
    let is_text = [".html", ".css", ".js", ".mjs", ".svg", ".json", ".webmanifest"]
        .iter()
        .any(|extension| source.logical.ends_with(extension));
    let Some(text) = std::str::from_utf8(&source.bytes).ok().filter(|_| is_text) else {
        return Vec::new();
    };
    let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let found = text.match_indices(PREFIX).filter_map(|(start, _)| {
        let rest = &text[start + 1..];
        let end = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        // A sentence in a comment may end with the name; the bare folder is no file.
        let name = rest[..end].trim_end_matches('.');
        (name.len() >= PREFIX.len()).then(|| (start, name.to_owned()))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::{Named, Source, resolve};

    fn source(logical: &str, text: &str) -> Source {
        let fixed = !logical.starts_with("assets/");
        Source { logical: logical.to_owned(), bytes: text.as_bytes().to_vec(), fixed }
    }

    fn named(sources: &[(&str, &str)]) -> Vec<Named> {
        resolve(sources.iter().map(|(name, text)| source(name, text)).collect()).unwrap()
    }

    fn path_of<'a>(files: &'a [Named], start: &str) -> &'a str {
        &files.iter().find(|f| f.path.starts_with(start)).unwrap().path
    }

    #[test]
    fn a_chain_of_references_is_rewritten_from_its_end() {
        let files = named(&[
            ("index.html", "<script type=module src=\"/assets/boot.js\"></script>"),
            ("assets/boot.js", "import init from '/assets/app.js'; init('/assets/app_bg.wasm')"),
            ("assets/app.js", "export default 1"),
            ("assets/app_bg.wasm", "\0asm"),
        ]);
        let boot = path_of(&files, "/assets/boot.");
        let index = files.iter().find(|f| f.path == "/index.html").unwrap();
        assert!(!index.immutable);
        assert_eq!(
            String::from_utf8(index.bytes.clone()).unwrap(),
            format!("<script type=module src=\"{boot}\"></script>")
        );
        let boot_file = files.iter().find(|f| f.path == boot).unwrap();
        let text = String::from_utf8(boot_file.bytes.clone()).unwrap();
        assert!(text.contains(path_of(&files, "/assets/app.")));
        assert!(text.contains(path_of(&files, "/assets/app_bg.")));
        assert_eq!(boot.len(), "/assets/boot.0123456789abcdef.js".len());
    }

    #[test]
    fn a_changed_leaf_renames_all_that_lead_to_it() {
        let of = |leaf| {
            let files = named(&[("assets/a.css", "url(/assets/b.svg)"), ("assets/b.svg", leaf)]);
            path_of(&files, "/assets/a.").to_owned()
        };
        assert_ne!(of("<svg/>"), of("<svg />"));
    }

    #[test]
    fn a_missing_asset_is_an_error_with_both_names() {
        let error = resolve(vec![source("index.html", "href=/assets/nope.css>")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "index.html refers to /assets/nope.css, which does not exist"
        );
    }

    #[test]
    fn a_circle_is_an_error() {
        let sources =
            vec![source("assets/a.js", "'/assets/b.js'"), source("assets/b.js", "'/assets/a.js'")];
        assert!(resolve(sources).unwrap_err().to_string().contains("circle"));
    }

    #[test]
    fn a_name_at_the_end_of_a_sentence_is_found() {
        let files = named(&[("assets/a.js", "// See /assets/b.js."), ("assets/b.js", "1")]);
        let b = path_of(&files, "/assets/b.");
        let a = &files[0];
        assert_eq!(String::from_utf8(a.bytes.clone()).unwrap(), format!("// See {b}."));
    }
}
