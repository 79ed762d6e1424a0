//! Rows that others have lost, doubled or miscounted.

use crate::site::Site;

/// P04: a table that is filled from itself does not read what it has just written.
#[test]
fn p04_insert_from_the_same_table_adds_each_row_once() {
    for options in ["batch_size '1'", "batch_size '30'", "fetch_size '7'"] {
        let mut site = Site::with(options);
        site.partitioned("stock", "k int, piece int", "");
        // Two leaves of one shard, so that the second is scanned after rows have gone there.
        site.north
            .run("CREATE TABLE stock_4 (k int, piece int)")
            .expect_ok();
        site.tag(
            "CREATE FOREIGN TABLE stock_4 PARTITION OF stock FOR VALUES IN (4) \
             SERVER north OPTIONS (schema_name 'public')",
        );
        let fill = "INSERT INTO stock SELECT 1 + g % 4, g FROM generate_series(1, 200) g";
        assert_eq!(site.tag(fill), "INSERT 0 200");
        let swap = "INSERT INTO stock SELECT 5 - k, piece + 500 FROM stock";
        assert_eq!(site.tag(swap), "INSERT 0 200", "{options}");
        assert_eq!(
            site.rows("SELECT k, count(*), max(piece) FROM stock GROUP BY k ORDER BY k"),
            ["1|100|699", "2|100|698", "3|100|697", "4|100|700"],
            "{options}"
        );
    }
}

/// P08: rows with equal keys in one batch are a conflict like any other, not an overwrite.
#[test]
fn p08_equal_keys_in_one_batch_conflict() {
    let mut site = Site::new();
    site.table("badge", "nr int, holder text", ", PRIMARY KEY (nr)");
    let double = "INSERT INTO badge VALUES (7, 'ann'), (8, 'bob'), (7, 'cid')";
    assert_eq!(site.fails(double), "23505");
    let error = site.copy("COPY badge FROM STDIN", "9\tdora\n9\temil\n");
    let error = error.expect_error();
    assert_eq!(
        (error.sqlstate(), error.constraint()),
        ("23505", "badge_pkey")
    );
    assert_eq!(site.rows("SELECT count(*) FROM badge"), ["0"]);

    let first = format!("{double} ON CONFLICT DO NOTHING");
    assert_eq!(site.tag(&first), "INSERT 0 2");
    let more = "INSERT INTO badge VALUES (7, 'x'), (8, 'y'), (9, 'gus') ON CONFLICT DO NOTHING";
    assert_eq!(site.tag(more), "INSERT 0 1");
    assert_eq!(
        site.rows("SELECT * FROM badge ORDER BY nr"),
        ["7|ann", "8|bob", "9|gus"]
    );
}

/// P10: rows that an UPDATE moves into a shard are not updated again by the same UPDATE.
#[test]
fn p10_moved_rows_are_changed_once() {
    for options in ["batch_size '1'", "batch_size '1000'"] {
        let mut site = Site::with(options);
        site.partitioned("parcel", "k int, weight int", "");
        site.tag("INSERT INTO parcel VALUES (3, 100), (3, 110), (1, 200), (1, 210)");
        // Leaf 1 is both a target and where the rows of leaf 3 go.
        let move_all = "UPDATE parcel SET k = 1, weight = weight + 1";
        assert_eq!(site.tag(move_all), "UPDATE 4");
        let all = "SELECT tableoid::regclass, weight FROM parcel ORDER BY weight";
        assert_eq!(
            site.rows(all),
            [
                "parcel_1|101",
                "parcel_1|111",
                "parcel_1|201",
                "parcel_1|211"
            ]
        );
        // Here it is only where they go.
        site.tag("INSERT INTO parcel SELECT 3, g FROM generate_series(1, 3) g");
        let move_some = "UPDATE parcel SET k = 2, weight = weight + 1 WHERE k = 3";
        assert_eq!(site.tag(move_some), "UPDATE 3");
        assert_eq!(
            site.rows("SELECT weight FROM parcel_2 ORDER BY 1"),
            ["2", "3", "4"]
        );
    }
}

