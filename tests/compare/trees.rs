//! Schemas and statements drawn at random, the same on local and on foreign tables: `schema.rs` draws tables, partition trees,
//! triggers and views, `writer.rs` what is done with them.
//!
//! `SEED=n` repeats a run, `STATEMENTS=n` says how long it is, LONG=1 means 20,000. Each schema has a seed of its own, which a
//! difference names.

use crate::common::{long, Reply};
use crate::driver::{rows_differ, usual_ways, Databases, Kind, Side, Way};
use crate::outcome::{Depth, Outcome};
use crate::random::Dice;
use crate::schema::Schema;
use crate::script::{Item, Place};
use crate::writer::Writer;
use std::collections::BTreeMap;

/// Statements for each schema.
const SPAN: u64 = 40;
/// What a test of ordinary length runs.
const SHARE: u64 = 1200;

pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// How many statements a run has, by the environment.
pub fn length(long_run: u64, share: u64) -> u64 {
    number("STATEMENTS").unwrap_or(if long() { long_run } else { share })
}

/// What kind of statement it is, and what became of it.
fn answer(sql: &str, reply: &Reply) -> String {
    let kind = sql.split(' ').next().unwrap_or_default();
    match &reply.error {
        Some(error) => format!("{kind} failed with {}", error.sqlstate()),
        None if reply.tag().ends_with(" 0") => format!("{kind} did nothing"),
        None => format!("{kind} succeeded"),
    }
}

fn create(side: &mut Side, schema: &Schema) {
    for item in &schema.items {
        match item {
            Item::Table(table) => side.create(table),
            Item::Step(step) => {
                let client = match step.place {
                    Place::Stored(shard) if !side.is_local() => &mut side.shards[shard],
                    _ => &mut side.main,
                };
                client.run(&step.sql).expect_ok();
            }
        }
    }
}

#[test]
fn random_schemas() {
    let seed = number("SEED").unwrap_or(1_792_000);
    let statements = length(20_000, SHARE);
    println!("SEED={seed} STATEMENTS={statements}");
    let databases = Databases::start();
    let mut differences = Vec::new();
    // What local tables answered, by first words and outcome.
    let mut answers: BTreeMap<String, u64> = BTreeMap::new();
    let ways: Vec<Way> = usual_ways().collect();
    for seed in seed..seed + statements.div_ceil(SPAN) {
        let way = ways[seed as usize % ways.len()];
        let mut dice = Dice(seed);
        let schema = Schema::draw(&mut dice);
        let policy = ["statement", "statement", "call", "row"][dice.below(4) as usize];
        let mut local = databases.side(Kind::Local);
        let mut foreign = databases.side(Kind::Foreign(way));
        create(&mut local, &schema);
        create(&mut foreign, &schema);
        let set = format!("SET shard_fdw.flush_policy = {policy}");
        foreign.main.run(&set).expect_ok();
        let mut writer = Writer::new(dice, &schema);
        let mut status = 'I';
        let mut history = Vec::new();
        for number in 0..SPAN {
            let sql = writer.next(status);
            let (here, there) = (local.main.run(&sql), foreign.main.run(&sql));
            status = here.status;
            *answers.entry(answer(&sql, &here)).or_default() += 1;
            let mistake = here
                .error
                .as_ref()
                .filter(|error| error.sqlstate().starts_with("42"));
            assert!(
                mistake.is_none(),
                "SEED={seed}: {sql}\n{mistake:?}\n{}",
                schema.text()
            );
            let (here, there) = (
                Outcome::of(&here, &sql, Depth::Loose),
                Outcome::of(&there, &sql, Depth::Loose),
            );
            history.push(sql);
            let mut difference =
                (here != there).then(|| format!("    local:   {here}\n    foreign: {there}"));
            // After each statement this would take most of the time.
            if difference.is_none() && status != 'E' && (number % 8 == 7 || number + 1 == SPAN) {
                difference = rows_differ("as queried", &local.contents(), &foreign.contents());
            }
            if let Some(difference) = difference {
                let last = history.len().saturating_sub(10);
                differences.push(format!(
                    "\n=== SEED={seed} STATEMENTS={SPAN}, {way}, policy {policy}, statement {number}\n{}\n…\n{};\n{difference}",
                    schema.text(),
                    history[last..].join(";\n")
                ));
                break;
            }
        }
        foreign.main.run("ROLLBACK");
    }
    for (answer, count) in &answers {
        println!("{count:6} {answer}");
    }
    assert!(
        differences.is_empty(),
        "{} schemas differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
}
