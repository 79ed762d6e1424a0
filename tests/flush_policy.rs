//! Flush policy `transaction`: rows of several statements wait together, and are sent, dropped and blamed with their own
//! transaction or savepoint.

mod common;

use common::*;

/// A coordinator with foreign tables `t1` and `t2` on two shards, the first one behind a proxy.
struct Scene {
    coordinator: Cluster,
    client: Simple,
    proxy: Proxy,
    shards: Shards,
}

impl Scene {
    fn new(more: &str) -> Scene {
        let coordinator = Setup::new().set("max_prepared_transactions", "2").start();
        let shards = Shards::start(2);
        shards.sql("CREATE TABLE t (id int PRIMARY KEY, note text)");
        let proxy = Proxy::to(shards[0].port());
        let mut script = "CREATE EXTENSION shard_fdw;".to_string();
        for (number, port) in [(1, proxy.port()), (2, shards[1].port())] {
            script.push_str(&create_server(&format!("s{number}"), port, ""));
            script.push_str(&format!(
                "CREATE FOREIGN TABLE t{number} (id int, note text) SERVER s{number}
                     OPTIONS (schema_name 'public', table_name 't');"
            ));
        }
        let mut client = coordinator.simple();
        client.run(&format!("{script} {more}")).expect_ok();
        // Connects, and learns the types.
        client
            .run("SET shard_fdw.flush_policy = transaction")
            .expect_ok();
        client
            .run("BEGIN; INSERT INTO t1 VALUES (0, ''); INSERT INTO t2 VALUES (0, ''); ROLLBACK")
            .expect_ok();
        proxy.reset();
        Scene {
            coordinator,
            client,
            proxy,
            shards,
        }
    }

    fn ok(&mut self, sql: &str) -> Reply {
        self.client.run(sql).expect_ok()
    }

    /// Statements for `t` that the first shard has been sent since the last call.
    fn sent(&self) -> Vec<String> {
        let queries = self.proxy.queries();
        self.proxy.reset();
        // Settings are not for the table.
        let statements = queries.iter().filter(|sql| !sql.contains("set_config"));
        let words = statements.filter_map(|sql| {
            let mut words = sql.split_whitespace();
            let word = words.next()?;
            let rest = words.next().unwrap_or_default();
            match word {
                "SAVEPOINT" | "RELEASE" | "ROLLBACK" => {
                    Some(format!("{word} {rest}").replace(" SAVEPOINT", ""))
                }
                "INSERT" | "DECLARE" | "UPDATE" | "DELETE" | "TRUNCATE" | "COMMIT" | "SELECT" => {
                    Some(word.to_string())
                }
                _ => None,
            }
        });
        words.collect()
    }

    /// Ids on a shard, in order.
    fn ids(&self, shard: usize) -> String {
        self.shards[shard]
            .value("SELECT coalesce(string_agg(id::text, ',' ORDER BY id), '') FROM t")
    }
}

#[test]
fn statements_share_a_batch() {
    let mut scene = Scene::new("");
    scene.ok("BEGIN");
    for id in 1..=50 {
        let tag = scene.ok(&format!("INSERT INTO t1 VALUES ({id}, 'x')"));
        assert_eq!(tag.tag(), "INSERT 0 1");
    }
    scene.ok("PREPARE p AS INSERT INTO t1 VALUES ($1, 'p')");
    for id in 51..=60 {
        assert_eq!(scene.ok(&format!("EXECUTE p ({id})")).tag(), "INSERT 0 1");
    }
    assert!(scene.sent().is_empty());
    scene.ok("COMMIT");
    assert_eq!(scene.sent(), ["INSERT", "COMMIT"]);
    assert_eq!(scene.shards[0].value("SELECT count(*) FROM t"), "60");

    // What is full goes at once.
    scene.ok("ALTER FOREIGN TABLE t1 OPTIONS (ADD batch_size '4'); BEGIN");
    for id in 101..=110 {
        scene.ok(&format!("EXECUTE p ({id})"));
    }
    scene.ok("COMMIT");
    let sent = scene.sent();
    let inserts = sent.iter().filter(|word| *word == "INSERT").count();
    assert_eq!(inserts, 3, "{sent:?}");
    assert_eq!(scene.shards[0].value("SELECT count(*) FROM t"), "70");
}