/// P18: returned rows come in the order of the input rows, and belong to them.
#[test]
fn p18_returned_rows_keep_the_order_of_the_input() {
    let mut site = Site::with("batch_size '4'");
    site.north
        .run("CREATE TABLE note_1 (k int, nr serial, body int)")
        .expect_ok();
    site.south
        .run("CREATE TABLE note_2 (k int, nr serial, body int)")
        .expect_ok();
    site.tag("CREATE TABLE note (k int, body int) PARTITION BY LIST (k)");
    for (k, server) in [(1, "north"), (2, "south")] {
        site.tag(&format!(
            "CREATE FOREIGN TABLE note_{k} PARTITION OF note FOR VALUES IN ({k}) \
             SERVER {server} OPTIONS (schema_name 'public')"
        ));
    }
    let returned = "WITH i AS (INSERT INTO note SELECT 1 + g % 2, g FROM generate_series(1, 30) g RETURNING body) \
                    SELECT array_agg(body) = ARRAY(SELECT generate_series(1, 30)) FROM i";
    assert_eq!(site.rows(returned), ["t"]);
    let unordered = "INSERT INTO note SELECT 1 + g % 2, g FROM generate_series(31, 60) g";
    assert_eq!(site.tag(unordered), "INSERT 0 30");
    let changed = "WITH u AS (UPDATE note SET body = body + 100 WHERE random() < 2 RETURNING body - 100 AS old, body) \
                   SELECT count(*), bool_and(body = old + 100) FROM u";
    assert_eq!(site.rows(changed), ["60|t"]);
    // Within a shard, rows of one statement are stored in their order: the shard's serial rises with them.
    for client in [&mut site.north, &mut site.south] {
        let table =
            client.value("SELECT relname FROM pg_class WHERE relname IN ('note_1', 'note_2')");
        let rising = format!(
            "SELECT bool_and(nr > before) FROM (SELECT nr, lag(nr, 1, 0) OVER (ORDER BY body) AS before FROM {table}) s"
        );
        assert_eq!(client.value(&rising), "t");
    }
}

/// P20: rows without any value to send.
#[test]
fn p20_rows_of_defaults_only() {
    let mut site = Site::new();
    site.north
        .run("CREATE TABLE cell (x int DEFAULT 70, y text DEFAULT 'shard')")
        .expect_ok();
    site.tag(
        "CREATE FOREIGN TABLE cell (x int DEFAULT 30, y text DEFAULT 'here') \
         SERVER north OPTIONS (schema_name 'public');
         CREATE FOREIGN TABLE bare () SERVER north OPTIONS (schema_name 'public', table_name 'cell')",
    );
    assert_eq!(site.tag("INSERT INTO cell DEFAULT VALUES"), "INSERT 0 1");
    let mixed = "INSERT INTO cell VALUES (DEFAULT, DEFAULT), (2, DEFAULT), (DEFAULT, 'z')";
    assert_eq!(site.tag(mixed), "INSERT 0 3");
    assert_eq!(site.tag("INSERT INTO bare DEFAULT VALUES"), "INSERT 0 1");
    let many = "INSERT INTO bare SELECT FROM generate_series(1, 50)";
    assert_eq!(site.tag(many), "INSERT 0 50");
    assert_eq!(
        site.rows("SELECT x, y, count(*) FROM cell GROUP BY 1, 2 ORDER BY 1, 2"),
        ["2|here|1", "30|here|2", "30|z|1", "70|shard|51"]
    );
}

/// P46: ON CONFLICT with a target is refused clearly; without one, the tag counts what was stored.
#[test]
fn p46_on_conflict_counts_stored_rows() {
    let mut site = Site::new();
    site.partitioned("seat", "k int, nr int, guest int", ", PRIMARY KEY (nr)");
    for target in [
        "(nr) DO NOTHING",
        "(nr) DO UPDATE SET guest = excluded.guest",
    ] {
        let sql = format!("INSERT INTO seat_1 VALUES (1, 1, 1) ON CONFLICT {target}");
        let error = site.main.run(&sql).expect_error();
        assert!(["42P10", "0A000"].contains(&error.sqlstate()), "{error:?}");
    }
    let some =
        "INSERT INTO seat VALUES (1, 1, 1), (1, 1, 2), (3, 5, 5), (2, 1, 3), (1, 2, 4), (2, 1, 5) \
                ON CONFLICT DO NOTHING";
    assert_eq!(site.tag(some), "INSERT 0 4");
    let reply = site.main.run(
        "INSERT INTO seat VALUES (1, 1, 9), (1, 3, 6), (2, 1, 9) ON CONFLICT DO NOTHING RETURNING nr, guest",
    );
    assert_eq!(
        (reply.tag(), reply.lines()),
        ("INSERT 0 1", vec!["3|6".to_string()])
    );
    assert_eq!(
        site.rows("SELECT * FROM seat ORDER BY k, nr"),
        ["1|1|1", "1|2|4", "1|3|6", "2|1|3", "3|5|5"]
    );
}

