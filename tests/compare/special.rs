//! What does not fit into a scenario: statements whose outcome is not one, other clients, statistics, large values.

use crate::common::{need_extension, Setup};
use crate::driver::{rows_differ, usual_ways, Databases, Kind, Side};
use crate::script::{parse, Item};

/// Creates the tables of a scenario on one side.
fn create(side: &mut Side, tables: &str) {
    for item in &parse(tables)[0].items {
        match item {
            Item::Table(table) => side.create(table),
            Item::Step(step) => {
                side.main.run(&step.sql).expect_ok();
            }
        }
    }
}

const LEAVES: &str = "
== tables
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, v text
    PRIMARY KEY (id), CHECK (v <> 'bad');
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int, v text
    PRIMARY KEY (id), CHECK (v <> 'bad');
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
";

#[test]
fn one_of_several_errors_is_raised_and_nothing_is_kept() {
    let databases = Databases::start();
    for way in usual_ways() {
        let mut side = databases.side(Kind::Foreign(way));
        create(&mut side, LEAVES);
        let before = side
            .main
            .run("INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'a'), (3, 1, 'a')");
        assert_eq!(before.tag(), "INSERT 0 3");
        // A duplicate key on either shard, a broken check on either, no leaf, and a division by zero: not all in each.
        let rows = [
            "(1, 10, 'ok')",
            "(1, 1, 'again')",
            "(2, 20, 'ok')",
            "(2, 21, 'bad')",
            "(3, 30, 'ok')",
            "(2, 1, 'again')",
            "(1, 11, 'bad')",
            "(9, 9, 'nowhere')",
            "(1, 12, (1 / (random() * 0)::int)::text)",
        ];
        let expected = ["23505", "23514", "22012"];
        for start in 0..rows.len() {
            let mut turned = rows.to_vec();
            turned.rotate_left(start);
            for length in [4, 6, 8, 9] {
                let sql = format!("INSERT INTO t VALUES {}", turned[..length].join(", "));
                let error = side.main.run(&sql).expect_error();
                assert!(
                    expected.contains(&error.sqlstate()),
                    "{way}: {sql}\n{error:?}"
                );
            }
            let data: String = turned
                .iter()
                .filter(|row| !row.contains("random"))
                .map(|row| {
                    row.trim_matches(['(', ')'])
                        .replace(", ", "\t")
                        .replace('\'', "")
                        + "\n"
                })
                .collect();
            let error = side
                .main
                .copy_in("COPY t FROM STDIN", data.as_bytes())
                .expect_error();
            assert!(expected.contains(&error.sqlstate()), "COPY: {error:?}");
        }
        let nothing_new = ["t1 (1,1,a)", "t2 (2,1,a)", "t3 (3,1,a)"];
        assert_eq!(side.contents(), nothing_new, "{way}");
    }
}

#[test]
fn transition_tables_are_refused_and_nothing_is_kept() {
    let databases = Databases::start();
    for way in usual_ways() {
        let mut side = databases.side(Kind::Foreign(way));
        create(&mut side, LEAVES);
        side.main
            .run(
                "CREATE FUNCTION count_new() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN PERFORM count(*) FROM fresh; RETURN NULL; END';
                 CREATE TRIGGER count_new AFTER INSERT ON t REFERENCING NEW TABLE AS fresh \
                 FOR EACH STATEMENT EXECUTE FUNCTION count_new()",
            )
            .expect_ok();
        let refusal = "cannot collect transition tuples from child foreign tables";
        let insert = "INSERT INTO t VALUES (3, 1, 'a'), (1, 1, 'a'), (2, 1, 'a')";
        let error = side.main.run(insert).expect_error();
        assert_eq!((error.sqlstate(), error.message()), ("0A000", refusal));
        let error = side
            .main
            .copy_in("COPY t FROM STDIN", b"3\t1\ta\n1\t1\ta\n2\t1\ta\n")
            .expect_error();
        assert_eq!((error.sqlstate(), error.message()), ("0A000", refusal));
        assert_eq!(side.contents(), Vec::<String>::new());
        // The local leaf alone is no reason for a refusal.
        let local = side
            .main
            .run("INSERT INTO t VALUES (3, 1, 'a'), (3, 2, 'b')");
        assert_eq!(local.tag(), "INSERT 0 2");
    }
}

#[test]
fn statement_statistics_count_the_rows() {
    if !need_extension("pg_stat_statements") {
        return;
    }
    let setup = Setup::new()
        .set("shared_preload_libraries", "pg_stat_statements")
        .set("pg_stat_statements.track", "all");
    let databases = Databases::start_with(setup);
    let counted = |side: &mut Side| {
        create(side, LEAVES);
        side.main
            .run("DROP EXTENSION IF EXISTS pg_stat_statements; CREATE EXTENSION pg_stat_statements SCHEMA public; SELECT pg_stat_statements_reset()")
            .expect_ok();
        for sql in [
            "INSERT INTO t SELECT 1 + g % 3, g, 'x' FROM generate_series(1, 100) g",
            "INSERT INTO t VALUES (1, 1000, 'x'), (2, 1000, 'x'), (3, 1000, 'x')",
            "INSERT INTO t SELECT 1, g, 'y' FROM generate_series(1, 50) g ON CONFLICT DO NOTHING",
            "INSERT INTO t VALUES (1, 2000, 'x'), (2, 2000, 'x') RETURNING id",
            "WITH x AS (INSERT INTO t SELECT 2, 3000 + g, 'x' FROM generate_series(1, 9) g) INSERT INTO t SELECT 1, 3000 + g, 'x' FROM generate_series(1, 17) g",
            "DO $$ BEGIN FOR i IN 1..5 LOOP INSERT INTO t SELECT 2, 4000 + i * 10 + g, 'loop' FROM generate_series(1, 4) g; END LOOP; END $$",
            "UPDATE t SET v = 'z' WHERE id < 20",
            "DELETE FROM t WHERE id < 10 AND random() < 2",
        ] {
            side.main.run(sql).expect_ok();
        }
        side.main
            .copy_in(
                "COPY t FROM STDIN",
                b"1\t5000\ta\n2\t5000\tb\n3\t5000\tc\n1\t5001\td\n",
            )
            .expect_ok();
        side.main
            .run(
                "SELECT query, calls, rows FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid \
                 WHERE d.datname = current_database() AND query ~ '^(INSERT|WITH|UPDATE|DELETE|COPY)' ORDER BY query",
            )
            .lines()
    };
    let local = counted(&mut databases.side(Kind::Local));
    assert_eq!(local.len(), 9, "{local:?}");
    for way in usual_ways() {
        let foreign = counted(&mut databases.side(Kind::Foreign(way)));
        assert_eq!(local, foreign, "{way}");
    }
}

