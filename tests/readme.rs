//! README.md shows the SQL that tests/demo.sh runs.

const README: &str = include_str!("../README.md");

#[test]
fn quick_start_is_the_sql_of_the_demo() {
    for (file, sql) in [
        ("shard1.sql", include_str!("../sql/demo/shard1.sql")),
        ("shard2.sql", include_str!("../sql/demo/shard2.sql")),
        (
            "coordinator.sql",
            include_str!("../sql/demo/coordinator.sql"),
        ),
        ("load.sql", include_str!("../sql/demo/load.sql")),
    ] {
        assert!(
            README.contains(&format!("```sql\n{sql}```\n")),
            "README.md does not show sql/demo/{file}"
        );
    }
}

/// A link within the file leads to a heading as GitHub names it, any other one to a file.
#[test]
fn links_lead_somewhere() {
    let anchors: Vec<String> = README
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .replace(|c: char| !(c.is_alphanumeric() || " _-".contains(c)), "")
                .replace(' ', "-")
        })
        .collect();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut links = 0;
    for part in README.split("](").skip(1) {
        let Some((target, _)) = part.split_once(')') else {
            continue;
        };
        links += 1;
        match target.strip_prefix('#') {
            Some(anchor) => assert!(anchors.iter().any(|known| known == anchor), "#{anchor}"),
            None if target.starts_with("https://") => {}
            None => assert!(root.join(target).exists(), "{target}"),
        }
    }
    assert!(links > 0);
}
