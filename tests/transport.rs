//! When does a statement go over to COPY, what keeps it from that, and does it mean the same?

mod common;

use common::*;

/// A coordinator and a shard with a proxy in between.
struct Scene {
    main: Simple,
    /// A session on the shard itself.
    remote: Simple,
    proxy: Proxy,
    /// Coordinator and shard.
    clusters: [Cluster; 2],
}

/// Rows of a statement that has gone over to COPY long before its end.
const MANY: u32 = 20_000;
/// Small, so that even rows of a few bytes make many batches.
const SMALL: &str = "batch_size '100', batch_bytes '4kB'";

impl Scene {
    fn new(options: &str) -> Scene {
        let (coordinator, shard) = (Cluster::start(), Cluster::start());
        let proxy = Proxy::to(shard.port());
        let mut main = coordinator.simple();
        main.run("CREATE EXTENSION shard_fdw; SET shard_fdw.copy_rows = 1")
            .expect_ok();
        main.run(&create_server("far", proxy.port(), options))
            .expect_ok();
        let mut remote = shard.simple();
        remote.run("SET lock_timeout = '20s'").expect_ok();
        Scene {
            main,
            remote,
            proxy,
            clusters: [coordinator, shard],
        }
    }

    /// Makes a foreign table of a relation that is on the shard.
    fn foreign(&mut self, name: &str, columns: &str) {
        self.main
            .run(&format!(
                "CREATE FOREIGN TABLE {name} ({columns}) SERVER far OPTIONS (schema_name 'public')"
            ))
            .expect_ok();
    }

    fn table(&mut self, name: &str, columns: &str) {
        self.remote
            .run(&format!("CREATE TABLE {name} ({columns})"))
            .expect_ok();
        self.foreign(name, columns);
    }

    /// Runs a statement, and returns its tag and what it has sent.
    #[track_caller]
    fn run(&mut self, sql: &str) -> (String, Vec<&'static str>) {
        self.proxy.reset();
        let tag = self.main.run(sql).tag().to_string();
        (tag, self.sent())
    }

    /// The kinds of the statements that have passed but for settings, those in a row that are alike told once.
    fn sent(&self) -> Vec<&'static str> {
        let mut kinds: Vec<&'static str> =
            self.proxy.queries().iter().map(|sql| kind(sql)).collect();
        kinds.retain(|kind| *kind != "settings");
        kinds.dedup();
        kinds
    }

    /// Which of the ways of sending rows have been used.
    fn ways(&self) -> Vec<&'static str> {
        let mut sent = self.sent();
        sent.retain(|kind| ["INSERT", "COPY"].contains(kind));
        sent.dedup();
        sent
    }

    #[track_caller]
    fn remote(&mut self, sql: &str) {
        self.remote.run(sql).expect_ok();
    }

    #[track_caller]
    fn set(&mut self, option: &str) {
        self.main
            .run(&format!("ALTER SERVER far OPTIONS ({option})"))
            .expect_ok();
    }
}

fn kind(sql: &str) -> &'static str {
    const KINDS: [(&str, &str); 9] = [
        ("SELECT pg_catalog.set_config", "settings"),
        ("INSERT", "INSERT"),
        ("COPY", "COPY"),
        ("SELECT c.relkind", "question"),
        ("SELECT q.ord", "types"),
        ("LOCK TABLE", "LOCK"),
        ("SAVEPOINT", "SAVEPOINT"),
        ("ROLLBACK", "ROLLBACK"),
        ("START", "START"),
    ];
    let found = KINDS.iter().find(|(begin, _)| sql.starts_with(begin));
    match found {
        Some((_, kind)) => kind,
        None if sql.starts_with("COMMIT") => "COMMIT",
        None => "other",
    }
}

fn rows(from: u32, to: u32) -> String {
    format!("SELECT g, 'row ' || g FROM generate_series({from}, {to}) g")
}

