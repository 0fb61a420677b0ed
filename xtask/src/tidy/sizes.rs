//! Short files, short functions, and a first line that says what a file is for.

use super::lexer::{Function, code_only, functions, without_tests};
use super::{Fault, File, Tree};

/// Lines of a file before its unit tests.
const FILE_LINES_MAX: usize = 600;
/// Lines of a function from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// The same for what lays out a page or describes an endpoint: long, but flat.
const FLAT_FUNCTION_LINES_MAX: usize = 100;
/// Marks above a function that make it a flat one.
const FLAT_MARKS: [&str; 2] = ["#[component]", "#[utoipa::path"];

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    tree.rust().flat_map(faults).collect()
}

fn faults(file: &File) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !file.text.starts_with("//! ") {
        faults.push(Fault::new(&file.path, "the first line is no `//!` that says what it is for"));
    }
    let n_lines = without_tests(&file.text).lines().count();
    if n_lines > FILE_LINES_MAX {
        faults.push(Fault::new(&file.path, format!("{n_lines} lines, {FILE_LINES_MAX} at most")));
    }
    let lines: Vec<&str> = file.text.lines().collect();
    for function in functions(&code_only(&file.text)) {
        let limit = limit(&lines, &function);
        if function.n_lines > limit {
            let what = format!("fn {}: {} lines, {limit} at most", function.name, function.n_lines);
            faults.push(Fault::at_line(&file.path, function.first_line, what));
        }
    }
    faults
}

/// Looks at the attributes and comments right above the function.
fn limit(lines: &[&str], function: &Function) -> usize {
    let above = lines[..function.first_line - 1].iter().rev().map(|line| line.trim());
    let is_flat = above
        .take_while(|line| !line.is_empty() && *line != "}")
        .any(|line| FLAT_MARKS.iter().any(|mark| line.starts_with(mark)));
    if is_flat { FLAT_FUNCTION_LINES_MAX } else { FUNCTION_LINES_MAX }
}

#[cfg(test)]
mod tests {
    use super::{File, faults};

    fn check(text: &str, expect: &[&str]) {
        let file = File { path: "a.rs".to_owned(), text: text.to_owned() };
        let found: Vec<String> = faults(&file).iter().map(ToString::to_string).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_file_must_say_what_it_is_for() {
        check("//! Adds.\nfn f() {}\n", &[]);
        check("fn f() {}\n", &["a.rs: the first line is no `//!` that says what it is for"]);
    }

    #[test]
    fn long_functions_are_found_and_flat_ones_may_be_longer() {
        let body = "    g();\n".repeat(69);
        check(&format!("//! A.\n\nfn f() {{\n{body}}}\n"), &["a.rs:3: fn f: 71 lines, 70 at most"]);
        check(&format!("//! A.\n\n#[component]\nfn f() {{\n{body}}}\n"), &[]);
    }

    #[test]
    fn unit_tests_do_not_count_towards_the_file() {
        let tests = "#[cfg(test)]\nmod tests {\n".to_owned() + &"    // x\n".repeat(700) + "}\n";
        check(&format!("//! A.\n{tests}"), &[]);
        let long = "//! A.\n".to_owned() + &"const A: u8 = 1;\n".repeat(600);
        check(&long, &["a.rs: 601 lines, 600 at most"]);
    }
}
