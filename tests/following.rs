//! Settings of the local transaction that hold on the shards too: lock_timeout, READ ONLY, SET CONSTRAINTS.

mod common;

use common::*;

/// A coordinator with two servers that are databases of one cluster behind a proxy.
struct Scene {
    client: Simple,
    proxy: Proxy,
    shard: Cluster,
    coordinator: Cluster,
}

const TABLES: &str = "CREATE TABLE acc (id int PRIMARY KEY, v int); INSERT INTO acc VALUES (1, 1), (2, 2);
    CREATE TABLE part (acc int REFERENCES acc DEFERRABLE, again int UNIQUE DEFERRABLE INITIALLY DEFERRED);
    CREATE VIEW waits AS SELECT current_setting('lock_timeout') AS longest;";

impl Scene {
    fn new(options: &str) -> Scene {
        Scene::on(Cluster::start(), "", options)
    }

    /// `before`: statements on the shard before anybody connects.
    fn on(coordinator: Cluster, before: &str, options: &str) -> Scene {
        let shard = Cluster::start();
        shard.sql(before);
        shard.sql("CREATE DATABASE second");
        shard.sql(TABLES);
        shard
            .simple_as("second", "postgres")
            .run(TABLES)
            .expect_ok();
        let proxy = Proxy::to(shard.port());
        let mut client = coordinator.simple();
        client.run("CREATE EXTENSION shard_fdw").expect_ok();
        for (name, suffix) in [("one", ""), ("two", "2")] {
            let create = create_server(name, proxy.port(), options);
            client.run(&create).expect_ok();
            client
                .run(&format!(
                    "CREATE FOREIGN TABLE acc{suffix} (id int, v int) SERVER {name} OPTIONS (schema_name 'public', table_name 'acc');
                     CREATE FOREIGN TABLE part{suffix} (acc int, again int) SERVER {name} OPTIONS (schema_name 'public', table_name 'part');
                     CREATE FOREIGN TABLE waits{suffix} (longest text) SERVER {name} OPTIONS (schema_name 'public', table_name 'waits');"
                ))
                .expect_ok();
        }
        client
            .run("ALTER SERVER two OPTIONS (SET dbname 'second')")
            .expect_ok();
        Scene {
            client,
            proxy,
            shard,
            coordinator,
        }
    }

    fn run(&mut self, statements: &[&str]) {
        for statement in statements {
            self.client.run(statement).expect_ok();
        }
    }

    /// SQLSTATE of a statement that fails.
    fn error(&mut self, statement: &str) -> String {
        let error = self.client.run(statement).expect_error();
        error.sqlstate().to_string()
    }

    /// lock_timeout of the session on the shard.
    fn longest(&mut self) -> String {
        self.client.value("SELECT longest FROM waits")
    }
}

/// Statements that wait for a lock on table acc, or of its row 1.
const WAITING: [&str; 6] = [
    "UPDATE acc SET v = 5 WHERE id = 1",
    "UPDATE acc SET v = 5 WHERE id = 1 AND random() < 2",
    "DELETE FROM acc WHERE id = 1",
    "SELECT * FROM acc WHERE id = 1 FOR UPDATE",
    "INSERT INTO acc VALUES (1, 1)",
    "INSERT INTO part VALUES (1, 1)",
];