#[test]
fn a_long_statement_goes_over_to_copy() {
    let mut scene = Scene::new(SMALL);
    scene.table("t", "id int, v text");
    let load = format!("INSERT INTO t {}", rows(1, MANY));
    let (tag, sent) = scene.run(&load);
    assert_eq!(tag, format!("INSERT 0 {MANY}"));
    // What batches go before the answer has come is a matter of speed.
    let mut rest = sent.clone();
    rest.retain(|kind| !["INSERT", "other"].contains(kind));
    rest.dedup();
    assert_eq!(rest, ["START", "types", "question", "COPY", "COMMIT"]);
    let at = |kind| sent.iter().position(|sent| *sent == kind);
    assert!(at("INSERT") < at("question"), "{sent:?}");

    // The question is part of the first batch's message.
    let events = scene.proxy.events();
    let mut events = events.iter().filter(|event| event.from == Side::Client);
    assert!(events.any(|event| event.text.starts_with("INSERT")));
    let next = events.find(|event| "PQS".contains(event.kind));
    assert!(
        next.is_some_and(|event| kind(&event.text) == "question"),
        "{next:?}"
    );

    let (_, sent) = scene.run("INSERT INTO t SELECT g, '' FROM generate_series(1, 99) g");
    assert_eq!(sent, ["START", "INSERT", "COMMIT"], "a short statement");
    let (_, sent) = scene.run("INSERT INTO t VALUES (1, 'one')");
    assert_eq!(sent, ["START", "INSERT", "COMMIT"], "one row");

    // The answer holds for the transaction.
    scene.run(&format!("BEGIN; {load}"));
    assert_eq!(scene.run(&load).1, ["COPY"]);
    assert_eq!(scene.run("INSERT INTO t VALUES (1, 'one')").1, ["COPY"]);
    scene.main.run("SET LOCAL shard_fdw.copy_rows = 50");
    assert_eq!(scene.run("INSERT INTO t VALUES (1, 'one')").1, ["INSERT"]);
    assert_eq!(scene.run("COMMIT").1, ["COMMIT"]);
    let (_, sent) = scene.run(&load);
    assert!(sent.contains(&"question"), "{sent:?}");
    assert_eq!(
        scene.remote.value("SELECT count(*) FROM t"),
        (4 * MANY + 102).to_string()
    );
    assert_eq!(
        scene
            .remote
            .value("SELECT count(*) FROM t WHERE v = 'row ' || id"),
        (4 * MANY).to_string()
    );
}

/// A COPY takes two round trips: the command's and that of the data. It goes on for as long as a statement does that has
/// the connection alone, and else for a chunk.
#[test]
fn a_copy_is_a_message_of_its_own() {
    let mut scene = Scene::new("batch_size '1000', transport 'copy'");
    scene.table("t", "id int, v text");
    scene.remote("CREATE TABLE u (id int, v text)");
    scene
        .main
        .run(
            "CREATE TABLE p (id int, v text) PARTITION BY HASH (id);
             CREATE FOREIGN TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0)
                 SERVER far OPTIONS (schema_name 'public', table_name 't');
             CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1)
                 SERVER far OPTIONS (schema_name 'public', table_name 'u')",
        )
        .expect_ok();
    scene.main.run("INSERT INTO t VALUES (0, '')").expect_ok();
    scene.run("BEGIN; INSERT INTO p SELECT g, '' FROM generate_series(1, 100) g");
    for (table, rows, copies) in [("t", 1, 1..=1), ("t", 40_000, 1..=1), ("p", 40_000, 4..=40)] {
        scene.proxy.reset();
        let load = format!(
            "INSERT INTO {table} SELECT g, repeat('x', 50) FROM generate_series(1, {rows}) g"
        );
        scene.main.run(&load).expect_ok();
        let traffic = scene.proxy.traffic();
        assert_eq!(scene.sent(), ["COPY"]);
        let sent = traffic.messages(Side::Client, 'Q');
        assert!(copies.contains(&sent), "{table}: {sent}");
        assert_eq!(traffic.messages(Side::Client, 'S'), 0, "needless Sync");
        // The end of one and the beginning of the next may meet.
        assert!(
            traffic.round_trips <= 2 * sent,
            "{table}: {sent} with {} round trips",
            traffic.round_trips
        );
    }
    scene.main.run("COMMIT").expect_ok();
    let stored = "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM u)";
    assert_eq!(scene.remote.value(stored), "80102");
}