/// P03: a row of a remote table that is partitioned itself, or has children, is the one that is changed.
#[test]
fn p03_rows_of_remote_partitions_and_children_are_told_apart() {
    for batch_size in ["1", "20"] {
        let mut site = Site::with(&format!("batch_size '{batch_size}'"));
        site.table("gauge", "id int, place text, reading int", "");
        site.north
            .run(
                "DROP TABLE gauge;
                 CREATE TABLE gauge (id int, place text, reading int) PARTITION BY LIST (place);
                 CREATE TABLE gauge_hill PARTITION OF gauge FOR VALUES IN ('hill');
                 CREATE TABLE gauge_dale PARTITION OF gauge FOR VALUES IN ('dale');
                 INSERT INTO gauge VALUES (1, 'hill', 10), (2, 'dale', 20), (3, 'hill', 30), (4, 'dale', 40);
                 CREATE TABLE parent (id int, reading int);
                 CREATE TABLE child () INHERITS (parent);
                 INSERT INTO parent VALUES (1, 10), (2, 20);
                 INSERT INTO child VALUES (3, 30), (4, 40)",
            )
            .expect_ok();
        site.tag("CREATE FOREIGN TABLE parent (id int, reading int) SERVER north OPTIONS (schema_name 'public')");
        let change = "UPDATE gauge SET reading = 99 WHERE id IN (1, 4) AND random() < 2";
        assert_eq!(site.tag(change), "UPDATE 2");
        assert_eq!(
            site.rows("SELECT * FROM gauge ORDER BY id"),
            ["1|hill|99", "2|dale|20", "3|hill|30", "4|dale|99"]
        );
        // The shard moves the row between its partitions.
        let moved = "UPDATE gauge SET place = 'dale' WHERE id = 3 AND random() < 2";
        assert_eq!(site.tag(moved), "UPDATE 1");
        let returned = "DELETE FROM gauge WHERE id = 1 AND random() < 2 RETURNING reading";
        assert_eq!(site.rows(returned), ["99"]);
        let gone = "DELETE FROM gauge WHERE id = 2 AND random() < 2";
        assert_eq!(site.tag(gone), "DELETE 1");
        assert_eq!(
            site.rows("SELECT * FROM gauge ORDER BY id"),
            ["3|dale|30", "4|dale|99"]
        );
        let change = "UPDATE parent SET reading = reading + 1 WHERE id IN (2, 3) AND random() < 2";
        assert_eq!(site.tag(change), "UPDATE 2");
        let gone = "DELETE FROM parent WHERE id IN (1, 4) AND random() < 2";
        assert_eq!(site.tag(gone), "DELETE 2");
        assert_eq!(
            site.rows("SELECT * FROM parent ORDER BY id"),
            ["2|21", "3|31"]
        );
        // A child that comes while the session knows the table already.
        site.north
            .run(
                "CREATE TABLE plain (id int, reading int);
                 INSERT INTO plain SELECT g, g FROM generate_series(1, 5) g",
            )
            .expect_ok();
        site.tag("CREATE FOREIGN TABLE plain (id int, reading int) SERVER north OPTIONS (schema_name 'public')");
        assert_eq!(
            site.tag("UPDATE plain SET reading = 0 WHERE random() < 2"),
            "UPDATE 5"
        );
        site.north
            .run(
                "CREATE TABLE late () INHERITS (plain);
                 INSERT INTO late SELECT g, g FROM generate_series(1, 20) g",
            )
            .expect_ok();
        let gone = "DELETE FROM plain WHERE reading > 5 AND random() < 2";
        assert_eq!(site.tag(gone), "DELETE 15");
        assert_eq!(
            site.rows("SELECT sum(id), sum(reading), count(*) FROM plain"),
            ["30|15|10"]
        );
    }
}

