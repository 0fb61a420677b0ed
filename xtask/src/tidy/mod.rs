//! The rules of the house that no compiler checks, each a test of its own.
//!
//! A rule looks at the files that git knows or would take (`Tree`) and returns faults; it never
//! fixes anything. Run by `cargo test -p xtask` and by `cargo xtask tidy`.

mod crates;
mod docs;
mod imports;
mod lexer;
mod licence;
mod orphans;
mod sizes;
mod words;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell::{Workspace, files_below, output};

/// Something that breaks a rule, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    place: String,
    what: String,
}

impl Fault {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }

    fn at_line(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), what)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// A text file of the repository, by its path from the root with forward slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    path: String,
    text: String,
}

/// All files of the repository; those that are no UTF-8 only by name.
#[derive(Debug, Default)]
struct Tree {
    texts: Vec<File>,
    names: Vec<String>,
}

impl Tree {
    fn load(workspace: &Workspace) -> Result<Self> {
        let mut tree = Self { texts: Vec::new(), names: paths(workspace)? };
        for path in &tree.names {
            let full = workspace.root.join(path);
            let bytes =
                fs::read(&full).with_context(|| format!("cannot read {}", full.display()))?;
            if let Ok(text) = String::from_utf8(bytes) {
                tree.texts.push(File { path: path.clone(), text });
            }
        }
        Ok(tree)
    }

    fn rust(&self) -> impl Iterator<Item = &File> {
        self.texts.iter().filter(|file| has_extension(&file.path, "rs"))
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// What git has or would add. Without git (an unpacked archive) every file that is not built.
fn paths(workspace: &Workspace) -> Result<Vec<String>> {
    let mut git = workspace.command("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed: Vec<String> = match output(&mut git) {
        Ok(listed) => listed.split_terminator('\0').map(str::to_owned).collect(),
        Err(_) => files_below(&workspace.root)?
            .iter()
            .filter_map(|path| path.strip_prefix(&workspace.root).ok()?.to_str().map(str::to_owned))
            .filter(|path| !path.split('/').any(|part| part == "target" || part == "node_modules"))
            .collect(),
    };
    // A file deleted but not yet committed is still listed.
    Ok(listed.into_iter().filter(|path| workspace.root.join(path).is_file()).collect())
}

/// A rule: what it is called and how it is checked.
type Rule = (&'static str, fn(&Workspace, &Tree) -> Result<Vec<Fault>>);

const RULES: &[Rule] = &[
    ("module imports", |_, tree| Ok(imports::check(tree))),
    ("sizes and headers", |_, tree| Ok(sizes::check(tree))),
    ("words and paths", |_, tree| Ok(words::check(tree))),
    ("documents", |_, tree| Ok(docs::check(tree))),
    ("orphans", |_, tree| Ok(orphans::check(tree))),
    ("crates and licences", |workspace, _| crates::check(workspace)),
];

/// Checks every rule and prints the faults.
///
/// # Errors
/// When there is a fault, or a rule could not be checked.
pub fn run(workspace: &Workspace) -> Result<()> {
    let tree = Tree::load(workspace)?;
    let mut n_faults = 0;
    for (name, rule) in RULES {
        let faults = rule(workspace, &tree).with_context(|| format!("rule `{name}`"))?;
        for fault in &faults {
            println!("{fault}");
        }
        n_faults += faults.len();
    }
    if n_faults > 0 {
        bail!("{n_faults} faults");
    }
    println!("{} rules hold over {} files", RULES.len(), tree.names.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{RULES, Tree};
    use crate::shell::Workspace;

    /// Each rule is a test, so that one broken rule does not hide another.
    fn holds(name: &str) {
        let workspace = Workspace::find().unwrap();
        let tree = Tree::load(&workspace).unwrap();
        let (_, rule) = RULES.iter().find(|(rule, _)| *rule == name).unwrap();
        let faults = rule(&workspace, &tree).unwrap();
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn modules_import_only_what_the_table_allows() {
        holds("module imports");
    }

    #[test]
    fn files_and_functions_are_short_and_files_say_what_they_are_for() {
        holds("sizes and headers");
    }

    #[test]
    fn no_banned_word_and_no_machine_path_is_left() {
        holds("words and paths");
    }

    #[test]
    fn documents_name_every_module() {
        holds("documents");
    }

    #[test]
    fn no_file_is_dead() {
        holds("orphans");
    }

    #[test]
    fn crates_and_licences_are_allowed() {
        holds("crates and licences");
    }
}