#[test]
fn explain_and_the_counters_tell_of_copy() {
    let mut scene = Scene::new(SMALL);
    scene.table("t", "id int, v text");
    let plan = format!(
        "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) INSERT INTO t {}",
        rows(1, MANY)
    );
    let lines = scene.main.run(&plan).lines().join("\n");
    for expected in [
        "Transport: COPY",
        "Remote SQL: COPY \"public\".\"t\" (\"id\", \"v\") FROM STDIN (FORMAT binary)",
        "Remote Rows: 20000",
    ] {
        assert!(lines.contains(expected), "{expected}: {lines}");
    }
    let rows = "SELECT rows FROM shard_fdw_stats()";
    assert_eq!(scene.main.value(rows), MANY.to_string());
    scene.set("ADD transport 'insert'");
    let lines = scene.main.run(&plan).lines().join("\n");
    assert!(lines.contains("Transport: multi-row INSERT"), "{lines}");
    assert_eq!(scene.ways(), ["INSERT", "COPY", "INSERT"]);
}

#[test]
fn what_was_asked_in_a_savepoint_ends_with_it() {
    for isolation in ["repeatable_read", "match"] {
        let mut scene = Scene::new(&format!("{SMALL}, isolation '{isolation}'"));
        scene.table("t", "id int, v text");
        let load = format!("INSERT INTO t {}", rows(1, MANY));
        // Released, its answer is the outer level's. (RELEASE itself nobody waits for.)
        scene.run(&format!("BEGIN; SAVEPOINT a; {load}; RELEASE a"));
        scene.run(&load);
        assert_eq!(scene.ways(), ["COPY"], "{isolation}");
        scene.run("SAVEPOINT b; INSERT INTO t VALUES (1, ''); ROLLBACK TO b");
        scene.run(&load);
        assert_eq!(scene.ways(), ["COPY"], "{isolation}");
        assert!(!scene.sent().contains(&"question"), "{isolation}");
        scene.run("ROLLBACK");

        // Undone, it is asked again: the lock has gone, and others have changed the table.
        let changes = [
            ("ALTER TABLE t ALTER id TYPE float8", MANY),
            (
                "CREATE RULE r AS ON INSERT TO t WHERE NEW.id > 10 DO INSTEAD NOTHING",
                10,
            ),
            (
                "DROP RULE r ON t;
                 CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN IF NEW.id::int % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END';
                 CREATE TRIGGER odd BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION odd()",
                MANY / 2,
            ),
        ];
        for (change, stored) in changes {
            scene.run(&format!("BEGIN; SAVEPOINT a; {load}; ROLLBACK TO a"));
            scene.remote(change);
            let (tag, sent) = scene.run(&load);
            assert_eq!(tag, format!("INSERT 0 {stored}"), "{isolation}, {change}");
            assert!(
                sent.contains(&"question"),
                "{isolation}, {change}: {sent:?}"
            );
            scene.main.run("COMMIT").expect_ok();
            let sums = format!("SELECT count(*), count(*) FILTER (WHERE v = 'row ' || id AND id BETWEEN 1 AND {MANY}) FROM t");
            assert_eq!(
                scene.remote.run(&sums).lines(),
                [format!("{stored}|{stored}")],
                "{isolation}, {change}"
            );
            scene.remote("TRUNCATE t");
        }
    }
}