#[test]
fn waits_on_the_shard_end_with_the_local_lock_timeout() {
    let mut scene = Scene::new("");
    let mut other = scene.shard.simple();
    scene.run(&["SET statement_timeout = '60s'", "SET lock_timeout = '50ms'"]);
    other.run("BEGIN").expect_ok();
    other.run("DELETE FROM acc WHERE id = 1").expect_ok();
    for statement in WAITING {
        assert_eq!(scene.error(statement), "55P03", "{statement}");
        scene.run(&["BEGIN", "SELECT count(*) FROM acc"]);
        assert_eq!(scene.error(statement), "55P03", "{statement}");
        scene.run(&["ROLLBACK"]);
    }
    other.run("LOCK TABLE acc").expect_ok();
    for statement in [
        "SELECT count(*) FROM acc",
        "TRUNCATE acc",
        "COPY acc FROM STDIN",
    ] {
        let reply = match statement.starts_with("COPY") {
            true => scene.client.copy_in(statement, b"3\t3\n"),
            false => scene.client.run(statement),
        };
        assert_eq!(reply.expect_error().sqlstate(), "55P03", "{statement}");
    }
    // A statement that the shard has refused is undone with its savepoint.
    scene.run(&["BEGIN", "SAVEPOINT s"]);
    assert_eq!(scene.error("SELECT count(*) FROM acc"), "55P03");
    scene.run(&["ROLLBACK TO s"]);
    assert_eq!(scene.longest(), "50ms");
    scene.run(&["COMMIT"]);
    other.run("ROLLBACK").expect_ok();
}

#[test]
fn deferred_triggers_wait_at_commit_no_longer_than_the_local_lock_timeout() {
    for tables in [&["part"][..], &["part", "part2"]] {
        let mut scene = Scene::new("");
        scene.shard.sql(
            "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE public.acc SET v = 7 WHERE id = 2; RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER look AFTER INSERT ON part DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION look()",
        );
        let mut other = scene.shard.simple();
        other
            .run("BEGIN; UPDATE acc SET v = 0 WHERE id = 2")
            .expect_ok();
        scene.run(&["SET statement_timeout = '60s'", "BEGIN"]);
        for table in tables {
            scene.run(&[&format!("INSERT INTO {table} VALUES (1, 1)")]);
        }
        scene.run(&["SET lock_timeout = '50ms'"]);
        assert_eq!(scene.error("COMMIT"), "55P03", "{tables:?}");
        assert_eq!(scene.client.value("SELECT count(*) FROM part"), "0");
        other.run("ROLLBACK").expect_ok();
        for table in tables {
            scene.run(&[&format!("INSERT INTO {table} VALUES (1, 1)")]);
        }
        assert_eq!(scene.client.value("SELECT v FROM acc WHERE id = 2"), "7");
    }
}

#[test]
fn lock_timeout_follows_the_local_one_in_and_out_of_savepoints() {
    let mut scene = Scene::new("");
    assert_eq!(scene.longest(), "0");
    scene.run(&["SET lock_timeout = '7s'"]);
    assert_eq!(scene.longest(), "7s");
    scene.run(&["BEGIN"]);
    assert_eq!(scene.longest(), "7s");
    scene.run(&["SET lock_timeout = '8s'"]);
    assert_eq!(scene.longest(), "8s");
    scene.run(&["SAVEPOINT a", "SET lock_timeout = '9s'"]);
    assert_eq!(scene.longest(), "9s");
    scene.run(&["SAVEPOINT b", "SET LOCAL lock_timeout = '10s'"]);
    assert_eq!(scene.longest(), "10s");
    scene.run(&["RELEASE b"]);
    assert_eq!(scene.longest(), "10s");
    scene.run(&["ROLLBACK TO a"]);
    assert_eq!(scene.longest(), "8s");
    // Told below a savepoint what was set above it.
    scene.run(&["SET lock_timeout = '11s'", "SAVEPOINT c"]);
    assert_eq!(scene.longest(), "11s");
    scene.run(&["ROLLBACK TO c"]);
    assert_eq!(scene.longest(), "11s");
    scene.run(&["ROLLBACK"]);
    assert_eq!(scene.longest(), "7s");
    scene.run(&["BEGIN", "SET LOCAL lock_timeout = '12s'"]);
    assert_eq!(scene.longest(), "12s");
    scene.run(&["COMMIT"]);
    assert_eq!(scene.longest(), "7s");
    scene.run(&["BEGIN"]);
    assert_eq!(scene.longest(), "7s");
    scene.run(&["SET lock_timeout = 0"]);
    assert_eq!(scene.longest(), "0");
    scene.run(&["COMMIT"]);
    // Of a function.
    scene.run(&[
        "CREATE FUNCTION longest() RETURNS text LANGUAGE plpgsql SET lock_timeout = '3s'
             AS $$ BEGIN RETURN (SELECT longest FROM waits); END $$",
        "CREATE FUNCTION caught() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
             BEGIN PERFORM set_config('lock_timeout', '4s', false); PERFORM longest FROM waits; RAISE 'undone';
             EXCEPTION WHEN raise_exception THEN NULL; END;
             RETURN (SELECT longest FROM waits); END $$",
        "SET lock_timeout = '2s'",
        "BEGIN",
    ]);
    assert_eq!(scene.client.value("SELECT longest()"), "3s");
    assert_eq!(scene.longest(), "2s");
    assert_eq!(scene.client.value("SELECT caught()"), "2s");
    scene.run(&["COMMIT"]);
    assert_eq!(scene.client.value("SELECT longest()"), "3s");
    assert_eq!(scene.longest(), "2s");
}

