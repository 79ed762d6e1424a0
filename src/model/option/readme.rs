//! The options table as README.md shows it, and the test that keeps both the same.

use super::table::{Context, Kind, OptionDef, Standing, OPTIONS};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const BEGIN: &str =
    "<!-- options: begin (a unit test compares this table with src/model/option/table.rs) -->\n";
const END: &str = "<!-- options: end -->\n";

fn markdown() -> String {
    let mut text =
        String::from("| option | level | values | default | meaning |\n|---|---|---|---|---|\n");
    for def in OPTIONS {
        text.push_str(&row(def));
    }
    text
}

fn row(def: &OptionDef) -> String {
    let levels: Vec<&str> = def
        .contexts
        .iter()
        .map(|context| match context {
            Context::Table => "table",
            Context::Import => "IMPORT",
            other => other.noun(),
        })
        .collect();
    let default = match def.default {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let standing = match def.standing {
        Standing::Works => "",
        Standing::WithoutEffect => " (checked, without effect yet)",
        Standing::Refused => " (refused: not supported yet)",
    };
    format!(
        "| `{}` | {} | {} | {default} | {}{standing} |\n",
        def.name,
        levels.join(", "),
        values(&def.kind),
        def.doc
    )
}

fn values(kind: &Kind) -> String {
    let range = |allowed: String, noun: &str| match allowed.strip_prefix(noun) {
        Some(rest) => rest.split(',').next().unwrap_or(rest).to_string(),
        None => allowed,
    };
    match kind {
        Kind::Bool => "boolean".into(),
        Kind::Int { .. } => range(kind.allowed(), "integers from "),
        Kind::Size { .. } => range(kind.allowed(), "sizes from "),
        Kind::Cost => "0 up".into(),
        Kind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Kind::Name => "name".into(),
        Kind::NameList => "`name, …`".into(),
        Kind::SessionSettings => "`name=value, …`".into(),
        Kind::Libpq => "as for libpq".into(),
    }
}

#[test]
fn readme_shows_the_options_table() {
    let readme = std::fs::read_to_string(README).expect("README.md is there");
    let shown = readme
        .split_once(BEGIN)
        .and_then(|(_, rest)| rest.split_once(END))
        .map(|(table, _)| table.trim());
    assert_eq!(
        shown,
        Some(markdown().trim()),
        "the table in README.md should be:\n{}",
        markdown()
    );
}