#[test]
fn whoever_looks_sees_the_rows() {
    let mut scene = Scene::new("");
    scene.ok("BEGIN; INSERT INTO t1 VALUES (1, 'a'); INSERT INTO t1 VALUES (2, 'b')");
    assert_eq!(scene.client.value("SELECT count(*) FROM t1"), "2");
    scene.ok("INSERT INTO t1 VALUES (3, 'c')");
    assert_eq!(
        scene.ok("UPDATE t1 SET note = 'u' WHERE id >= 2").tag(),
        "UPDATE 2"
    );
    scene.ok("INSERT INTO t1 VALUES (4, 'd')");
    assert_eq!(
        scene.ok("DELETE FROM t1 WHERE id IN (1, 4)").tag(),
        "DELETE 2"
    );
    scene.ok("INSERT INTO t1 VALUES (5, 'e')");
    assert_eq!(
        scene
            .ok("INSERT INTO t1 VALUES (6, 'f') RETURNING id")
            .value(),
        "6"
    );
    scene.ok("INSERT INTO t1 VALUES (7, 'g')");
    let reply = scene.ok("INSERT INTO t1 VALUES (7, 'h'), (8, 'i') ON CONFLICT DO NOTHING");
    assert_eq!(reply.tag(), "INSERT 0 1");
    scene.ok("COMMIT");
    assert_eq!(scene.ids(0), "2,3,5,6,7,8");
    scene.ok(
        "BEGIN; INSERT INTO t1 VALUES (9, ''); TRUNCATE t1; INSERT INTO t1 VALUES (10, ''); COMMIT",
    );
    assert_eq!(scene.ids(0), "10");
    scene.ok("BEGIN; INSERT INTO t1 VALUES (11, ''); SET TRANSACTION READ ONLY");
    assert_eq!(scene.client.value("SELECT count(*) FROM t1"), "2");
    scene.ok("COMMIT");
    assert_eq!(scene.ids(0), "10,11");
}

