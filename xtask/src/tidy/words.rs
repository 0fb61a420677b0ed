//! Words that mean unfinished work, and paths and addresses of one machine.

use super::{Fault, File, Tree};

/// Banned in code, each in two halves so that this file passes its own rule.
const WORDS: &[(&str, &str)] = &[
    ("todo", "!("),
    ("unimplemented", "!("),
    ("dbg", "!("),
    ("FIX", "ME"),
    ("XX", "X"),
    ("TO", "DO"),
    ("#[ig", "nore"),
];

/// Banned everywhere: folders that exist on one machine only, and conflict marks.
const LEFTOVERS: &[(&str, &str)] = &[
    ("/wor", "k/"),
    ("/ro", "ot/"),
    ("/ho", "me/"),
    ("/Use", "rs/"),
    ("registry.np", "mjs.org"),
    ("<<<<", "<<< "),
    (">>>>", ">>> "),
];

/// Files of other people, or data that may contain anything.
const EXEMPT: &[&str] = &["Cargo.lock", "tests/ground-truth/", "tests/published/", "tests/corpus/"];

pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    let files = tree.texts.iter().filter(|f| !EXEMPT.iter().any(|e| f.path.starts_with(e)));
    files.flat_map(faults).collect()
}

fn faults(file: &File) -> Vec<Fault> {
    let is_code = [".rs", ".js", ".mjs", ".css", ".html", ".toml", ".sql", ".py", ".sh"]
        .iter()
        .any(|extension| file.path.ends_with(extension));
    let words = if is_code { WORDS } else { &[] };
    let banned: Vec<String> =
        words.iter().chain(LEFTOVERS).map(|(a, b)| [*a, *b].concat()).collect();
    let mut faults = Vec::new();
    for (line_idx, line) in file.text.lines().enumerate() {
        for word in banned.iter().filter(|word| stands_in(line, word)) {
            faults.push(Fault::at_line(&file.path, line_idx + 1, format!("`{word}` is banned")));
        }
    }
    faults
}

/// Whether the word stands in the line by itself: `XXXL` is another word, `a/b/` another path.
fn stands_in(line: &str, word: &str) -> bool {
    let joins =
        |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    line.match_indices(word).any(|(at, _)| {
        let letters = |c: char| c.is_ascii_alphabetic();
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let open_end = word.ends_with(letters) && joins(after);
        !(joins(before) || open_end)
    })
}

#[cfg(test)]
mod tests {
    use super::{File, faults};

    fn n_faults(path: &str, text: &str) -> usize {
        faults(&File { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn unfinished_work_is_found_in_code_alone() {
        let line = ["let x = ", "todo", "!();"].concat();
        assert_eq!(n_faults("a.rs", &line), 1);
        assert_eq!(n_faults("a.md", &line), 0);
        assert_eq!(n_faults("a.rs", &["// ", "FIX", "ME: later"].concat()), 1);
        assert_eq!(n_faults("a.rs", &["size: ", "XX", "XL"].concat()), 0);
    }

    #[test]
    fn machine_paths_are_found_everywhere() {
        for path in ["README.md", "a.rs", "lock.json"] {
            assert_eq!(n_faults(path, &["see ", "/ho", "me/someone"].concat()), 1);
            assert_eq!(n_faults(path, "src/homes/a.rs"), 0);
        }
        assert_eq!(n_faults("a.md", &["docs.", "/wor", "k/"].concat()), 0);
    }
}