/// Relations for which COPY does not mean the same: how they are made, the reason, and what an INSERT of many rows
/// makes of `log` and the relation, beside a namesake on the coordinator.
const UNFIT: [(&str, &str, &str); 8] = [
    (
        "a view",
        "CREATE TABLE base (id int, v text); CREATE VIEW x AS SELECT * FROM base",
        "it is not a table",
    ),
    (
        "an INSTEAD OF trigger",
        "CREATE TABLE base (id int, v text); CREATE VIEW x AS SELECT * FROM base;
         CREATE FUNCTION store() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF NEW.id % 3 = 0 THEN RETURN NULL; END IF; INSERT INTO public.base VALUES (-NEW.id, NEW.v); RETURN NEW; END';
         CREATE TRIGGER store INSTEAD OF INSERT ON x FOR EACH ROW EXECUTE FUNCTION store()",
        "it is not a table",
    ),
    (
        "a rule that adds",
        "CREATE TABLE x (id int, v text); CREATE TABLE base (id int, v text);
         CREATE RULE r AS ON INSERT TO x DO ALSO INSERT INTO public.base VALUES (NEW.id, NEW.v)",
        "it has a rule",
    ),
    (
        "a rule that drops",
        "CREATE TABLE x (id int, v text); CREATE VIEW base AS SELECT * FROM x;
         CREATE RULE r AS ON INSERT TO x WHERE NEW.id > 5 DO INSTEAD NOTHING",
        "it has a rule",
    ),
    (
        "a BEFORE ROW trigger",
        "CREATE TABLE x (id int, v text); CREATE VIEW base AS SELECT * FROM x;
         CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; NEW.v = NEW.v || ''!''; RETURN NEW; END';
         CREATE TRIGGER odd BEFORE INSERT ON x FOR EACH ROW EXECUTE FUNCTION odd()",
        "it has a BEFORE ROW trigger",
    ),
    (
        "a BEFORE ROW trigger of a partition",
        "CREATE TABLE x (id int, v text) PARTITION BY RANGE (id); CREATE VIEW base AS SELECT * FROM x;
         CREATE TABLE x1 PARTITION OF x FOR VALUES FROM (1) TO (900); CREATE TABLE x2 PARTITION OF x DEFAULT;
         CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END';
         CREATE TRIGGER odd BEFORE INSERT ON x2 FOR EACH ROW EXECUTE FUNCTION odd()",
        "it has a BEFORE ROW trigger",
    ),
    (
        "a foreign partition",
        "CREATE TABLE x (id int, v text) PARTITION BY RANGE (id); CREATE VIEW base AS SELECT * FROM x WHERE id < 900;
         CREATE TABLE x1 PARTITION OF x FOR VALUES FROM (1) TO (900);
         CREATE TABLE x2 PARTITION OF x DEFAULT PARTITION BY RANGE (id);
         CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
         CREATE FOREIGN TABLE x3 PARTITION OF x2 FOR VALUES FROM (100000) TO (200000) SERVER nowhere;
         CREATE TABLE x4 PARTITION OF x2 DEFAULT",
        "it has a foreign table as partition",
    ),
    (
        "row security",
        "CREATE TABLE x (id int, v text); CREATE VIEW base AS SELECT * FROM x;
         ALTER TABLE x ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON x USING (id > 0) WITH CHECK (id < 100000)",
        "its row security applies",
    ),
];

