//! Shards of every version, each by itself and all in one partitioned table.

mod common;

use common::*;

/// A server of every version, started at the same time, and the coordinator's servers `v14`, `v15`, …
fn every_version(client: &mut Simple) -> Vec<(u16, Cluster)> {
    let starting = shard_majors()
        .map(|major| std::thread::spawn(move || (major, Setup::of_major(major).start())));
    let shards: Vec<(u16, Cluster)> = starting
        .into_iter()
        .map(|thread| thread.join().expect("start a shard"))
        .collect();
    client.run("CREATE EXTENSION shard_fdw").expect_ok();
    for (major, shard) in &shards {
        client
            .run(&create_server(&format!("v{major}"), shard.port(), ""))
            .expect_ok();
    }
    shards
}

#[test]
fn every_version_does_all() {
    let coordinator = Cluster::start();
    let mut client = coordinator.simple();
    for (major, shard) in every_version(&mut client) {
        let server = format!("v{major}");
        let workload = Workload::new(&shard, &mut client, &server, &format!("t{major}"));
        workload.run(&mut client);
        shard.check_log();
    }
}

#[test]
fn one_table_spans_all_versions() {
    let coordinator = Cluster::start();
    let mut client = coordinator.simple();
    let shards = every_version(&mut client);
    client
        .run(
            "CREATE TABLE t (id int, note text) PARTITION BY HASH (id);
             CREATE TABLE here (id int, note text) PARTITION BY HASH (id)",
        )
        .expect_ok();
    for (remainder, (major, shard)) in shards.iter().enumerate() {
        shard.sql("CREATE TABLE t (id int PRIMARY KEY, note text)");
        client
            .run(&format!(
                "CREATE FOREIGN TABLE t{remainder} PARTITION OF t FOR VALUES WITH (MODULUS 5, REMAINDER {remainder})
                     SERVER v{major} OPTIONS (schema_name 'public', table_name 't', batch_size '7');
                 CREATE TABLE here{remainder} PARTITION OF here FOR VALUES WITH (MODULUS 5, REMAINDER {remainder})"
            ))
            .expect_ok();
    }
    let counts = |client: &mut Simple, table: &str| {
        client
            .run(&format!(
                "SELECT right(tableoid::regclass::text, 1), count(*), sum(id), string_agg(note, ',' ORDER BY id)
                 FROM {table} GROUP BY 1 ORDER BY 1"
            ))
            .lines()
    };
    let rows: String = (301..=400).map(|i| format!("{i}\tcopied {i}\n")).collect();
    for table in ["t", "here"] {
        let run = |client: &mut Simple, sql: &str| {
            client.run(&sql.replace("TABLE", table)).tag().to_string()
        };
        let insert = "INSERT INTO TABLE SELECT i, 'row ' || i FROM generate_series(1, 300) AS i";
        assert_eq!(run(&mut client, insert), "INSERT 0 300");
        let copied = client.copy_in(&format!("COPY {table} FROM STDIN"), rows.as_bytes());
        assert_eq!(copied.tag(), "COPY 100");
        let update = "UPDATE TABLE SET note = note || '!' WHERE id % 3 = 0";
        assert_eq!(run(&mut client, update), "UPDATE 133");
        assert_eq!(
            run(&mut client, "DELETE FROM TABLE WHERE id % 10 = 0"),
            "DELETE 40"
        );
        let nested = "BEGIN; INSERT INTO TABLE VALUES (1001, 'kept'); SAVEPOINT a; DELETE FROM TABLE; ROLLBACK TO a; COMMIT";
        assert_eq!(run(&mut client, nested), "COMMIT");
    }
    assert_eq!(counts(&mut client, "t"), counts(&mut client, "here"));
    assert_eq!(counts(&mut client, "t").len(), 5);

    // A row that one of them refuses undoes the rows of all.
    let insert = "INSERT INTO t SELECT i, 'again' FROM generate_series(2000, 1, -1) AS i";
    assert_eq!(client.run(insert).expect_error().sqlstate(), "23505");
    assert_eq!(counts(&mut client, "t"), counts(&mut client, "here"));
    assert_eq!(client.run("TRUNCATE t").tag(), "TRUNCATE TABLE");
    for (_, shard) in &shards {
        assert_eq!(shard.value("SELECT count(*) FROM t"), "0");
    }
}

