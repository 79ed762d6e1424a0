//! The table option on_conflict where only the shard knows which keys are the same, and where the shard changes.

mod common;

use common::*;

/// A shard, and a session on the coordinator with `t` as foreign table for its table of that name.
struct Site {
    shard: Cluster,
    _coordinator: Cluster,
    client: Simple,
}

impl Site {
    fn start() -> Site {
        let coordinator = Cluster::start();
        let shard = Cluster::start();
        let mut client = coordinator.simple();
        client.run("CREATE EXTENSION shard_fdw").expect_ok();
        client
            .run(&create_server("s", shard.port(), ""))
            .expect_ok();
        Site {
            shard,
            _coordinator: coordinator,
            client,
        }
    }

    /// Makes both tables anew; `columns` are those of the foreign one.
    fn tables(&mut self, stored: &str, columns: &str) {
        self.shard
            .sql(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t {stored}"));
        self.client
            .run(&format!(
                "DROP FOREIGN TABLE IF EXISTS t;
                 CREATE FOREIGN TABLE t ({columns}) SERVER s
                     OPTIONS (schema_name 'public', table_name 't', on_conflict 'update', batch_size '100')"
            ))
            .expect_ok();
    }

    /// Why rows go one by one, or how they were flushed.
    fn explain(&mut self, sql: &str) -> String {
        let lines = self
            .client
            .run(&format!(
                "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {sql}"
            ))
            .lines();
        let found = lines
            .iter()
            .map(|line| line.trim())
            .find(|line| line.starts_with("Batching") || line.starts_with("Flushes"));
        found.unwrap_or_default().to_string()
    }

    fn rows(&mut self) -> Vec<String> {
        self.client.run("SELECT * FROM t ORDER BY v, k").lines()
    }
}

const FOUR: &str = "INSERT INTO t VALUES ('a', 1), ('A', 2), ('b', 3), ('a', 4)";
const IN_ANOTHER_WAY: &str =
    "Batching: off (on_conflict is update, the shard may compare keys in another way)";

#[test]
fn collations_under_which_different_strings_are_equal() {
    let mut site = Site::start();
    let collation =
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    let created = site.client.run(collation);
    if created
        .error
        .is_some_and(|error| error.sqlstate() == "0A000")
    {
        return skip("this installation has no ICU");
    }
    site.shard.sql(collation);

    let of_column = "(k text COLLATE ci PRIMARY KEY, v int)";
    site.tables(of_column, "k text OPTIONS (key 'true') COLLATE ci, v int");
    assert_eq!(
        site.explain(FOUR),
        "Batching: off (on_conflict is update, the key's collation is nondeterministic)"
    );
    assert_eq!(site.rows(), ["b|3", "a|4"]);

    // Only the shard's column, or one of its indexes, has it.
    let of_index = "(k text, v int); CREATE UNIQUE INDEX ON t (k COLLATE ci)";
    for stored in [of_column, of_index] {
        site.tables(stored, "k text OPTIONS (key 'true'), v int");
        assert_eq!(site.explain(FOUR), IN_ANOTHER_WAY, "{stored}");
        assert_eq!(site.rows(), ["b|3", "a|4"], "{stored}");
    }

    // A deterministic one compares bytes.
    let stored = "(k text COLLATE \"und-x-icu\" PRIMARY KEY, v int)";
    site.tables(stored, "k text OPTIONS (key 'true'), v int");
    assert_eq!(site.explain(FOUR), "Flushes: end=1 repeat=1");
    assert_eq!(site.rows(), ["A|2", "b|3", "a|4"]);
}

#[test]
fn types_that_only_the_shard_has() {
    if !need_extension("citext") {
        return;
    }
    let mut site = Site::start();
    site.shard.sql("CREATE EXTENSION citext");
    site.tables(
        "(k citext PRIMARY KEY, v int)",
        "k text OPTIONS (key 'true'), v int",
    );
    assert_eq!(site.explain(FOUR), IN_ANOTHER_WAY);
    assert_eq!(site.rows(), ["b|3", "a|4"]);
    let rows = "b\t30\nA\t40\na\t41\nc\t5\n";
    let copied = site.client.copy_in("COPY t FROM STDIN", rows.as_bytes());
    assert_eq!(copied.tag(), "COPY 4");
    assert_eq!(site.rows(), ["c|5", "b|30", "a|41"]);
}

/// A view takes rows one by one.
#[test]
fn views_of_the_shard() {
    let mut site = Site::start();
    site.shard.sql(
        "CREATE TABLE base (id int PRIMARY KEY, v int); CREATE VIEW u AS SELECT id AS k, v FROM base",
    );
    site.client
        .run(
            "CREATE FOREIGN TABLE t (k int OPTIONS (key 'true'), v int) SERVER s
                 OPTIONS (schema_name 'public', table_name 'u', on_conflict 'update')",
        )
        .expect_ok();
    let insert = "INSERT INTO t VALUES (1, 1), (2, 2), (1, 3)";
    assert_eq!(
        site.explain(insert),
        "Batching: off (on_conflict is update, the shard may change rows)"
    );
    assert_eq!(site.rows(), ["2|2", "1|3"]);
    assert_eq!(site.client.run(insert).tag(), "INSERT 0 3");
    let copied = site.client.copy_in("COPY t FROM STDIN", b"1\t5\n1\t6\n");
    assert_eq!(copied.tag(), "COPY 2");
    site.client
        .run("ALTER FOREIGN TABLE t OPTIONS (SET on_conflict 'nothing')")
        .expect_ok();
    let insert = "INSERT INTO t VALUES (1, 7), (7, 7), (7, 8)";
    assert_eq!(site.client.run(insert).tag(), "INSERT 0 1");
    let copied = site.client.copy_in("COPY t FROM STDIN", b"1\t5\n8\t8\n");
    assert_eq!(copied.tag(), "COPY 1");
    assert_eq!(site.rows(), ["2|2", "1|6", "7|7", "8|8"]);
}

/// What has changed unnoticed is an error at worst, once, and never a wrong row or count.
#[test]
fn a_shard_that_changes() {
    let mut site = Site::start();
    site.tables(
        "(k int PRIMARY KEY, v int)",
        "k int OPTIONS (key 'true'), v int",
    );
    let insert = "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)";
    assert_eq!(site.explain(insert), "Flushes: end=1");
    site.shard.sql(
        "CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.k := 1; RETURN NEW; END';
         CREATE TRIGGER same BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION same()",
    );
    let error = site.client.run(insert).expect_error();
    assert_eq!(error.sqlstate(), "21000", "{error:?}");
    assert_eq!(site.client.run(insert).tag(), "INSERT 0 3");
    assert_eq!(site.rows(), ["2|2", "1|3", "3|3"]);

    site.tables(
        "(k int PRIMARY KEY, v int)",
        "k int OPTIONS (key 'true'), v int",
    );
    assert_eq!(site.explain(insert), "Flushes: end=1");
    site.shard.sql(
        "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER never BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION never()",
    );
    let rows = b"1\t10\n4\t40\n";
    let error = site
        .client
        .copy_in("COPY t FROM STDIN", rows)
        .expect_error();
    assert_eq!(error.sqlstate(), "55000", "{error:?}");
    let copied = site.client.copy_in("COPY t FROM STDIN", rows);
    assert_eq!(copied.tag(), "COPY 1");
    assert_eq!(site.rows(), ["1|1", "2|2", "3|3", "4|40"]);
}

/// Rows for one table at a time wait under policy `transaction`; those that may change others do not.
#[test]
fn policies() {
    let mut site = Site::start();
    site.tables(
        "(k int PRIMARY KEY, v int)",
        "k int OPTIONS (key 'true'), v int",
    );
    for option in ["update", "nothing"] {
        site.shard.sql("TRUNCATE t");
        site.client
            .run(&format!(
                "ALTER FOREIGN TABLE t OPTIONS (SET on_conflict '{option}')"
            ))
            .expect_ok();
        for policy in ["row", "call", "statement", "transaction"] {
            site.client
                .run(&format!(
                    "SET shard_fdw.flush_policy = '{policy}'; BEGIN; INSERT INTO t VALUES (1, 1), (2, 2), (1, 3)"
                ))
                .expect_ok();
            let tag = site
                .client
                .run("INSERT INTO t VALUES (1, 4), (3, 3)")
                .tag()
                .to_string();
            site.client.run("COMMIT").expect_ok();
            let expected = match (option, policy) {
                ("update", _) => ("INSERT 0 2", ["2|2", "3|3", "1|4"]),
                (_, "row") => ("INSERT 0 1", ["1|1", "2|2", "3|3"]),
                _ => ("INSERT 0 0", ["1|1", "2|2", "3|3"]),
            };
            assert_eq!(
                (tag.as_str(), site.rows().as_slice()),
                (expected.0, &expected.1.map(String::from)[..]),
                "{option} {policy}"
            );
        }
    }
}

/// A key that does not repeat costs no more than an INSERT.
#[test]
fn round_trips() {
    let mut site = Site::start();
    site.tables(
        "(k int PRIMARY KEY, v int)",
        "k int OPTIONS (key 'true'), v int",
    );
    let batches = |site: &mut Site, rows: &str| {
        let before = "SELECT batches FROM shard_fdw_stats()";
        let count = |client: &mut Simple| client.value(before).parse::<i64>().unwrap();
        let start = count(&mut site.client);
        let insert = format!("INSERT INTO t SELECT {rows}, g FROM generate_series(1, 1000) AS g");
        assert_eq!(site.client.run(&insert).tag(), "INSERT 0 1000");
        count(&mut site.client) - start
    };
    site.client.run("INSERT INTO t VALUES (0, 0)").expect_ok();
    assert_eq!(batches(&mut site, "g"), 10);
    assert_eq!(batches(&mut site, "g / 2"), 500);
    assert_eq!(site.client.value("SELECT count(*) FROM t"), "1001");
}
