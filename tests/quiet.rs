//! What a shard's statistics hold after many short statements: texts that come again, whatever their constants.

mod common;

use common::{create_server, need_extension, Cluster, Setup, Simple};

const FOREIGN: &str = "
CREATE TABLE t (id int, k int, v text, at timestamptz) PARTITION BY HASH (id);
CREATE FOREIGN TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 3, REMAINDER 0) SERVER far;
CREATE FOREIGN TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 3, REMAINDER 1) SERVER far;
CREATE FOREIGN TABLE t2 PARTITION OF t FOR VALUES WITH (MODULUS 3, REMAINDER 2) SERVER far;
CREATE FOREIGN TABLE one (id int, k int, v text, at timestamptz) SERVER far;
";

/// The statements of round `n`, as applications send them.
fn round(client: &mut Simple, n: usize) {
    let rows = 1 + n % 7;
    for sql in [
        format!("SELECT v FROM one WHERE id = {n}"),
        format!("SELECT v FROM one WHERE id = {n} AND k < {} AND v LIKE 'v{n}%' AND at > '2024-01-01'::timestamptz + '{n} days'", n + 1),
        format!("SELECT count(*) FROM t WHERE k = ANY ('{{{n},{rows}}}')"),
        format!("INSERT INTO t SELECT i, {n}, 'v{n}', now() FROM generate_series({n}, {}) AS i", n + rows),
        format!("INSERT INTO one VALUES ({n}, {n}, 'v', now()) RETURNING id"),
        format!("UPDATE t SET v = 'w{n}' WHERE k = {n} AND random() < 2"),
        format!("UPDATE one SET k = k + {n} WHERE id = {n}"),
        format!("DELETE FROM t WHERE k = {n} AND random() < 2"),
        format!("DELETE FROM one WHERE id = {n} RETURNING *"),
        format!("BEGIN; SELECT id FROM one WHERE k > {n} ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED; COMMIT"),
        format!(
            "BEGIN; DECLARE a CURSOR FOR SELECT id FROM t WHERE k > {n}; FETCH a; SAVEPOINT s; \
             SELECT count(*) FROM one WHERE k = {n}; ROLLBACK TO s; FETCH 5 FROM a; CLOSE a; COMMIT"
        ),
        format!("SELECT o.id FROM one AS o JOIN t USING (id) WHERE o.k < {n}"),
    ] {
        client.run(&sql).expect_ok();
    }
}

#[test]
fn a_shard_sees_few_texts() {
    if !need_extension("pg_stat_statements") {
        return;
    }
    let coordinator = Cluster::start();
    let shard = Setup::new()
        .set("shared_preload_libraries", "pg_stat_statements")
        .start();
    shard.sql(
        "CREATE EXTENSION pg_stat_statements;
         CREATE TABLE t0 (id int, k int, v text, at timestamptz); CREATE TABLE t1 (LIKE t0); CREATE TABLE t2 (LIKE t0);
         CREATE TABLE one (LIKE t0); INSERT INTO one SELECT i, i, 'v' || i, now() FROM generate_series(1000, 1500) AS i",
    );
    let mut client = coordinator.simple();
    client.run("CREATE EXTENSION shard_fdw").expect_ok();
    client
        .run(&create_server("far", shard.port(), ""))
        .expect_ok();
    client.run(FOREIGN).expect_ok();
    let texts = || {
        let mut shard = shard.simple();
        shard
            .run("SELECT query FROM pg_stat_statements WHERE query !~ 'pg_stat_statements' ORDER BY query")
            .lines()
    };
    for n in 0..10 {
        round(&mut client, n);
    }
    let first = texts();
    // Every shape of a statement has come by now.
    for n in 10..60 {
        round(&mut client, n);
    }
    let new: Vec<String> = texts()
        .into_iter()
        .filter(|text| !first.contains(text))
        .collect();
    assert!(new.is_empty(), "{new:#?}");
    assert!(first.len() < 80, "{} texts: {first:#?}", first.len());
}
