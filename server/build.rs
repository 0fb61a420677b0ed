//! Embeds the page's bundle into the binary, if there is one.
//!
//! `cargo xtask build` leaves it in `target/bundle` (or where `TIDEMARK_BUNDLE` points) and then
//! builds this crate. Without a bundle the table is empty and the server says how to build the page:
//! a clean clone builds with Cargo alone. This script never builds the page itself, since Cargo
//! inside Cargo would wait for its own lock.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TIDEMARK_BUNDLE");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let folder = bundle_folder(&out_dir)?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let manifest = match fs::read_to_string(folder.join("manifest.tsv")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    fs::write(out_dir.join("bundle_table.rs"), table(&folder, &manifest)?)
}

/// The folder of the bundle. It is created when missing: Cargo runs a script again on every build
/// if a path it watches does not exist.
fn bundle_folder(out_dir: &Path) -> io::Result<PathBuf> {
    if let Some(folder) = env::var_os("TIDEMARK_BUNDLE") {
        return Ok(PathBuf::from(folder));
    }
    // out ← server-<hash> ← build ← release ← target
    let target = out_dir.ancestors().nth(4).ok_or(io::ErrorKind::NotFound)?;
    let folder = target.join("bundle");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The Rust expression that `bundle.rs` includes: one `Asset` for each line of the manifest.
fn table(folder: &Path, manifest: &str) -> io::Result<String> {
    let mut table = "&[\n".to_owned();
    for line in manifest.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [path, content_type, sha256, lifetime, encoding] = fields[..] else {
            return Err(io::Error::other(format!("a line of manifest.tsv is wrong: {line}")));
        };
        let file = folder.join(path.trim_start_matches('/')).display().to_string();
        let brotli = match encoding {
            "br" => format!("Some(include_bytes!({:?}).as_slice())", format!("{file}.br")),
            _ => "None".to_owned(),
        };
        let written = writeln!(
            table,
            "    Asset {{ path: {path:?}, content_type: {content_type:?}, etag: \"\\\"{sha256}\\\"\", \
             immutable: {}, identity: include_bytes!({file:?}), brotli: {brotli} }},",
            lifetime == "immutable",
        );
        written.map_err(io::Error::other)?;
    }
    table.push(']');
    Ok(table)
}