#[test]
fn insert_goes_on_where_copy_means_something_else() {
    let mut scene = Scene::new(SMALL);
    // Not a superuser, for whom row security does not count.
    scene.remote("CREATE ROLE writer LOGIN; GRANT ALL ON SCHEMA public TO writer");
    scene
        .main
        .run("ALTER USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (SET user 'writer', ADD password_required 'false')")
        .expect_ok();
    scene.foreign("x", "id int, v text");
    let load = |table: &str| format!("INSERT INTO {table} {}", rows(1, 2000));
    for (what, script, reason) in UNFIT {
        // The same on a shard of its own, by one INSERT.
        scene.remote(&format!(
            "{script}; GRANT ALL ON ALL TABLES IN SCHEMA public TO writer"
        ));
        let contents = "SELECT md5(string_agg(b::text, ',' ORDER BY b)) FROM base b";
        let direct = scene
            .remote
            .run(&format!("BEGIN; SET LOCAL ROLE writer; {}", load("x")))
            .tag()
            .to_string();
        let expected = scene
            .remote
            .value("RESET ROLE; SELECT md5(string_agg(b::text, ',' ORDER BY b)) FROM base b");
        scene.remote("ROLLBACK");

        let (tag, _) = scene.run(&load("x"));
        assert_eq!(tag, direct, "{what}");
        assert_eq!(scene.ways(), ["INSERT"], "{what}");
        assert_eq!(scene.remote.value(contents), expected, "{what}");

        scene.set("ADD transport 'copy'");
        let before = scene.remote.value("SELECT count(*) FROM base");
        for sql in [load("x"), "INSERT INTO x VALUES (1, 'a'), (2, 'b')".into()] {
            let error = scene.main.run(&sql).expect_error();
            assert_eq!(error.sqlstate(), "0A000", "{what}: {error:?}");
            assert_eq!(error.message(), "cannot use COPY for foreign table \"x\"");
            assert!(error.detail().contains(reason), "{what}: {error:?}");
        }
        let error = scene.main.copy_in("COPY x FROM STDIN", b"1\ta\n2\tb\n");
        // COPY takes single rows where the shard may drop some.
        if error.error.is_none() {
            scene.remote("DELETE FROM base WHERE v IN ('a', 'b', 'a!', 'b!')");
        }
        assert_eq!(
            scene.remote.value("SELECT count(*) FROM base"),
            before,
            "{what}"
        );
        scene.set("DROP transport");
        scene.remote(
            "SET client_min_messages = warning; DROP SCHEMA public CASCADE;
             DROP FOREIGN DATA WRAPPER IF EXISTS nothing CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO writer",
        );
    }
}

/// What others do to table `t` of the shard, and the outcome of a load of `MANY` rows that begins before and goes on after it.
const CHANGES: [(&str, Result<u32, &str>); 5] = [
    ("ALTER TABLE t ALTER id TYPE float8", Ok(MANY)),
    ("ALTER TABLE t ALTER v TYPE varchar(6)", Err("22001")),
    (
        "CREATE RULE r AS ON INSERT TO t WHERE NEW.id > 10 DO INSTEAD NOTHING",
        Ok(10),
    ),
    (
        "CREATE TRIGGER odd BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION public.odd()",
        Ok(MANY / 2),
    ),
    (
        "ALTER TABLE t ALTER id ADD GENERATED ALWAYS AS IDENTITY",
        Err("428C9"),
    ),
];

#[test]
fn changes_of_the_table_wait_or_are_obeyed() {
    for isolation in ["repeatable_read", "match"] {
        for transport in ["auto", "copy"] {
            let options = format!("{SMALL}, isolation '{isolation}', transport '{transport}'");
            let mut scene = Scene::new(&options);
            scene.remote(
                "CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN IF NEW.id::int % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END'",
            );
            scene.foreign("t", "id bigint, v text");
            for (change, outcome) in CHANGES {
                for known in [false, true] {
                    let what = format!("{change}, {isolation}, {transport}, {known}");
                    scene.remote("CREATE TABLE t (id bigint NOT NULL, v text)");
                    scene
                        .main
                        .run("SELECT shard_fdw_disconnect_all()")
                        .expect_ok();
                    if known {
                        scene
                            .main
                            .run("INSERT INTO t VALUES (0, ''); DELETE FROM t")
                            .expect_ok();
                    }
                    changed_while_waiting(&mut scene, change, outcome, &what);
                    scene.remote("DROP TABLE t");
                }
            }
        }
    }
}