#[test]
fn every_version_can_be_imported_from() {
    let coordinator = Cluster::start();
    let mut client = coordinator.simple();
    for (major, shard) in every_version(&mut client) {
        // Virtual unless STORED is said, from 18 on; not to be had before.
        let kind = if major >= 18 { "VIRTUAL" } else { "STORED" };
        shard.sql(&format!(
            "CREATE SCHEMA app;
             CREATE TABLE app.t (id int GENERATED ALWAYS AS IDENTITY, note text COLLATE \"C\" DEFAULT 'here' NOT NULL,
                 twice int GENERATED ALWAYS AS (n * 2) STORED, n int, thrice int GENERATED ALWAYS AS (n * 3) {kind},
                 gone int, span interval DEFAULT '1 day 02:00:00');
             ALTER TABLE app.t DROP COLUMN gone;
             CREATE VIEW app.sums AS SELECT sum(n) AS total FROM app.t;
             CREATE TABLE app.parted (a int, b int) PARTITION BY LIST (a);
             CREATE TABLE app.part PARTITION OF app.parted DEFAULT;"
        ));
        client
            .run(&format!(
                "CREATE SCHEMA here; IMPORT FOREIGN SCHEMA app FROM SERVER v{major} INTO here
                     OPTIONS (import_remote_default 'true')"
            ))
            .expect_ok();
        let columns = "SELECT attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull, \
             nullif(attcollation, 100)::regcollation, attgenerated, array_to_string(attfdwoptions, ' ') \
             FROM pg_attribute JOIN pg_foreign_table ON ftrelid = attrelid WHERE attnum > 0 ORDER BY attrelid::regclass::text, attnum";
        let thrice = if kind == "VIRTUAL" && common::major() >= 18 {
            "v"
        } else {
            "s"
        };
        assert_eq!(
            client.run(columns).lines(),
            [
                "here.parted|a|integer|f|-||column_name=a",
                "here.parted|b|integer|f|-||column_name=b",
                "here.sums|total|bigint|f|-||column_name=total",
                "here.t|id|integer|t|-||column_name=id remote_default=true",
                "here.t|note|text|t|\"C\"||column_name=note remote_default=true",
                "here.t|twice|integer|f|-|s|column_name=twice",
                "here.t|n|integer|f|-||column_name=n",
                &format!("here.t|thrice|integer|f|-|{thrice}|column_name=thrice"),
                "here.t|span|interval|f|-||column_name=span remote_default=true",
            ],
            "from {major}"
        );
        let insert = "INSERT INTO here.t (n) VALUES (1), (2), (3)";
        assert_eq!(client.run(insert).tag(), "INSERT 0 3");
        let update = "UPDATE here.t SET n = n + 10 WHERE thrice = 9 AND note = 'here'";
        assert_eq!(client.run(update).tag(), "UPDATE 1");
        assert_eq!(
            client.run("SELECT * FROM here.t ORDER BY id").lines(),
            [
                "1|here|2|1|3|1 day 02:00:00",
                "2|here|4|2|6|1 day 02:00:00",
                "3|here|26|13|39|1 day 02:00:00"
            ],
            "from {major}"
        );
        assert_eq!(client.value("SELECT total FROM here.sums"), "16");
        client.run("DROP SCHEMA here CASCADE").expect_ok();
        shard.check_log();
    }
}

