//! Locking clauses drawn at random, the same on local and on foreign tables: which rows come, and who else may lock what? Second
//! connections to where the rows are stored hold locks before, and look for free rows after.
//!
//! `SEED=n` repeats a run, `LONG=1` makes it longer.

use crate::common::{long, Simple};
use crate::driver::{Databases, Kind, Side, Way, WAYS};
use crate::outcome::{Depth, Outcome};
use crate::random::Dice;
use crate::script::{parse, Item};

const TABLES: &str = "
== tables
@table t ON s1
    id int, k int, v text
    PRIMARY KEY (id);
CREATE TABLE p (id int, k int, v text) PARTITION BY LIST (k);
@table p0 ON s1 OF p FOR VALUES IN (0)
    v text, id int, k int
    PRIMARY KEY (id);
@table p1 ON s2 OF p FOR VALUES IN (1)
    id int, k int, v text
    PRIMARY KEY (id);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
ALTER TABLE p2 ADD PRIMARY KEY (id);
CREATE TABLE l (id int PRIMARY KEY, k int, v text);
";

const ROWS: &str = "
INSERT INTO t SELECT i, i % 3, 'row ' || i FROM generate_series(1, 20) AS i;
INSERT INTO p SELECT i, i % 3, 'row ' || i FROM generate_series(1, 20) AS i;
INSERT INTO l SELECT i, i % 3, 'row ' || i FROM generate_series(1, 20) AS i;
";

/// Where rows are stored: the tables, and the shard that has them, if one has.
const STORED: [(&str, Option<usize>); 5] = [
    ("t", Some(0)),
    ("p0", Some(0)),
    ("p1", Some(1)),
    ("p2", None),
    ("l", None),
];

const STRENGTHS: [&str; 4] = ["KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE"];

fn pick<'a>(dice: &mut Dice, from: &[&'a str]) -> &'a str {
    from[dice.below(from.len() as u64) as usize]
}

/// Conditions that a shard gets, and such as stay here.
const CONDITIONS: [&str; 8] = [
    "true",
    "A.id > 3",
    "A.id % 2 = 0",
    "A.v <> 'row 4'",
    "A.id % 3 <> (random() * 0)::int",
    "A.id < 15 AND A.id + (random() * 0)::int > 2",
    "A.id IN (SELECT id FROM l WHERE k = 1)",
    "A.id = (SELECT max(id) - 3 FROM l)",
];

/// Orders that are total, some of which a shard gets.
const ORDERS: [&str; 6] = [
    "A.id",
    "A.id DESC",
    "A.k, A.id",
    "A.k DESC NULLS LAST, A.id",
    "A.id + (random() * 0)::int",
    "length(A.v), A.id % 5, A.id",
];

/// A statement with a locking clause. `may_wait`: nobody else has locks.
fn draw(dice: &mut Dice, may_wait: bool) -> String {
    let strength = pick(dice, &STRENGTHS);
    let wait = match may_wait {
        true => pick(dice, &["", "", " NOWAIT", " SKIP LOCKED"]),
        false => pick(dice, &[" NOWAIT", " SKIP LOCKED"]),
    };
    let table = pick(dice, &["t", "t", "p"]);
    let condition = pick(dice, &CONDITIONS).replace('A', "a");
    let order = pick(dice, &ORDERS).replace('A', "a");
    let limit = 1 + dice.below(4);
    let limits = [
        String::new(),
        format!(" LIMIT {limit}"),
        format!(" LIMIT {limit} OFFSET 2"),
    ];
    let limit = &limits[dice.below(3) as usize];
    match dice.below(10) {
        // Without an order, rows come as they are stored.
        0 => format!("SELECT a.id, a.v FROM {table} AS a WHERE {condition}{limit} FOR {strength}{wait}"),
        1..=3 => format!(
            "SELECT a.id, a.tableoid::regclass FROM {table} AS a WHERE {condition} ORDER BY {order}{limit} FOR {strength}{wait}"
        ),
        4 => {
            let of = pick(dice, &["", " OF a", " OF b"]);
            let other = pick(dice, &["t", "p", "l"]);
            format!(
                "SELECT a.id, b.v FROM {table} AS a JOIN {other} AS b ON b.id = a.id + 1 WHERE {condition} \
                 ORDER BY {order}, b.id{limit} FOR {strength}{of}{wait}"
            )
        }
        5 => format!(
            "WITH s AS MATERIALIZED (SELECT a.* FROM {table} AS a WHERE {condition} ORDER BY {order}{limit} FOR {strength}{wait}) \
             SELECT s.id, (SELECT v FROM l WHERE l.id = s.id) FROM s ORDER BY s.id"
        ),
        6 => format!(
            "UPDATE {table} SET v = 'busy' WHERE id = (SELECT a.id FROM {table} AS a WHERE {condition} ORDER BY {order} \
             LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
        ),
        // Rows that are chosen by a join.
        7 => format!(
            "WITH s AS MATERIALIZED (SELECT a.id FROM {table} AS a WHERE {condition} ORDER BY {order} LIMIT 2 FOR UPDATE SKIP LOCKED) \
             UPDATE {table} AS u SET v = u.v || '!' FROM s WHERE u.id = s.id RETURNING u.id, u.v"
        ),
        8 => format!(
            "DELETE FROM {table} AS u USING (SELECT a.id FROM {table} AS a WHERE {condition} ORDER BY {order} LIMIT 2 \
             FOR UPDATE SKIP LOCKED) AS s WHERE u.id = s.id"
        ),
        _ => format!(
            "DECLARE c CURSOR FOR SELECT a.id FROM {table} AS a WHERE {condition} ORDER BY {order}{limit} FOR {strength}{wait}; \
             FETCH {} FROM c",
            1 + dice.below(3)
        ),
    }
}

