//! What is written about the API is what the program does.

use std::path::Path;

use server::Code;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn committed_description_is_current() {
    let file = root().join("server/openapi.json");
    let current = server::openapi::document().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("TIDEMARK_UPDATE").is_some() {
        std::fs::write(&file, &current).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == current,
        "server/openapi.json is not current: look at the difference after \
         `TIDEMARK_UPDATE=1 cargo test --release -p server --test openapi`"
    );
}

#[test]
fn every_problem_is_documented_with_its_status() {
    let text = std::fs::read_to_string(root().join("docs/formats.md")).unwrap();
    for code in Code::ALL {
        let row = format!("| `{}` | {} |", code.word(), code.status().as_u16());
        assert!(text.contains(&row), "docs/formats.md has no row {row}");
    }
}
