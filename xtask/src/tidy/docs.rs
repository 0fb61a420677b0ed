//! Documents that must not fall behind: ARCHITECTURE.md names every module, the house's papers exist.

use std::collections::BTreeSet;

use super::{Fault, Tree};

/// Papers that a reader expects.
const PAPERS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/glossary.md",
];

/// Sections of the changelog, in this order under each version.
const CHANGELOG_SECTIONS: [&str; 4] =
    ["### Predictions changed", "### Features", "### Fixes", "### Internals"];

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults: Vec<Fault> = PAPERS
        .iter()
        .filter(|paper| tree.text(paper).is_none())
        .map(|paper| Fault::new(*paper, "is missing"))
        .collect();
    if let Some(map) = tree.text("ARCHITECTURE.md") {
        faults.extend(modules(tree).iter().filter_map(|module| unnamed(map, module)));
        faults.extend(dead_names(tree, map));
    }
    if let Some(log) = tree.text("CHANGELOG.md") {
        faults.extend(changelog(log));
    }
    faults.extend(decisions(tree));
    faults
}

/// `simulator/src/units` for a module or folder module, of every crate with a `src`.
fn modules(tree: &Tree) -> BTreeSet<String> {
    let top = |path: &str| -> Option<String> {
        let (folder, inside) = path.split_once("/src/")?;
        let stem = inside.split('/').next()?.trim_end_matches(".rs");
        let is_root = matches!(stem, "lib" | "main" | "bin");
        (!is_root).then(|| format!("{folder}/src/{stem}"))
    };
    tree.rust().filter_map(|file| top(&file.path)).collect()
}

/// A module counts as named where its crate's part of the code map has it in backticks.
fn unnamed(map: &str, module: &str) -> Option<Fault> {
    let (folder, stem) = module.split_once("/src/")?;
    let section = section(map, folder);
    let named = section.contains(&format!("`{stem}`")) || section.contains(&format!("`{stem}/`"));
    (!named).then(|| {
        Fault::new("ARCHITECTURE.md", format!("the part `{folder}/` does not name `{stem}`"))
    })
}

/// The text from a crate's heading (which has its folder in backticks) to the next heading.
fn section<'a>(map: &'a str, folder: &str) -> &'a str {
    let heading = format!("`{folder}/`");
    let start = map
        .match_indices("\n#")
        .find(|(at, _)| map[at + 1..].lines().next().is_some_and(|line| line.contains(&heading)));
    let body = match start {
        Some((at, _)) => &map[at + 1..],
        // An empty part, so that every module of the crate is reported.
        None => return "",
    };
    body.find("\n#").map_or(body, |end| &body[..end])
}

/// A part of the code map about a folder that is gone.
fn dead_names(tree: &Tree, map: &str) -> Vec<Fault> {
    let headings = map.lines().filter(|line| line.starts_with("###"));
    let folders = headings.filter_map(|line| line.split('`').nth(1));
    folders
        .filter(|folder| folder.ends_with('/'))
        .filter(|folder| !tree.names.iter().any(|name| name.starts_with(folder)))
        .map(|folder| Fault::new("ARCHITECTURE.md", format!("`{folder}` does not exist")))
        .collect()
}

fn changelog(log: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut last = 0;
    for (line_idx, line) in log.lines().enumerate() {
        if line.starts_with("## ") {
            last = 0;
        } else if line.starts_with("### ") {
            match CHANGELOG_SECTIONS.iter().position(|section| *section == line) {
                Some(at) if at + 1 > last => last = at + 1,
                Some(_) => {
                    faults.push(Fault::at_line(
                        "CHANGELOG.md",
                        line_idx + 1,
                        "section out of order",
                    ));
                }
                None => {
                    faults.push(Fault::at_line("CHANGELOG.md", line_idx + 1, "unknown section"));
                }
            }
        }
    }
    faults
}

/// `docs/decisions/0001-words.md`, numbered without gaps.
fn decisions(tree: &Tree) -> Vec<Fault> {
    let pages = tree.names.iter().filter_map(|name| name.strip_prefix("docs/decisions/"));
    let mut numbers: Vec<&str> = pages.clone().filter_map(|page| page.split('-').next()).collect();
    numbers.sort_unstable();
    let wrong = numbers.iter().enumerate().find(|(idx, n)| **n != format!("{:04}", idx + 1));
    wrong
        .map(|(_, n)| Fault::new("docs/decisions", format!("number {n} is out of order")))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{changelog, decisions, section, unnamed};
    use crate::tidy::Tree;

    const MAP: &str = "# A\n\n### `simulator/`: pure\n\n| `units` | x |\n\n### `server/`\n`db/`\n";

    #[test]
    fn modules_must_stand_in_their_own_part() {
        assert!(section(MAP, "simulator").contains("units"));
        assert_eq!(unnamed(MAP, "simulator/src/units"), None);
        assert_eq!(unnamed(MAP, "server/src/db"), None);
        assert!(unnamed(MAP, "server/src/units").is_some());
        assert!(unnamed(MAP, "agent/src/units").is_some());
    }

    #[test]
    fn changelog_sections_are_known_and_in_order() {
        assert_eq!(changelog("## 1\n### Features\n### Fixes\n## 0\n### Features\n"), []);
        assert_eq!(changelog("## 1\n### Fixes\n### Features\n").len(), 1);
        assert_eq!(changelog("## 1\n### News\n").len(), 1);
    }

    #[test]
    fn decisions_are_numbered_without_gaps() {
        let tree = |names: &[&str]| Tree {
            texts: Vec::new(),
            names: names.iter().map(|n| format!("docs/decisions/{n}.md")).collect(),
        };
        assert_eq!(decisions(&tree(&["0001-a", "0002-b"])), []);
        assert_eq!(decisions(&tree(&["0001-a", "0003-b"])).len(), 1);
        assert_eq!(decisions(&tree(&["0001-a", "0001-b"])).len(), 1);
    }
}