/// P52: a target that a join brings twice is changed once, by whole batches.
#[test]
fn p52_joined_changes_go_in_batches_and_change_a_row_once() {
    let mut site = Site::with("batch_size '100'");
    site.table("price", "id int, amount int", ", PRIMARY KEY (id)");
    site.tag("INSERT INTO price SELECT g, 0 FROM generate_series(1, 2000) g");
    // Each row is named twice, the second time in another batch or in the same.
    site.tag(
        "CREATE TABLE news AS SELECT g AS id, g * 10 + k AS amount \
         FROM generate_series(0, 1) k, generate_series(1, 2000, 2) g;
         CREATE TABLE doubled AS SELECT g AS id, g * 10 + k AS amount \
         FROM generate_series(1, 2000, 2) g, generate_series(0, 1) k",
    );
    for source in ["news", "doubled"] {
        for method in ["hashjoin", "mergejoin", "nestloop"] {
            site.tag(
                "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_nestloop = off",
            );
            site.tag(&format!("SET enable_{method} = on"));
            let change =
                format!("UPDATE price SET amount = s.amount FROM {source} s WHERE s.id = price.id");
            assert_eq!(site.tag(&change), "UPDATE 1000", "{source} {method}");
            assert_eq!(
                site.rows(
                    "SELECT count(*) FROM price WHERE amount > 0 AND amount NOT IN (id * 10, id * 10 + 1)"
                ),
                ["0"]
            );
        }
    }
    let before = site.rows("SELECT batches FROM shard_fdw_stats() WHERE server_name = 'north'");
    let gone = "DELETE FROM price USING doubled d WHERE d.id = price.id AND d.amount % 3 = 0";
    let local = "SELECT count(DISTINCT id) FROM doubled WHERE amount % 3 = 0";
    let expected = site.rows(local)[0].clone();
    assert_eq!(site.tag(gone), format!("DELETE {expected}"));
    let after = site.rows("SELECT batches FROM shard_fdw_stats() WHERE server_name = 'north'");
    let number = |rows: &[String]| rows[0].parse::<usize>().unwrap();
    let batches = number(&after) - number(&before);
    assert_eq!(batches, expected.parse::<usize>().unwrap().div_ceil(100));
}