#[test]
fn every_version_takes_upserts() {
    let coordinator = Cluster::start();
    let mut client = coordinator.simple();
    for (major, shard) in every_version(&mut client) {
        shard.sql(
            "CREATE TABLE t (k int, j text, v int, w int, PRIMARY KEY (k, j)) PARTITION BY HASH (k);
             CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        );
        client
            .run(&format!(
                "CREATE FOREIGN TABLE t{major} (k int OPTIONS (key 'true'), j text OPTIONS (key 'true'), v int, w int)
                     SERVER v{major} OPTIONS (schema_name 'public', table_name 't', on_conflict 'update', batch_size '50')"
            ))
            .expect_ok();
        let mut tag = |sql: &str| {
            let sql = sql.replace("HERE", &format!("t{major}"));
            client.run(&sql).tag().to_string()
        };
        let insert = "INSERT INTO HERE SELECT g % 150, 'j', g, g FROM generate_series(1, 300) AS g";
        assert_eq!(tag(insert), "INSERT 0 300", "{major}");
        let insert = "INSERT INTO HERE (j, k, v) VALUES ('j', 1, 1), ('j', 1, 2), ('k', 1, 3)";
        assert_eq!(tag(insert), "INSERT 0 3", "{major}");
        tag("ALTER FOREIGN TABLE HERE OPTIONS (SET on_conflict 'nothing')");
        let insert = "INSERT INTO HERE SELECT g, 'j', -1, -1 FROM generate_series(145, 154) AS g";
        assert_eq!(tag(insert), "INSERT 0 5", "{major}");
        let stored = "SELECT concat_ws('|', count(*), sum(v), sum(w)) FROM t";
        assert_eq!(shard.value(stored), "156|33674|33820", "{major}");
        shard.check_log();
    }
}

#[test]
fn what_is_no_postgresql_of_a_known_version_is_refused() {
    let coordinator = Cluster::start();
    let shard = Cluster::start();
    // The console of the pooler speaks the protocol, and names a version of its own.
    let pooler = PgBouncer::start(&shard, 1);
    let mut client = coordinator.simple();
    client.run("CREATE EXTENSION shard_fdw").expect_ok();
    let server = create_server("console", pooler.port(), "")
        .replace("dbname 'postgres'", "dbname 'pgbouncer'");
    client.run(&server).expect_ok();
    client
        .run("CREATE FOREIGN TABLE t (a int) SERVER console")
        .expect_ok();
    for sql in ["SELECT * FROM t", "INSERT INTO t VALUES (1)"] {
        let error = client.run(sql).expect_error();
        assert_eq!(error.sqlstate(), "0A000", "{error:?}");
        assert!(error.detail().contains("1."), "{error:?}");
    }
}

/// A foreign table without the option schema_name stands for another table once its schema has another name: what was known of
/// the types of the first one says nothing of the second.
#[test]
fn a_renamed_schema_means_another_remote_table() {
    let (coordinator, shard) = (Cluster::start(), Cluster::start());
    shard.sql(
        "CREATE SCHEMA numbers; CREATE TABLE numbers.t (v int);
         CREATE SCHEMA words; CREATE TABLE words.t (v text)",
    );
    let mut client = coordinator.simple();
    client
        .run(&format!(
            "CREATE EXTENSION shard_fdw; {}; CREATE SCHEMA numbers;
             CREATE FOREIGN TABLE numbers.t (v text) SERVER s",
            create_server("s", shard.port(), "")
        ))
        .expect_ok();
    client
        .run("INSERT INTO numbers.t VALUES ('007'), ('8')")
        .expect_ok();
    client
        .run("ALTER SCHEMA numbers RENAME TO words")
        .expect_ok();
    client
        .run("INSERT INTO words.t VALUES ('007'), ('8')")
        .expect_ok();
    let stored = "SELECT string_agg(v::text, ',' ORDER BY v::text) FROM";
    assert_eq!(shard.value(&format!("{stored} numbers.t")), "7,8");
    assert_eq!(shard.value(&format!("{stored} words.t")), "007,8");
}
