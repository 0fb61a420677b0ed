//! Which module of `simulator` may import which: the direction of the data flow, held by a test.
//!
//! Modules of one crate fall into cycles unless something stops them. Whoever needs a new edge adds
//! it here, in the open, and only towards an earlier row.

use std::collections::BTreeSet;

use super::lexer::{code_only, is_test_file, line_of, without_tests};
use super::{Fault, File, Tree};

/// A module and what it may import, in reading order: each row names only rows above it.
const TABLE: &[(&str, &[&str])] = &[
    ("order", &[]),
    ("units", &[]),
    ("wire", &["units"]),
    ("catalog", &["order", "units", "wire"]),
    ("allocator", &["units", "wire"]),
    ("scenario", &["order", "units", "wire", "catalog", "allocator"]),
    ("clock", &["order", "units", "wire"]),
    ("tensor", &["units"]),
    ("tape", &["units", "wire", "clock", "tensor"]),
    ("primitives", &["wire", "clock", "tensor", "tape"]),
    ("parallel", &["order", "wire", "clock", "tensor", "tape", "primitives"]),
    ("engine", &["wire", "clock", "tensor", "tape", "primitives"]),
    ("blocks", &["wire", "scenario", "tensor", "tape", "primitives", "engine"]),
    (
        "program",
        &[
            "order",
            "wire",
            "scenario",
            "clock",
            "tensor",
            "tape",
            "primitives",
            "parallel",
            "engine",
            "blocks",
        ],
    ),
    ("schedule", &[]),
    (
        "megatron",
        &[
            "wire",
            "scenario",
            "clock",
            "tensor",
            "tape",
            "primitives",
            "engine",
            "program",
            "schedule",
        ],
    ),
    ("process", &["scenario", "program", "megatron"]),
    ("timeline", &["units", "wire", "allocator", "clock", "tape", "program"]),
    ("tide", &["wire", "scenario", "tape", "program", "schedule", "megatron", "process"]),
    ("report", &["order", "units", "wire", "scenario", "tensor", "tape", "timeline", "tide"]),
    (
        "simulate",
        &[
            "units",
            "wire",
            "scenario",
            "allocator",
            "clock",
            "program",
            "process",
            "timeline",
            "tide",
            "report",
        ],
    ),
    ("importers", &["units", "wire", "catalog", "scenario"]),
    ("export", &["order", "units", "wire", "allocator", "timeline", "report", "simulate"]),
    (
        "accuracy",
        &["units", "wire", "catalog", "scenario", "allocator", "report", "simulate", "importers"],
    ),
];

/// The crate the table is about.
const SOURCE: &str = "simulator/src/";

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = table_faults();
    for file in tree.rust() {
        let Some(inside) = file.path.strip_prefix(SOURCE) else { continue };
        if inside != "lib.rs" && !is_test_file(inside) {
            faults.extend(file_faults(file, inside));
        }
    }
    faults
}

/// The table itself must point upwards, or it allows a cycle.
fn table_faults() -> Vec<Fault> {
    let mut above = BTreeSet::new();
    let mut faults = Vec::new();
    for (module, imports) in TABLE {
        for import in imports.iter().filter(|import| !above.contains(*import)) {
            faults.push(Fault::new("xtask tidy", format!("{module} → {import} is not upwards")));
        }
        above.insert(*module);
    }
    faults
}

fn file_faults(file: &File, inside: &str) -> Vec<Fault> {
    let module = inside.trim_end_matches(".rs").split('/').next().unwrap_or_default();
    let Some((_, allowed)) = TABLE.iter().find(|(name, _)| *name == module) else {
        let what = format!("module `{module}` is not in the table of xtask/src/tidy/imports.rs");
        return vec![Fault::new(&file.path, what)];
    };
    let code = code_only(without_tests(&file.text));
    let mut found = imports(&code, "crate::");
    // `super::` from the top of a module leads to the crate's root as well.
    let depth = inside.trim_end_matches("/mod.rs").split('/').count();
    found.extend(imports(&code, &"super::".repeat(depth)));
    let wrong =
        found.into_iter().filter(|(_, name)| name != module && !allowed.contains(&name.as_str()));
    wrong
        .map(|(at, name)| {
            let what = if TABLE.iter().any(|(known, _)| *known == name) {
                format!("`{module}` may not import `{name}` (table in xtask/src/tidy/imports.rs)")
            } else {
                format!("`{name}` is no module: import from the module that defines it")
            };
            Fault::at_line(&file.path, line_of(&code, at), what)
        })
        .collect()
}

/// The names right after `crate::` (or its like), groups opened up.
fn imports(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
            continue; // `my_crate::`, the second half of `super::super::`
        }
        let rest = &code[at + prefix.len()..];
        if rest.starts_with("super::") {
            continue; // counted by a longer prefix
        }
        let names = match rest.strip_prefix('{') {
            Some(group) => group_names(group),
            None => vec![word(rest)],
        };
        found.extend(names.into_iter().filter(|n| !n.is_empty()).map(|name| (at, name)));
    }
    found
}

/// The first words of the parts of a group, whose opening brace is already read.
fn group_names(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0_u32;
    let mut part_start = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(word(group[part_start..at].trim_start()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(word(group[part_start..at].trim_start()));
                part_start = at + 1;
            }
            _ => {}
        }
    }
    names
}

/// The identifier at the start; a macro's name counts as nothing, macros live at the root.
fn word(text: &str) -> String {
    let name: String = text.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect();
    if text[name.len()..].starts_with('!') { String::new() } else { name }
}

#[cfg(test)]
mod tests {
    use super::{File, file_faults, table_faults};

    fn check(inside: &str, text: &str, expect: &[&str]) {
        let file = File { path: format!("simulator/src/{inside}"), text: text.to_owned() };
        let faults: Vec<String> =
            file_faults(&file, inside).iter().map(ToString::to_string).collect();
        assert_eq!(faults.len(), expect.len(), "{faults:?}");
        for (fault, part) in faults.iter().zip(expect) {
            assert!(fault.contains(part), "{fault} should contain {part}");
        }
    }

    #[test]
    fn the_table_points_upwards() {
        assert_eq!(table_faults(), []);
    }

    #[test]
    fn allowed_imports_pass() {
        check("wire.rs", "//! Speaks of [`crate::report`].\nuse crate::units::Bytes;\n", &[]);
        check("wire/error.rs", "use super::Scenario;\nuse crate::wire::X;\n", &[]);
        check("units/bytes.rs", "#[cfg(test)]\nmod tests {\n    use crate::simulate;\n}\n", &[]);
    }

    #[test]
    fn forbidden_imports_are_found_with_their_line() {
        let wrong = "`allocator` may not import `timeline`";
        check("allocator.rs", "use std::fmt;\nuse crate::timeline::Timeline;\n", &[wrong]);
        check("allocator/pool.rs", "fn f() -> crate::timeline::T { g() }\n", &[wrong]);
        check("allocator/pool.rs", "use super::super::timeline::T;\n", &[wrong]);
        check("allocator.rs", "use super::timeline::T;\n", &[wrong]);
        check("allocator.rs", "use crate::{units::{A, B}, timeline::T};\n", &[wrong]);
        check("allocator.rs", "use crate::Bytes;\n", &["`Bytes` is no module"]);
        check("newcomer.rs", "", &["not in the table"]);
    }
}