#[test]
fn the_shorter_lock_timeout_counts() {
    let role = "ALTER ROLE postgres SET lock_timeout = '5s'";
    let given = "session_settings 'lock_timeout=2min'";
    for (role, options, own, wanted) in [
        (role, "", "5s", [("1s", "1s"), ("9s", "5s"), ("0", "5s")]),
        (
            "",
            given,
            "2min",
            [("61s", "61s"), ("3min", "2min"), ("0", "2min")],
        ),
        (
            role,
            given,
            "2min",
            [("10s", "10s"), ("1h", "2min"), ("0", "2min")],
        ),
    ] {
        let mut scene = Scene::on(Cluster::start(), role, options);
        assert_eq!(scene.longest(), own);
        for (local, there) in wanted {
            scene.run(&[&format!("SET lock_timeout = '{local}'")]);
            assert_eq!(scene.longest(), there, "{local}");
            scene.run(&["BEGIN"]);
            assert_eq!(scene.longest(), there, "{local}");
            scene.run(&["COMMIT"]);
        }
        scene.run(&["BEGIN", "SET lock_timeout = '40ms'"]);
        assert_eq!(scene.longest(), "40ms");
        scene.run(&["SET lock_timeout = 0"]);
        assert_eq!(scene.longest(), own);
        scene.run(&["COMMIT"]);
    }
}

#[test]
fn rows_that_wait_go_under_the_lock_timeout_of_the_moment() {
    let mut scene = Scene::new("batch_size '100', batch_bytes '1kB'");
    scene.shard.sql(
        "CREATE TABLE seen (id int, longest text DEFAULT current_setting('lock_timeout'));
         ALTER TABLE part ADD COLUMN longest text DEFAULT current_setting('lock_timeout')",
    );
    scene.run(&[
        "CREATE FOREIGN TABLE seen (id int) SERVER one OPTIONS (schema_name 'public')",
        "CREATE FUNCTION change(g int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
             PERFORM set_config('lock_timeout', (g / 1000 + 1) || 's', false); RETURN g; END $$",
        "SET lock_timeout = '1s'",
    ]);
    let longest = "SELECT string_agg(DISTINCT longest, ' ' ORDER BY longest) FROM seen";
    for transport in ["insert", "copy"] {
        scene.shard.sql("TRUNCATE seen");
        let option = format!(
            "ALTER FOREIGN TABLE seen OPTIONS ({} transport '{transport}')",
            if transport == "copy" { "SET" } else { "ADD" }
        );
        scene.run(&[
            &option,
            "BEGIN",
            "INSERT INTO seen SELECT g FROM generate_series(1, 1000) g",
            "SET lock_timeout = '20s'",
            "INSERT INTO seen SELECT g FROM generate_series(1, 1000) g",
            "COMMIT",
        ]);
        assert_eq!(scene.shard.value(longest), "1s 20s", "{transport}");
        scene.shard.sql("TRUNCATE seen");
        scene.run(&[
            "SET lock_timeout = '1s'",
            "INSERT INTO seen SELECT change(g) FROM generate_series(1, 2999) g",
        ]);
        let all = scene.shard.value(longest);
        assert!(
            all.contains("1s") && all.contains("3s"),
            "{transport}: {all}"
        );
        scene.run(&["SET lock_timeout = '1s'"]);
    }
    // The last of the transaction's.
    scene.shard.sql("TRUNCATE seen");
    scene.run(&[
        "SET shard_fdw.flush_policy = transaction",
        "BEGIN",
        "INSERT INTO seen VALUES (1)",
        "SET lock_timeout = '2s'",
        "COMMIT",
    ]);
    assert_eq!(scene.shard.value(longest), "2s");
}