#[test]
fn large_values() {
    const TABLES: &str = "
== tables
CREATE TABLE t (k int, t text, b bytea, j jsonb, a text[], n int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, t text, b bytea, j jsonb, a text[], n int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, t text, b bytea, j jsonb, a text[], n int;
";
    // 10 MB of each type, among small rows.
    const INSERT: &str = "INSERT INTO t
        SELECT 1 + g % 2, CASE WHEN g = 3 THEN repeat('0123456789', 1048576) ELSE g::text END,
               CASE WHEN g = 4 THEN decode(repeat('00ff5c27', 2621440), 'hex') ELSE '' END,
               CASE WHEN g = 6 THEN jsonb_build_object('a', repeat('\"x', 5242880)) END,
               CASE WHEN g = 7 THEN ARRAY[repeat('\\{', 5242880), NULL, ''] END, g
        FROM generate_series(1, 10) g";
    let digest = "SELECT md5(t::text) FROM t";
    let databases = Databases::start();
    let mut data = Vec::new();
    let mut run = |kind: Kind| {
        let mut side = databases.side(kind);
        create(&mut side, TABLES);
        assert_eq!(side.main.run(INSERT).tag(), "INSERT 0 10");
        if kind == Kind::Local {
            data = side.main.run("COPY (SELECT * FROM t) TO STDOUT").copied;
        }
        assert_eq!(
            side.main.copy_in("COPY t FROM STDIN", &data).tag(),
            "COPY 10"
        );
        let update = side
            .main
            .run("UPDATE t SET n = -n WHERE n = 3 AND random() < 2");
        assert_eq!(update.tag(), "UPDATE 2");
        let mut digests = side.main.run(digest).lines();
        digests.sort();
        digests
    };
    let local = run(Kind::Local);
    assert_eq!(local.len(), 20);
    for way in usual_ways() {
        let foreign = run(Kind::Foreign(way));
        assert_eq!(rows_differ("read back", &local, &foreign), None, "{way}");
    }
}

#[test]
fn clients_of_the_extended_protocol() {
    use std::io::Write;
    let databases = Databases::start();
    let run = |kind: Kind| {
        let mut side = databases.side(kind);
        create(&mut side, LEAVES);
        let dbname = if side.is_local() { "local" } else { "sharded" };
        let mut client = databases.cluster.connect_as(dbname, "postgres");
        let mut seen = Vec::new();
        let insert = client
            .prepare("INSERT INTO t VALUES ($1, $2, $3)")
            .expect("prepare");
        // Often enough for a generic plan.
        for id in 1..=9_i32 {
            let rows = client.execute(&insert, &[&(1 + id % 3), &id, &format!("v{id}")]);
            seen.push(format!("{rows:?}"));
        }
        let rows = client.execute(
            "INSERT INTO t SELECT 1 + g % 3, g, $1 FROM generate_series($2::int, $3::int) g",
            &[&"many", &100_i32, &130_i32],
        );
        seen.push(format!("{rows:?}"));
        let duplicate = client.execute(&insert, &[&1_i32, &3_i32, &"again"]).err();
        seen.push(format!("{:?}", duplicate.and_then(|e| e.code().cloned())));
        let mut copy = client.copy_in("COPY t FROM STDIN").expect("COPY");
        copy.write_all(b"1\t500\ta\n2\t500\tb\n3\t500\tc\n")
            .expect("COPY data");
        seen.push(format!("{:?}", copy.finish()));

        let mut transaction = client.transaction().expect("BEGIN");
        let portal = transaction
            .bind("SELECT id FROM t WHERE k = $1 ORDER BY id", &[&2_i32])
            .expect("bind");
        let first = transaction.query_portal(&portal, 3).expect("rows");
        let rows = transaction.execute("INSERT INTO t VALUES (2, -1, 'x'), (2, -2, 'y')", &[]);
        seen.push(format!("{rows:?}"));
        let rest = transaction.query_portal(&portal, 0).expect("rows");
        for row in first.iter().chain(&rest) {
            seen.push(row.get::<_, i32>(0).to_string());
        }
        transaction.commit().expect("COMMIT");
        seen.extend(side.contents());
        seen
    };
    let local = run(Kind::Local);
    for way in usual_ways() {
        let foreign = run(Kind::Foreign(way));
        assert_eq!(local, foreign, "{way}");
    }
}
