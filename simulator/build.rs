//! Lists the catalog's data files, so that a new one needs no line of code.
//!
//! Writes two tables of (file name, entry as JSON) for `src/catalog`: `GPUS` and `MODELS`, in natural
//! order (`llama-2-7b` before `llama-2-13b`), which is the order shown to people. People write TOML;
//! the page need not carry its parser only to read what never changes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("data");
    let mut code = Vec::new();
    for (table, folder) in [("GPUS", "gpus"), ("MODELS", "models")] {
        let folder = root.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        write_table(&mut code, table, &data_files(&folder)?)?;
    }
    fs::write(Path::new(&variable("OUT_DIR")?).join("catalog_files.rs"), code)
}

#[expect(clippy::disallowed_methods, reason = "a build script is told its folders by variables")]
fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(|error| io::Error::other(format!("{name}: {error}")))
}

/// The folder's TOML files in natural order.
fn data_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort_by_key(|path| natural_key(&path.file_stem().unwrap_or_default().to_string_lossy()));
    Ok(files)
}

/// Splits a name into text and numbers, so that 7 sorts before 13 and 0.5 before 1.5.
fn natural_key(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::from([(String::new(), 0)]);
    let mut in_number = false;
    for letter in name.chars() {
        if in_number && !letter.is_ascii_digit() {
            parts.push((String::new(), 0));
        }
        in_number = letter.is_ascii_digit();
        let Some((text, number)) = parts.last_mut() else { continue };
        match letter.to_digit(10) {
            Some(digit) => *number = *number * 10 + u64::from(digit),
            None => text.push(letter),
        }
    }
    parts
}

#[expect(clippy::disallowed_methods, reason = "a build script reads the data files")]
fn write_table(code: &mut Vec<u8>, table: &str, files: &[PathBuf]) -> io::Result<()> {
    writeln!(code, "static {table}: [(&str, &str); {}] = [", files.len())?;
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let entry: toml::Table = toml::from_str(&fs::read_to_string(file)?)
            .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
        let json = serde_json::to_string(&entry)?;
        writeln!(code, "    ({name:?}, {json:?}),")?;
    }
    writeln!(code, "];")
}