#[test]
fn sequences_of_shards_are_waited_for_no_longer() {
    let mut scene = Scene::new("");
    scene.shard.sql("CREATE SEQUENCE ids");
    let draw = "SELECT shard_fdw_nextval('one', 'ids')";
    assert_eq!(scene.client.value(draw), "1");
    let mut other = scene.shard.simple();
    other.run("BEGIN; ALTER SEQUENCE ids CACHE 1").expect_ok();
    scene.run(&["SET statement_timeout = '60s'", "SET lock_timeout = '50ms'"]);
    scene.run(&["SELECT shard_fdw_discard_sequences()"]);
    assert_eq!(scene.error(draw), "55P03");
    other.run("ROLLBACK").expect_ok();
    assert_eq!(
        scene
            .client
            .value("SELECT shard_fdw_nextval('one', 'ids') > 1"),
        "t"
    );
}

#[test]
fn a_pooler_passes_the_lock_timeout_on() {
    for (options, own) in [("", "0"), ("session_settings 'lock_timeout=30s'", "30s")] {
        let shard = Cluster::start();
        shard.sql(TABLES);
        let pooler = PgBouncer::start(&shard, 1);
        let coordinator = Cluster::start();
        let mut client = coordinator.simple();
        client
            .run(&format!(
                "CREATE EXTENSION shard_fdw; {}
                 CREATE FOREIGN TABLE waits (longest text) SERVER pooled OPTIONS (schema_name 'public')",
                create_server("pooled", pooler.port(), options)
            ))
            .expect_ok();
        let longest = "SELECT longest FROM waits";
        assert_eq!(client.value(longest), own);
        client.run("SET lock_timeout = '4s'").expect_ok();
        assert_eq!(client.value(longest), "4s");
        client.run("BEGIN").expect_ok();
        assert_eq!(client.value(longest), "4s");
        client.run("SET LOCAL lock_timeout = 0").expect_ok();
        assert_eq!(client.value(longest), own);
        client.run("COMMIT").expect_ok();
        // The server's session, which others use, has none of it.
        let mut other = coordinator.simple();
        assert_eq!(other.value(longest), own);
        other.run("SET lock_timeout = '45s'").expect_ok();
        assert_eq!(other.value(longest), if own == "0" { "45s" } else { "30s" });
        assert_eq!(client.value(longest), "4s");
    }
}

