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