/// The change holds its lock when the load comes.
fn changed_while_waiting(scene: &mut Scene, change: &str, outcome: Result<u32, &str>, what: &str) {
    scene.remote(&format!("BEGIN; {change}"));
    scene.main.send(&format!("INSERT INTO t {}", rows(1, MANY)));
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    wait_until("the wait for the lock", || {
        scene.clusters[1].value(waiting) == "1"
    });
    scene.remote("COMMIT");
    let reply = scene.main.receive();
    let refused = reply
        .error
        .as_ref()
        .is_some_and(|e| e.sqlstate() == "0A000");
    match outcome {
        // Transport copy may refuse what auto leaves to INSERT.
        _ if refused && what.contains(", copy,") => {
            assert_eq!(scene.remote.value("SELECT count(*) FROM t"), "0", "{what}")
        }
        Ok(rows) => {
            assert_eq!(reply.tag(), format!("INSERT 0 {rows}"), "{what}");
            let right = format!(
                "SELECT count(*) FROM t WHERE v = 'row ' || id AND id BETWEEN 1 AND {MANY}"
            );
            assert_eq!(scene.remote.value(&right), rows.to_string(), "{what}");
            assert_eq!(
                scene.remote.value("SELECT count(*) FROM t"),
                rows.to_string(),
                "{what}"
            );
        }
        Err(sqlstate) => {
            assert_eq!(reply.expect_error().sqlstate(), sqlstate, "{what}");
            assert_eq!(scene.remote.value("SELECT count(*) FROM t"), "0", "{what}");
        }
    }
}

#[test]
fn changes_of_the_table_wait_for_the_transaction() {
    let mut scene = Scene::new(SMALL);
    scene.remote(
        "CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TABLE p (id int, v text) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000000); CREATE TABLE p2 PARTITION OF p DEFAULT;
         CREATE TABLE t (id int, v text)",
    );
    for table in ["t", "p"] {
        scene.foreign(table, "id int, v text");
    }
    scene
        .main
        .run(
            "CREATE FUNCTION pause(g int) RETURNS text LANGUAGE plpgsql AS
                 'BEGIN IF g = 15000 THEN PERFORM pg_advisory_lock(1); END IF; RETURN g; END'",
        )
        .expect_ok();
    let mut holder = scene.clusters[0].simple();
    for (table, changes) in [
        (
            "t",
            [
                "ALTER TABLE t ALTER id TYPE float8",
                "CREATE TRIGGER odd BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION odd()",
                "CREATE RULE r AS ON INSERT TO t DO INSTEAD NOTHING",
                "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            ],
        ),
        (
            "p",
            [
                "ALTER TABLE p ALTER id TYPE float8",
                "CREATE TRIGGER odd BEFORE INSERT ON p FOR EACH ROW EXECUTE FUNCTION odd()",
                // No row has come here.
                "CREATE TRIGGER odd BEFORE INSERT ON p2 FOR EACH ROW EXECUTE FUNCTION odd()",
                "CREATE RULE r AS ON INSERT TO p DO INSTEAD NOTHING",
            ],
        ),
    ] {
        holder.run("SELECT pg_advisory_lock(1)").expect_ok();
        scene.proxy.reset();
        scene.main.run("BEGIN").expect_ok();
        scene.main.send(&format!(
            "INSERT INTO {table} SELECT g, pause(g) FROM generate_series(1, {MANY}) g"
        ));
        wait_until("the pause", || {
            scene.clusters[0].value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "1"
        });
        assert_eq!(scene.ways(), ["INSERT", "COPY"], "{table}");
        assert_eq!(scene.sent().contains(&"LOCK"), table == "p");
        for round in ["during", "after"] {
            for change in changes {
                let error = scene
                    .remote
                    .run(&format!("SET lock_timeout = '20ms'; {change}"))
                    .expect_error();
                assert_eq!(error.sqlstate(), "55P03", "{round}: {change}");
            }
            if round == "during" {
                holder.run("SELECT pg_advisory_unlock(1)").expect_ok();
                assert_eq!(scene.main.receive().tag(), format!("INSERT 0 {MANY}"));
                scene
                    .main
                    .run("SELECT pg_advisory_unlock_all()")
                    .expect_ok();
            }
        }
        scene.main.run("COMMIT").expect_ok();
        let right = format!("SELECT count(*) FROM {table} WHERE v = id::text");
        assert_eq!(scene.remote.value(&right), MANY.to_string());
    }
}