/// Connections of others to where the rows are stored.
struct Others(Vec<Simple>);

impl Others {
    fn of(databases: &Databases, side: &Side) -> Others {
        let database = |shard| match (side.is_local(), shard) {
            (true, _) => "local",
            (false, None) => "sharded",
            (false, Some(0)) => "s1",
            (false, Some(_)) => "s2",
        };
        let open = |&(_, shard): &(&str, Option<usize>)| {
            databases.cluster.simple_as(database(shard), "postgres")
        };
        Others(STORED.iter().map(open).collect())
    }

    /// Everybody locks some rows.
    fn hold(&mut self, lock: &str) {
        for (client, (table, _)) in self.0.iter_mut().zip(STORED) {
            let sql = format!("BEGIN; SELECT FROM w.{table} WHERE {lock}");
            client.run(&sql).expect_ok();
        }
    }

    fn release(&mut self) {
        for client in &mut self.0 {
            client.run("ROLLBACK").expect_ok();
        }
    }

    /// For each table and strength, the rows that can be locked.
    fn free(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for (client, (table, _)) in self.0.iter_mut().zip(STORED) {
            for strength in STRENGTHS {
                let sql =
                    format!("SELECT id FROM w.{table} ORDER BY id FOR {strength} SKIP LOCKED");
                let free = client.run(&sql).lines().join(" ");
                all.push(format!("{table} FOR {strength}: {free}"));
            }
        }
        all
    }
}

fn side(databases: &Databases, kind: Kind) -> (Side, Others) {
    let mut side = databases.side(kind);
    for item in &parse(TABLES)[0].items {
        match item {
            Item::Table(table) => side.create(table),
            Item::Step(step) => {
                side.main.run(&step.sql).expect_ok();
            }
        }
    }
    side.main.run(ROWS).expect_ok();
    let others = Others::of(databases, &side);
    (side, others)
}

/// What a statement gives, and which rows are free while it is under way, and after its savepoint is undone.
fn play(side: &mut Side, others: &mut Others, held: Option<&str>, sql: &str) -> Vec<String> {
    if let Some(lock) = held {
        others.hold(lock);
    }
    let reply = side.main.run(&format!("BEGIN; SAVEPOINT before; {sql}"));
    let mistake = reply
        .error
        .as_ref()
        .filter(|error| error.sqlstate() != "55P03");
    assert!(mistake.is_none(), "{sql}: {mistake:?}");
    // What an UPDATE returns has no order.
    let ordered = if sql.contains(" SET ") { "" } else { sql };
    let mut seen = vec![Outcome::of(&reply, ordered, Depth::Loose).to_string()];
    if held.is_some() {
        others.release();
    }
    // After an error the transaction may have kept locks or not.
    if reply.error.is_none() {
        seen.extend(others.free());
    }
    side.main.run("ROLLBACK TO before").expect_ok();
    seen.extend(others.free());
    side.main.run("ROLLBACK").expect_ok();
    seen
}

#[test]
fn rows_are_locked_as_local_ones_are() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(8_119);
    let databases = Databases::start();
    let count = if long() { 1500 } else { 50 };
    let few_rows = |way: &&Way| way.rescans;
    let ways = [WAYS[3], *WAYS.iter().find(few_rows).expect("such a way")];
    let (mut local, mut locals) = side(&databases, Kind::Local);
    for (round, way) in (0u64..).zip(ways) {
        let (mut foreign, mut foreigners) = side(&databases, Kind::Foreign(way));
        let mut dice = Dice(seed + round);
        for number in 0..count {
            let held = dice.one_in(2).then(|| {
                let strength = pick(&mut dice, &STRENGTHS);
                let rows = pick(&mut dice, &["id % 4 = 1", "id < 4", "id = 18", "k = 1"]);
                format!("{rows} FOR {strength}")
            });
            let sql = draw(&mut dice, held.is_none());
            let here = play(&mut local, &mut locals, held.as_deref(), &sql);
            let there = play(&mut foreign, &mut foreigners, held.as_deref(), &sql);
            let differences: Vec<String> = here
                .iter()
                .zip(&there)
                .filter(|(here, there)| here != there)
                .map(|(here, there)| format!("    local:   {here}\n    foreign: {there}"))
                .collect();
            assert!(
                here == there,
                "SEED={seed} {way}, statement {number}: others held {held:?}\n{sql}\n{}",
                differences.join("\n")
            );
        }
    }
}