/// P01: no row stays in a partition whose bound it is outside of.
#[test]
fn p01_no_row_is_outside_of_its_partition() {
    for batch_size in ["1", "20"] {
        let mut site = Site::with(&format!("batch_size '{batch_size}'"));
        site.partitioned("truck", "k int, plate text", "");
        site.tag("INSERT INTO truck VALUES (1, 'A'), (1, 'B'), (2, 'C'), (3, 'D')");
        for sql in [
            "UPDATE truck_1 SET k = 2 WHERE plate = 'A'",
            "UPDATE truck_1 SET k = 2 WHERE plate = 'A' AND random() < 2",
            "UPDATE truck_2 SET k = NULL RETURNING *",
            "INSERT INTO truck_1 VALUES (1, 'E'), (2, 'F')",
            "INSERT INTO truck_2 SELECT 1, 'G' || g FROM generate_series(1, 30) g",
        ] {
            assert_eq!(site.fails(sql), "23514", "{sql}");
        }
        let copy = site.copy("COPY truck_1 FROM STDIN", "1\tH\n2\tI\n");
        assert_eq!(copy.expect_error().sqlstate(), "23514");
        // Through the parent, rows move, unless somebody watches them.
        for (sql, tag) in [
            ("UPDATE truck SET k = 2 WHERE plate = 'A'", "UPDATE 1"),
            (
                "UPDATE truck SET k = 1 WHERE plate IN ('A', 'C') AND random() < 2",
                "UPDATE 2",
            ),
            ("UPDATE truck SET k = 3 WHERE plate = 'C'", "UPDATE 1"),
            (
                "UPDATE truck SET k = 2 WHERE k = 3 AND plate = 'D'",
                "UPDATE 1",
            ),
        ] {
            assert_eq!(site.tag(sql), tag, "{sql}");
        }
        let returning = "UPDATE truck SET k = 3 WHERE plate = 'B' RETURNING *";
        assert_eq!(site.fails(returning), "23514");
        site.tag(
            "CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN COALESCE(NEW, OLD); END';
             CREATE TABLE owner (plate text PRIMARY KEY);
             INSERT INTO owner VALUES ('A'), ('B');
             CREATE VIEW heavy AS SELECT * FROM truck WHERE k < 9 WITH CHECK OPTION",
        );
        let to_here = "UPDATE truck SET k = 3 WHERE plate = 'B'";
        let to_south = "UPDATE truck SET k = 2 WHERE plate = 'B'";
        for (watch, undo, sql) in [
            (
                "CREATE TRIGGER w BEFORE DELETE ON truck_1 FOR EACH ROW EXECUTE FUNCTION pass()",
                "DROP TRIGGER w ON truck_1",
                to_south,
            ),
            (
                "CREATE TRIGGER w AFTER UPDATE ON truck_1 FOR EACH ROW EXECUTE FUNCTION pass()",
                "DROP TRIGGER w ON truck_1",
                to_here,
            ),
            (
                "CREATE TRIGGER w BEFORE INSERT ON truck_2 FOR EACH ROW EXECUTE FUNCTION pass()",
                "DROP TRIGGER w ON truck_2",
                to_south,
            ),
            (
                "CREATE TRIGGER w AFTER INSERT ON truck_3 FOR EACH ROW EXECUTE FUNCTION pass()",
                "DROP TRIGGER w ON truck_3",
                to_here,
            ),
            (
                "ALTER TABLE truck_3 ADD CONSTRAINT w FOREIGN KEY (plate) REFERENCES owner NOT VALID",
                "ALTER TABLE truck_3 DROP CONSTRAINT w",
                to_here,
            ),
            (
                "ALTER TABLE truck_3 ADD CONSTRAINT w UNIQUE (plate) DEFERRABLE",
                "ALTER TABLE truck_3 DROP CONSTRAINT w",
                to_here,
            ),
            ("SELECT 1", "SELECT 1", "UPDATE heavy SET k = 3 WHERE plate = 'B'"),
        ] {
            site.tag(watch);
            assert_eq!(site.fails(sql), "23514", "{watch}");
            site.tag(undo);
        }
        site.tag(
            "CREATE TRIGGER w AFTER UPDATE ON truck REFERENCING NEW TABLE AS fresh \
             FOR EACH STATEMENT EXECUTE FUNCTION pass()",
        );
        assert_eq!(site.fails(to_south), "0A000");
        site.tag("DROP TRIGGER w ON truck");
        assert_eq!(site.tag(to_south), "UPDATE 1");
        for k in 1..4 {
            let found = site.rows(&format!("SELECT count(*) FROM truck WHERE k = {k}"));
            let there = format!("SELECT count(*) FILTER (WHERE k = {k}) FROM truck");
            assert_eq!(found, site.rows(&there));
            let inside = format!("SELECT count(*) FROM truck_{k} WHERE k IS DISTINCT FROM {k}");
            assert_eq!(site.rows(&inside), ["0"]);
        }
        assert_eq!(site.rows("SELECT count(*) FROM truck"), ["4"]);
    }
}

/// Somebody else changes a row between the look at it and the batch: the error is one that clients retry, and its CONTEXT names
/// the rows of the batch.
#[test]
fn conflicts_and_errors_of_a_batch_are_told_exactly() {
    for key in [
        "",
        "ALTER FOREIGN TABLE stock ALTER id OPTIONS (ADD key 'true')",
    ] {
        let mut site = Site::with("batch_size '10'");
        site.table(
            "stock",
            "id int, n int",
            ", PRIMARY KEY (id), CHECK (n < 1000)",
        );
        site.tag("INSERT INTO stock SELECT g, g FROM generate_series(1, 40) g");
        site.tag(key);
        for change in [
            "UPDATE stock SET n = n + 1 WHERE id > 20 AND random() < 2",
            "DELETE FROM stock WHERE id > 20 AND random() < 2",
        ] {
            // The remote transaction's snapshot is older than the other's change.
            site.tag("BEGIN");
            site.tag("SELECT count(*) FROM stock");
            site.north
                .run("UPDATE stock SET n = n + 1 WHERE id = 35")
                .expect_ok();
            let error = site.main.run(change);
            let error = error.expect_error();
            assert_eq!(error.sqlstate(), "40001", "{change} {key}");
            site.tag("ROLLBACK");
        }
        let reply = site
            .main
            .run("UPDATE stock SET n = n + 963 WHERE random() < 2");
        let error = reply.expect_error();
        assert_eq!(error.sqlstate(), "23514");
        let context = error.context();
        assert!(
            context.contains("foreign table \"stock\", rows 31 to 40"),
            "{context}"
        );
        assert_eq!(site.rows("SELECT count(*), sum(n) FROM stock"), ["40|822"]);
    }
}