#[test]
fn a_cursor_sees_what_was_inserted_before_it() {
    let mut scene = Scene::new("");
    scene.ok("BEGIN; INSERT INTO t1 VALUES (1, '');
        DECLARE c1 CURSOR FOR SELECT id FROM t1 ORDER BY id;
        INSERT INTO t1 VALUES (2, '');
        DECLARE c2 CURSOR FOR SELECT id FROM t1 ORDER BY id;
        INSERT INTO t1 VALUES (3, '')");
    assert_eq!(scene.ok("FETCH ALL c2").lines(), ["1", "2"]);
    assert_eq!(scene.ok("FETCH ALL c1").lines(), ["1"]);
    scene.ok("INSERT INTO t1 VALUES (4, ''); COMMIT");
    assert_eq!(scene.ids(0), "1,2,3,4");
}

#[test]
fn a_savepoint_takes_its_own_rows_with_it() {
    let mut scene = Scene::new("");
    scene.ok("BEGIN; INSERT INTO t1 VALUES (1, ''); SAVEPOINT a; INSERT INTO t1 VALUES (2, '')");
    // Whether the savepoint itself has gone out by now is a matter of time.
    assert_eq!(scene.sent().first().map(String::as_str), Some("INSERT"));
    scene.ok(
        "ROLLBACK TO a; INSERT INTO t1 VALUES (3, ''); RELEASE a; INSERT INTO t1 VALUES (4, '')",
    );
    scene.ok(
        "SAVEPOINT b; INSERT INTO t1 VALUES (5, ''); SAVEPOINT c; INSERT INTO t2 VALUES (5, '')",
    );
    scene.ok("ROLLBACK TO b; INSERT INTO t2 VALUES (6, ''); COMMIT");
    assert_eq!((scene.ids(0), scene.ids(1)), ("1,3,4".into(), "6".into()));

    // Those of a block that fails for another reason.
    scene.ok("DO $$ BEGIN
        INSERT INTO t1 VALUES (11, '');
        BEGIN INSERT INTO t1 VALUES (12, ''); PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END;
        INSERT INTO t1 VALUES (13, '');
    END $$");
    assert_eq!(scene.ids(0), "1,3,4,11,13");
    scene.ok("BEGIN; INSERT INTO t1 VALUES (21, ''); INSERT INTO t2 VALUES (21, ''); ROLLBACK");
    assert_eq!(
        (scene.ids(0), scene.ids(1)),
        ("1,3,4,11,13".into(), "6".into())
    );
}

/// A cancel request could hit what sets a savepoint, which then cannot be rolled back to.
#[test]
fn to_undo_a_block_whose_rows_still_wait_nothing_is_cancelled() {
    let mut scene = Scene::new("");
    scene.ok("DO $$ BEGIN
        INSERT INTO t1 VALUES (0, '');
        FOR i IN 1..20 LOOP
            BEGIN INSERT INTO t1 VALUES (i, ''); PERFORM 1 / (i % 2); EXCEPTION WHEN division_by_zero THEN NULL; END;
        END LOOP;
    END $$");
    assert_eq!(scene.proxy.traffic().connections, 0);
    assert_eq!(scene.ids(0), "0,1,3,5,7,9,11,13,15,17,19");
}

#[test]
fn an_error_at_commit_leaves_nothing_anywhere() {
    let mut scene = Scene::new("");
    scene.shards[1].sql("INSERT INTO t VALUES (3, 'old')");
    scene.ok("BEGIN; INSERT INTO t1 VALUES (1, ''); INSERT INTO t2 VALUES (1, ''), (2, ''); INSERT INTO t2 VALUES (3, '')");
    let error = scene.client.run("COMMIT").expect_error();
    assert_eq!((error.sqlstate(), error.constraint()), ("23505", "t_pkey"));
    let context = "server \"s2\", foreign table \"t2\", rows 1 to 3";
    assert!(error.context().contains(context), "{error:?}");
    assert_eq!((scene.ids(0), scene.ids(1)), (String::new(), "3".into()));
    scene.ok("INSERT INTO t1 VALUES (1, '')");
    assert_eq!(scene.ids(0), "1");
}

#[test]
fn an_error_belongs_to_the_level_of_its_rows() {
    let mut scene = Scene::new("");
    scene.shards[0].sql("INSERT INTO t VALUES (1, 'old')");
    // The end of the block is that of a savepoint, and the block catches the error.
    scene.ok("CREATE TABLE trail (line text);
        DO $$ BEGIN
            INSERT INTO t1 VALUES (2, '');
            BEGIN INSERT INTO t1 VALUES (1, ''); EXCEPTION WHEN unique_violation THEN INSERT INTO trail VALUES ('caught'); END;
            INSERT INTO t1 VALUES (3, '');
        END $$");
    assert_eq!(scene.client.value("SELECT count(*) FROM trail"), "1");
    assert_eq!(scene.ids(0), "1,2,3");

    // An error while RELEASE runs aborts the level around it as well: so PostgreSQL does.
    scene.ok("BEGIN; INSERT INTO t1 VALUES (4, ''); SAVEPOINT a; INSERT INTO t1 VALUES (1, '')");
    let error = scene.client.run("RELEASE a").expect_error();
    assert_eq!(error.sqlstate(), "23505");
    assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK");
    scene.ok("BEGIN; INSERT INTO t1 VALUES (4, ''); SAVEPOINT a; INSERT INTO t1 VALUES (1, '')");
    let error = scene.client.run("SELECT shard_fdw_flush()").expect_error();
    assert_eq!(error.sqlstate(), "23505");
    scene.ok("ROLLBACK TO a; INSERT INTO t1 VALUES (5, ''); COMMIT");
    assert_eq!(scene.ids(0), "1,2,3,4,5");

    // A block that begins later gets the error too, but cannot make it go away.
    let reply = scene.ok("BEGIN; INSERT INTO t1 VALUES (1, '');
        DO $$ BEGIN PERFORM count(*) FROM t1; EXCEPTION WHEN unique_violation THEN INSERT INTO trail VALUES ('outer'); END $$");
    assert_eq!(reply.tag(), "DO");
    assert_eq!(
        scene
            .client
            .value("SELECT count(*) FROM trail WHERE line = 'outer'"),
        "1"
    );
    let error = scene.client.run("COMMIT").expect_error();
    assert_eq!(error.sqlstate(), "23505");
    assert!(
        error.context().contains("foreign table \"t1\", row 1"),
        "{error:?}"
    );
    assert_eq!(scene.ids(0), "1,2,3,4,5");
    assert_eq!(
        scene
            .client
            .value("SELECT count(*) FROM trail WHERE line = 'outer'"),
        "0"
    );

    let error = scene
        .client
        .run("BEGIN; INSERT INTO t1 VALUES (6, ''), (1, ''); SELECT shard_fdw_flush()");
    assert_eq!(error.expect_error().sqlstate(), "23505");
    assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK");
}

#[test]
fn changed_and_dropped_objects_keep_their_rows() {
    let mut scene = Scene::new("");
    scene.shards[0].sql("CREATE TABLE other (id int, note text)");
    scene.ok("BEGIN; INSERT INTO t1 VALUES (1, '');
        ALTER FOREIGN TABLE t1 OPTIONS (SET table_name 'other'); INSERT INTO t1 VALUES (2, '');
        ALTER FOREIGN TABLE t1 OPTIONS (SET table_name 't'); INSERT INTO t1 VALUES (3, '');
        ALTER FOREIGN TABLE t1 ADD COLUMN more int, DROP COLUMN note; ALTER FOREIGN TABLE t1 DROP COLUMN more;
        INSERT INTO t1 VALUES (4);
        ALTER SERVER s1 OPTIONS (ADD batch_size '7'); INSERT INTO t1 VALUES (5);
        ALTER USER MAPPING FOR CURRENT_USER SERVER s1 OPTIONS (SET user 'nobody'); INSERT INTO t1 VALUES (6); COMMIT");
    assert_eq!(scene.ids(0), "1,3,4,5,6");
    assert_eq!(scene.shards[0].value("SELECT id FROM other"), "2");
    scene.ok("BEGIN; INSERT INTO t2 VALUES (1, ''); DROP FOREIGN TABLE t2; COMMIT");
    scene.ok("CREATE FOREIGN TABLE t2 (id int, note text) SERVER s2 OPTIONS (schema_name 'public', table_name 't')");
    scene.ok("BEGIN; INSERT INTO t2 VALUES (2, ''); DROP USER MAPPING FOR CURRENT_USER SERVER s2; DROP SERVER s2 CASCADE; COMMIT");
    assert_eq!(scene.ids(1), "1,2");
}

#[test]
fn inserts_of_triggers_share_batches() {
    let mut scene = Scene::new(
        "CREATE TABLE l (id int);
         CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN INSERT INTO t1 VALUES (NEW.id + TG_ARGV[0]::int, TG_NAME); RETURN NULL; END';
         CREATE TRIGGER now AFTER INSERT ON l FOR EACH ROW EXECUTE FUNCTION log(0);
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON l DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION log(1000)",
    );
    scene.ok(
        "BEGIN; INSERT INTO l SELECT generate_series(1, 20); INSERT INTO l VALUES (21); COMMIT",
    );
    assert_eq!(scene.sent(), ["INSERT", "COMMIT"]);
    assert_eq!(scene.shards[0].value("SELECT count(*) FROM t"), "42");
}

#[test]
fn rows_arrive_in_an_order_that_foreign_keys_and_triggers_accept() {
    let mut scene = Scene::new("");
    scene.shards[0].sql(
        "CREATE TABLE p (id int PRIMARY KEY);
         CREATE TABLE c (id int REFERENCES p);
         CREATE TABLE a (id int, seen bigint);
         CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN UPDATE public.a SET seen = (SELECT count(*) FROM public.p) WHERE id = NEW.id; RETURN NULL; END';
         CREATE TRIGGER look AFTER INSERT ON a FOR EACH ROW EXECUTE FUNCTION look()",
    );
    scene.ok(
        "CREATE FOREIGN TABLE p (id int) SERVER s1 OPTIONS (schema_name 'public', batch_size '7');
        CREATE FOREIGN TABLE c (id int) SERVER s1 OPTIONS (schema_name 'public', batch_size '5');
        CREATE FOREIGN TABLE a (id int) SERVER s1 OPTIONS (schema_name 'public')",
    );
    scene.ok("DO $$ BEGIN FOR i IN 1..100 LOOP
        INSERT INTO p VALUES (i); INSERT INTO c VALUES (i), (1 + i / 2);
    END LOOP; END $$");
    scene.ok("DO $$ BEGIN FOR i IN 101..110 LOOP INSERT INTO c VALUES (1); INSERT INTO p VALUES (i); INSERT INTO c VALUES (i); END LOOP; END $$");
    scene.ok("BEGIN; INSERT INTO p VALUES (201); INSERT INTO a VALUES (1); INSERT INTO p VALUES (202); INSERT INTO a VALUES (2); COMMIT");
    assert_eq!(scene.shards[0].value("SELECT count(*) FROM p"), "112");
    assert_eq!(scene.shards[0].value("SELECT count(*) FROM c"), "220");
    assert_eq!(
        scene.shards[0].value("SELECT string_agg(seen::text, ',' ORDER BY id) FROM a"),
        "111,112"
    );
}

#[test]
fn memory_is_bounded_over_statements() {
    let mut scene = Scene::new("");
    scene.ok("SET shard_fdw.buffer_memory = '1MB'; ALTER SERVER s1 OPTIONS (ADD batch_bytes '256MB', ADD batch_size '1000000')");
    scene.ok("DO $$ BEGIN FOR i IN 1..2000 LOOP INSERT INTO t1 VALUES (i, repeat('x', 5000)); END LOOP; END $$");
    assert_eq!(scene.shards[0].value("SELECT count(*) FROM t"), "2000");
    let peak = scene
        .client
        .value("SELECT max(peak_buffered_bytes) <= 1024 * 1024 FROM shard_fdw_stats()");
    assert_eq!(peak, "t");
}

#[test]
fn a_transaction_with_rows_that_wait_cannot_be_prepared() {
    let mut scene = Scene::new("");
    let error = scene
        .client
        .run("BEGIN; INSERT INTO t1 VALUES (1, ''); PREPARE TRANSACTION 'p'")
        .expect_error();
    assert_eq!(error.sqlstate(), "0A000");
    assert_eq!(scene.ids(0), "");
    assert_eq!(
        scene
            .coordinator
            .value("SELECT count(*) FROM pg_prepared_xacts"),
        "0"
    );
}

#[test]
fn a_lost_connection_takes_the_transaction_with_it() {
    let mut scene = Scene::new("");
    scene.ok("BEGIN; INSERT INTO t2 VALUES (1, ''); INSERT INTO t1 VALUES (1, '')");
    scene.proxy.cut_all(How::Close);
    assert_eq!(
        scene.client.run("COMMIT").expect_error().sqlstate(),
        "08006"
    );
    assert_eq!((scene.ids(0), scene.ids(1)), (String::new(), String::new()));
    scene.ok("INSERT INTO t1 VALUES (1, '')");
    assert_eq!(scene.ids(0), "1");
}

/// Statements with functions, triggers, savepoints and reads in between, without errors.
const SCRIPT: &str = "
    INSERT INTO t1 SELECT i, 'a' FROM generate_series(1, 30) i;
    INSERT INTO t1 SELECT count(*) + 100, 'counted' FROM t1;
    BEGIN;
    INSERT INTO t1 VALUES (201, 'b');
    INSERT INTO t1 SELECT twice(i), 'f' FROM generate_series(301, 320) i;
    INSERT INTO t2 SELECT id, note FROM t1 WHERE id > 10;
    SAVEPOINT a;
    INSERT INTO t2 VALUES (1, 'gone');
    UPDATE t1 SET note = note || '.' WHERE id < 5;
    ROLLBACK TO a;
    INSERT INTO t2 VALUES (1, 'there'), (2, 'there');
    DELETE FROM t1 WHERE id BETWEEN 20 AND 25;
    UPDATE t2 SET note = (SELECT count(*) FROM t1)::text WHERE id = 2;
    COMMIT;
    DO $$ BEGIN FOR i IN 1001..1050 LOOP
        INSERT INTO t1 VALUES (i, 'loop');
        IF i % 7 = 0 THEN BEGIN INSERT INTO t2 SELECT max(id) + 5000, 'block' FROM t1; EXCEPTION WHEN OTHERS THEN RAISE; END; END IF;
    END LOOP; END $$;
    INSERT INTO l SELECT generate_series(1, 5);
    BEGIN; INSERT INTO l VALUES (6); SELECT count(*) FROM t2; INSERT INTO t2 VALUES (3, 'end'); COMMIT;";

#[test]
fn all_policies_leave_the_same_rows() {
    let mut scene = Scene::new(
        "CREATE FUNCTION twice(i int) RETURNS int LANGUAGE plpgsql AS
             'BEGIN RETURN 2 * i + (SELECT count(*) FROM t1 WHERE id = 2 * i); END';
         CREATE TABLE l (id int);
         CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN INSERT INTO t2 SELECT 9000 + NEW.id, count(*) FROM t2; RETURN NULL; END';
         CREATE TRIGGER log AFTER INSERT ON l FOR EACH ROW EXECUTE FUNCTION log()",
    );
    let mut all = Vec::new();
    for policy in ["row", "call", "statement", "transaction"] {
        for batch_size in [3, 1000] {
            scene.shards.sql("TRUNCATE t");
            scene.ok(&format!("SET shard_fdw.flush_policy = {policy}"));
            let change = if all.is_empty() { "ADD" } else { "SET" };
            for server in ["s1", "s2"] {
                scene.ok(&format!(
                    "ALTER SERVER {server} OPTIONS ({change} batch_size '{batch_size}')"
                ));
            }
            for statement in split(SCRIPT) {
                scene.ok(&statement);
            }
            let rows = "SELECT string_agg(t::text, ' ' ORDER BY id) FROM t";
            all.push((
                policy,
                [scene.shards[0].value(rows), scene.shards[1].value(rows)],
            ));
        }
    }
    assert!(all[0].1[0].contains("(640,f)"), "{all:?}");
    for (policy, rows) in &all[1..] {
        assert_eq!(*rows, all[0].1, "{policy}");
    }
}

/// The statements of a script: a transaction that is begun in one message would be one of several statements.
fn split(script: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut statement = String::new();
    for line in script.lines() {
        statement.push_str(line);
        statement.push('\n');
        if line.trim_end().ends_with(';') && statement.matches("$$").count() % 2 == 0 {
            statements.push(std::mem::take(&mut statement));
        }
    }
    statements
}