#[test]
fn a_transaction_made_read_only_commits_nothing_that_triggers_write_then() {
    let mut scene = Scene::new("");
    for database in ["postgres", "second"] {
        let mut shard = scene.shard.simple_as(database, "postgres");
        shard
            .run(
                "CREATE TABLE trail (acc int);
                 CREATE FUNCTION trail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.trail VALUES (new.acc); RETURN NULL; END $$;
                 CREATE CONSTRAINT TRIGGER trail AFTER INSERT ON part DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trail()",
            )
            .expect_ok();
    }
    for tables in [&["part"][..], &["part2", "part"]] {
        for policy in ["default", "transaction"] {
            scene.run(&[&format!("SET shard_fdw.flush_policy = '{policy}'"), "BEGIN"]);
            for table in tables {
                scene.run(&[&format!("INSERT INTO {table} VALUES (1, 1)")]);
            }
            scene.run(&["SET TRANSACTION READ ONLY"]);
            assert_eq!(scene.error("COMMIT"), "25006", "{tables:?}, {policy}");
            assert_eq!(
                scene
                    .client
                    .value("SELECT (SELECT count(*) FROM part) + (SELECT count(*) FROM part2)"),
                "0"
            );
        }
    }
    // The connections are still good.
    scene.run(&[
        "INSERT INTO part VALUES (1, 1)",
        "INSERT INTO part2 VALUES (1, 1)",
    ]);
    assert_eq!(scene.shard.value("SELECT count(*) FROM trail"), "1");
}

#[test]
fn every_shard_that_was_written_to_checks_at_set_constraints() {
    for failing in ["part", "part2"] {
        let mut scene = Scene::new("");
        scene.run(&[
            "BEGIN",
            "SET CONSTRAINTS ALL DEFERRED",
            "INSERT INTO part VALUES (1, 1)",
            "INSERT INTO part2 VALUES (2, 2)",
            "SAVEPOINT s",
        ]);
        scene.run(&[&format!("INSERT INTO {failing} VALUES (9, 9)")]);
        let error = scene
            .client
            .run("SET CONSTRAINTS ALL IMMEDIATE")
            .expect_error();
        assert_eq!((error.sqlstate(), error.table()), ("23503", "part"));
        assert_eq!(error.constraint(), "part_acc_fkey");
        let server = if failing == "part" { "one" } else { "two" };
        let context =
            format!("server \"{server}\"\nremote SQL command: SET CONSTRAINTS ALL IMMEDIATE");
        assert_eq!(error.context(), context);
        scene.run(&["ROLLBACK TO s", "SET CONSTRAINTS ALL IMMEDIATE"]);
        assert_eq!(
            scene.error(&format!("INSERT INTO {failing} VALUES (9, 9)")),
            "23503"
        );
        scene.run(&["ROLLBACK TO s", "COMMIT"]);
        assert_eq!(
            scene
                .client
                .value("SELECT (SELECT count(*) FROM part) + (SELECT count(*) FROM part2)"),
            "2"
        );
    }
}

#[test]
fn a_shard_that_joins_later_is_told() {
    let mut scene = Scene::new("");
    scene.run(&[
        "INSERT INTO acc2 VALUES (3, 3)",
        "BEGIN",
        "INSERT INTO acc VALUES (3, 3)",
        "SET CONSTRAINTS ALL DEFERRED",
    ]);
    scene.run(&[
        "SAVEPOINT s",
        "INSERT INTO part2 VALUES (9, 9)",
        "ROLLBACK TO s",
    ]);
    scene.run(&[
        "INSERT INTO part2 VALUES (4, 4)",
        "INSERT INTO acc2 VALUES (4, 4)",
        "COMMIT",
    ]);
    assert_eq!(scene.client.value("SELECT count(*) FROM part2"), "1");
    scene.run(&["BEGIN", "SET CONSTRAINTS ALL IMMEDIATE"]);
    assert_eq!(scene.error("INSERT INTO part2 VALUES (4, 4)"), "23505");
    scene.run(&["ROLLBACK", "BEGIN", "INSERT INTO part2 VALUES (4, 4)"]);
    assert_eq!(scene.error("COMMIT"), "23505");
    // A transaction that is prepared, without shards, leaves nothing behind.
    let setup = Setup::new().set("max_prepared_transactions", "2");
    let mut scene = Scene::on(setup.start(), "", "");
    scene.run(&[
        "SELECT count(*) FROM acc",
        "BEGIN",
        "SET CONSTRAINTS ALL DEFERRED",
        "PREPARE TRANSACTION 'p'",
    ]);
    assert_eq!(scene.error("INSERT INTO part VALUES (9, 9)"), "23503");
    scene.run(&["COMMIT PREPARED 'p'"]);
}

