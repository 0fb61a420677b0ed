//! Files that nothing uses: Rust files no `mod` names, and what editors and tools leave behind.

use std::collections::BTreeSet;

use super::lexer::code_only;
use super::{Fault, Tree};

/// Endings of files that were meant to go.
const LEFT_BEHIND: &[&str] = &[
    ".orig",
    ".rej",
    ".bak",
    ".tmp",
    ".swp",
    ".log",
    ".snap.new",
    ".pending-snap",
    ".DS_Store",
    "~",
];

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults: Vec<Fault> = tree
        .names
        .iter()
        .filter(|name| LEFT_BEHIND.iter().any(|ending| name.ends_with(ending)))
        .map(|name| Fault::new(name, "was left behind"))
        .collect();
    let rust: BTreeSet<&str> = tree.rust().map(|file| file.path.as_str()).collect();
    let orphans = rust.iter().filter(|path| !is_root(path) && !is_declared(tree, path));
    faults.extend(orphans.map(|path| Fault::new(*path, "no `mod` names this file")));
    faults
}

/// Files that Cargo finds by itself.
fn is_root(path: &str) -> bool {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let last = folder.rsplit('/').next().unwrap_or_default();
    let before = folder.rsplit('/').nth(1).unwrap_or_default();
    match file {
        "lib.rs" | "build.rs" => true,
        // `tests/api/main.rs` is the root of a test made of several files.
        "main.rs" => last == "src" || matches!(before, "bin" | "tests" | "examples" | "benches"),
        _ => matches!(last, "bin" | "tests" | "examples" | "benches" | "fuzz_targets"),
    }
}

/// Whether the file one level up declares the module.
fn is_declared(tree: &Tree, path: &str) -> bool {
    let module = path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
    let Some((folder, name)) = module.rsplit_once('/') else { return false };
    let parents = [
        format!("{folder}/lib.rs"),
        format!("{folder}/main.rs"),
        format!("{folder}/mod.rs"),
        format!("{folder}.rs"),
    ];
    let declares = |text: &str| {
        let code = code_only(text);
        code.lines().any(|line| {
            let line = line.trim();
            let rest = line.rsplit_once("mod ").map(|(_, rest)| rest);
            rest.and_then(|rest| rest.strip_suffix(';')).is_some_and(|found| found == name)
        })
    };
    parents.iter().filter_map(|parent| tree.text(parent)).any(declares)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::{File, Tree};

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree {
            texts: files
                .iter()
                .map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() })
                .collect(),
            names: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
        }
    }

    #[test]
    fn declared_files_and_roots_pass() {
        let files = tree(&[
            ("a/src/lib.rs", "pub mod b;\npub(crate) mod c;\n"),
            ("a/src/b.rs", "mod d;\n"),
            ("a/src/b/d.rs", ""),
            ("a/src/c/mod.rs", ""),
            ("a/build.rs", ""),
            ("a/tests/whole.rs", ""),
            ("a/tests/api/main.rs", "mod errors;"),
            ("a/tests/api/errors.rs", ""),
        ]);
        assert_eq!(check(&files), []);
    }

    #[test]
    fn dead_files_are_found() {
        let files = tree(&[("a/src/lib.rs", "// mod b;\n"), ("a/src/b.rs", ""), ("a/x.rej", "")]);
        assert_eq!(check(&files).len(), 2);
    }
}
