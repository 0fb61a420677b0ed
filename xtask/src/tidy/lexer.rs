//! As much of Rust's lexis as the rules need: code without comments and literals, and functions.

/// Source of the same length with comments and the insides of literals blanked, lines kept.
///
/// So a brace in a string does not count as a brace, and a path in a comment is no import.
pub(super) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if starts_raw_string(bytes, at) => raw_string_end(bytes, at),
            b'\'' => char_end(bytes, at),
            _ => at,
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    // Only whole literals and comments were blanked, byte for byte, so this is text again.
    String::from_utf8_lossy(&out).into_owned()
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| at + n)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_u32);
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn starts_raw_string(bytes: &[u8], at: usize) -> bool {
    // `br"…"` is raw as well; the `r` of an identifier (`for"`, `expr#`) is not.
    let before = |n: usize| at.checked_sub(n).map(|i| bytes[i]);
    let joins = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    let is_byte_string = before(1) == Some(b'b') && !joins(before(2));
    let in_word = joins(before(1)) && !is_byte_string;
    let hashes = bytes[at + 1..].iter().take_while(|&&b| b == b'#').count();
    !in_word && bytes.get(at + 1 + hashes) == Some(&b'"')
}

fn raw_string_end(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|&&b| b == b'#').count();
    let body = at + 2 + hashes;
    let closing: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let found = bytes[body..].windows(closing.len()).position(|window| window == closing);
    found.map_or(bytes.len(), |n| body + n + closing.len())
}

/// The end of a character literal, or `at` when the quote begins a lifetime.
fn char_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => {
            // The character after the backslash may itself be a quote.
            let rest = bytes.get(at + 3..).unwrap_or_default();
            rest.iter().position(|&b| b == b'\'').map_or(at, |n| at + 4 + n)
        }
        Some(&first) => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            if bytes.get(at + 1 + width) == Some(&b'\'') { at + 2 + width } else { at }
        }
        None => at,
    }
}

/// The source before its unit tests; they come last in a file.
pub(super) fn without_tests(source: &str) -> &str {
    let marker = ["#[cfg(test)]\nmod ", "#[cfg(test)]\n#[expect"];
    let cut = marker.iter().filter_map(|mark| source.find(mark)).min();
    &source[..cut.unwrap_or(source.len())]
}

/// Whether a file holds nothing but unit tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("tests/")
}

/// A function with a body: its lines, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    pub name: String,
    pub first_line: usize,
    pub n_lines: usize,
}

/// Every function of a source that went through [`code_only`].
pub(super) fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let starts_word = at == 0 || !is_word(bytes[at - 1]);
        let rest = &code[at + 3..];
        let name: String = rest.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect();
        if !starts_word || name.is_empty() {
            continue; // `Fn (…)`, a function pointer `fn (…)`
        }
        if let Some(end) = body_end(bytes, at) {
            let first_line = line_of(code, at);
            let n_lines = line_of(code, end) - first_line + 1;
            found.push(Function { name, first_line, n_lines });
        }
    }
    found
}

/// The closing brace of the body, or `None` for a declaration without one.
fn body_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_u32;
    let mut brackets = 0_u32;
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b';' if depth == 0 && brackets == 0 => return None,
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && brackets == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The line of a byte position, from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::{code_only, functions, without_tests};

    #[test]
    fn comments_and_literals_are_blanked() {
        for (source, expect) in [
            ("a /* { /* } */ */ b", "a b"),
            ("x // }\ny", "x y"),
            (r#"f("{\"", c)"#, "f( , c)"),
            (r##"r#"{"}"# ; br"{" ;"##, "; b ;"),
            (r"'{' '\'' '\u{7d}' 'a x", "'a x"),
            ("'é' 'b'", ""),
            ("for r in expr { }", "for r in expr { }"),
        ] {
            let code = code_only(source);
            assert_eq!(code.len(), source.len(), "{source}");
            assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expect, "{source}");
        }
    }

    #[test]
    fn functions_are_measured_with_signature_and_braces() {
        let code = code_only(
            "pub fn a(\n    x: [u8; 3],\n) -> u8 {\n    // }\n    x[0]\n}\n\ntrait T { fn d(&self); fn b() {} }\n\
             const F: fn(u8) = g;\n",
        );
        let found: Vec<_> =
            functions(&code).into_iter().map(|f| (f.name, f.first_line, f.n_lines)).collect();
        assert_eq!(found, [("a".to_owned(), 1, 6), ("b".to_owned(), 8, 1)]);
    }

    #[test]
    fn tests_are_cut_off() {
        assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {}\n"), "a\n");
    }
}