#[test]
fn what_a_failed_block_has_set_is_gone() {
    let mut scene = Scene::new("");
    // The shard has skipped what came after the error in the same message, and undone what came before.
    for failing in [
        "INSERT INTO acc VALUES (51, 1), (1, 1)",
        "UPDATE acc SET id = 2 WHERE id = 1",
        "PERFORM 1 / v FROM acc",
        "SET CONSTRAINTS ALL IMMEDIATE",
    ] {
        for first in ["SELECT 1", "INSERT INTO acc VALUES (50, 0)"] {
            scene.run(&[
                "BEGIN",
                first,
                "SET lock_timeout = '20s'",
                "SET CONSTRAINTS ALL IMMEDIATE",
            ]);
            let block = format!(
                "DO $$ BEGIN
                     SET lock_timeout = '6s'; SET CONSTRAINTS ALL DEFERRED;
                     INSERT INTO part VALUES (77, 77); SET lock_timeout = '7s';
                     UPDATE acc SET v = 0 WHERE id = 2;
                     {failing};
                     RAISE EXCEPTION 'no error';
                 EXCEPTION WHEN unique_violation OR foreign_key_violation OR division_by_zero THEN
                     NULL;
                 END $$"
            );
            scene.run(&[&block]);
            assert_eq!(scene.longest(), "20s", "{failing}");
            scene.run(&["SAVEPOINT s"]);
            assert_eq!(
                scene.error("INSERT INTO part VALUES (77, 77)"),
                "23503",
                "{failing}"
            );
            scene.run(&["ROLLBACK TO s"]);
            assert_eq!(scene.longest(), "20s", "{failing}");
            scene.run(&["ROLLBACK"]);
            assert_eq!(scene.longest(), "0", "{failing}");
        }
    }
}

#[test]
fn settings_cost_no_round_trip_and_checks_one() {
    let mut scene = Scene::new("");
    let tables = [
        "INSERT INTO part VALUES (1, NULL)",
        "INSERT INTO part2 VALUES (1, NULL)",
    ];
    scene.run(&tables);
    let trips = |scene: &mut Scene, statements: &[&str]| {
        scene.proxy.reset();
        scene.run(statements);
        scene.proxy.traffic().round_trips
    };
    let mut plain = vec!["BEGIN"];
    plain.extend(tables);
    plain.extend(["SELECT count(*) FROM part", "COMMIT"]);
    let mut told = vec![
        "SET lock_timeout = '9s'",
        "BEGIN",
        "SET CONSTRAINTS ALL DEFERRED",
    ];
    told.extend(tables);
    told.extend([
        "SET lock_timeout = '8s'",
        "SELECT count(*) FROM part",
        "SET lock_timeout = '7s'",
        "COMMIT",
        "RESET lock_timeout",
    ]);
    let usual = trips(&mut scene, &plain);
    assert_eq!(trips(&mut scene, &told), usual);

    scene.run(&["BEGIN"]);
    scene.run(&tables[..1]);
    scene.run(&["SELECT count(*) FROM acc2"]);
    assert_eq!(trips(&mut scene, &["SET CONSTRAINTS ALL IMMEDIATE"]), 1);
    assert_eq!(trips(&mut scene, &["SET CONSTRAINTS ALL DEFERRED"]), 0);
    scene.run(&tables[1..]);
    assert_eq!(trips(&mut scene, &["SET CONSTRAINTS ALL IMMEDIATE"]), 2);
    assert_eq!(
        trips(
            &mut scene,
            &["SAVEPOINT s", "SET CONSTRAINTS ALL DEFERRED", "RELEASE s"]
        ),
        0
    );
    assert_eq!(
        trips(
            &mut scene,
            &["SET TRANSACTION READ ONLY", "SET lock_timeout = '5s'"]
        ),
        0
    );
    let read = trips(&mut scene, &["SELECT count(*) FROM acc2"]);
    assert_eq!(trips(&mut scene, &["SELECT count(*) FROM acc2"]), read);
    scene.run(&["COMMIT", "BEGIN"]);
    scene.run(&tables);
    // Rows that wait go in the same message.
    scene.run(&["SET shard_fdw.flush_policy = transaction"]);
    scene.run(&tables);
    assert_eq!(trips(&mut scene, &["SET CONSTRAINTS ALL IMMEDIATE"]), 2);
    let end = trips(&mut scene, &["COMMIT"]);
    scene.run(&["BEGIN"]);
    scene.run(&tables);
    scene.run(&[
        "SELECT shard_fdw_flush()",
        "SET lock_timeout = '6s'",
        "SET TRANSACTION READ ONLY",
    ]);
    assert_eq!(trips(&mut scene, &["COMMIT"]), end);
}

#[test]
fn a_session_that_preloads_the_library_follows_from_its_first_statement_on() {
    let setup = Setup::new().set("session_preload_libraries", "shard_fdw");
    let scene = Scene::on(setup.start(), "", "");
    let mut client = scene.coordinator.simple();
    client.run("BEGIN").expect_ok();
    client.run("SET CONSTRAINTS ALL DEFERRED").expect_ok();
    client.run("INSERT INTO part VALUES (7, 7)").expect_ok();
    client.run("INSERT INTO acc VALUES (7, 7)").expect_ok();
    client.run("COMMIT").expect_ok();
}

/// All fields of the errors that statements of other kinds give, in a session with the library or without.
fn errors_of_other_statements(client: &mut Simple) -> Vec<Vec<String>> {
    let statements = [
        "ALTER TABLE pair ADD CONSTRAINT positive CHECK (a > 0)",
        "CREATE UNIQUE INDEX ON pair (b)",
        "CREATE TABLE other (a no_such_type)",
        "SET CONSTRAINTS no_such_constraint IMMEDIATE",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'ZZ123', MESSAGE = 'm', DETAIL = 'd', HINT = 'h', TABLE = 't', CONSTRAINT = 'c',
             COLUMN = 'l', SCHEMA = 's', DATATYPE = 'y'; END $$",
        "DROP TABLE pair",
        "VACUUM (full, no_such_option) pair",
        "PREPARE p AS SELECT no_such_column FROM pair",
    ];
    let mut all = Vec::new();
    for statement in statements {
        client.run("BEGIN; INSERT INTO late VALUES (1)").expect_ok();
        all.push(client.run(statement).expect_error().all());
        client.run("ROLLBACK").expect_ok();
    }
    all
}

#[test]
fn errors_of_statements_that_pass_keep_all_their_fields() {
    // Another library's hook is called where the installation has one.
    let plain = Cluster::start();
    let others = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'";
    let hooked = (plain.value(others) == "1").then(|| {
        let setup = Setup::new().set("shared_preload_libraries", "pg_stat_statements");
        setup.start()
    });
    for coordinator in std::iter::once(plain).chain(hooked) {
        coordinator.sql(
            "CREATE TABLE pair (a int, b int); INSERT INTO pair VALUES (-1, 1), (-2, 1);
             CREATE VIEW on_pair AS SELECT * FROM pair;
             CREATE TABLE late (id int CHECK (id > 0), UNIQUE (id) DEFERRABLE INITIALLY DEFERRED); INSERT INTO late VALUES (1)",
        );
        let mut client = coordinator.simple();
        let without = errors_of_other_statements(&mut client);
        client.run("LOAD 'shard_fdw'").expect_ok();
        assert_eq!(errors_of_other_statements(&mut client), without);
    }
}
