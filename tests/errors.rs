//! Errors that arise here: nothing of them is lost on the way to the client, and nothing of Rust's is added.

mod common;

use common::{skip, Cluster, Fields, Setup, Simple};

/// A server whose tables are in schema `r`, and foreign tables for them.
struct Scene {
    cluster: Cluster,
}

impl Scene {
    fn new(setup: Setup) -> Scene {
        let cluster = setup.start();
        cluster.sql(&format!(
            "CREATE EXTENSION shard_fdw;
             CREATE SERVER loop FOREIGN DATA WRAPPER shard_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
             CREATE USER MAPPING FOR postgres SERVER loop OPTIONS (user 'postgres');
             CREATE SCHEMA r;
             CREATE TABLE r.item (id int, n int, name text);
             INSERT INTO r.item VALUES (1, 10, 'one'), (2, 20, 'two');
             CREATE FOREIGN TABLE item (id int, n int, name text) SERVER loop OPTIONS (schema_name 'r')",
            cluster.port()
        ));
        Scene { cluster }
    }
}

/// The error of a statement that does not end its connection.
fn error_of(client: &mut Simple, statement: &str) -> Fields {
    client.run(statement).expect_error()
}

#[test]
fn no_backtraces_reach_the_client() {
    let setup = Setup::new()
        .env("RUST_BACKTRACE", "1")
        .env("RUST_LIB_BACKTRACE", "full");
    let scene = Scene::new(setup);
    let mut client = scene.cluster.simple();
    scene.cluster.sql(
        "CREATE FUNCTION two() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN 1 / 0; END $$;
         CREATE FUNCTION slow() RETURNS int LANGUAGE sql AS 'SELECT 1 FROM pg_sleep(30)';
         CREATE TABLE held (id int);
         CREATE FUNCTION locked() RETURNS int LANGUAGE plpgsql AS $$ BEGIN LOCK TABLE held; RETURN 1; END $$;
         CREATE VIEW r.slow AS SELECT id, pg_sleep(30)::text AS nap FROM r.item;
         CREATE FOREIGN TABLE slow (id int, nap text) SERVER loop OPTIONS (schema_name 'r');
         CREATE FOREIGN TABLE wrong (id int, name int) SERVER loop OPTIONS (schema_name 'r', table_name 'item');
         CREATE FOREIGN TABLE missing (id int) SERVER loop OPTIONS (schema_name 'r');
         CREATE SERVER nowhere FOREIGN DATA WRAPPER shard_fdw OPTIONS (host '127.0.0.1', port '1');
         CREATE USER MAPPING FOR postgres SERVER nowhere;
         CREATE FOREIGN TABLE lost (id int) SERVER nowhere",
    );
    let mut holder = scene.cluster.simple();
    holder.run("BEGIN; LOCK TABLE held").expect_ok();
    // Each with its SQLSTATE, and whether a DETAIL belongs to it.
    let statements = [
        ("SELECT * FROM slow", "57014", false),
        ("SELECT id FROM item WHERE id = two()", "22012", false),
        (
            "SELECT id FROM item WHERE id = (SELECT two())",
            "22012",
            false,
        ),
        (
            "SELECT id FROM item WHERE id = (SELECT slow())",
            "57014",
            false,
        ),
        (
            "SELECT id FROM item WHERE id = (SELECT locked())",
            "55P03",
            false,
        ),
        (
            "UPDATE item SET n = n + 1 WHERE id = (SELECT two())",
            "22012",
            false,
        ),
        ("SELECT * FROM wrong", "22P02", false),
        ("SELECT * FROM missing", "42P01", false),
        ("SELECT * FROM lost", "08001", true),
        ("SELECT shard_fdw_disconnect('none')", "42704", false),
        ("SELECT shard_fdw_nextval('loop', 'r.none')", "42P01", false),
        (
            "ALTER SERVER loop OPTIONS (ADD batch_size 'many')",
            "22023",
            false,
        ),
        (
            "IMPORT FOREIGN SCHEMA none FROM SERVER loop INTO public",
            "HV00Q",
            false,
        ),
    ];
    for (statement, sqlstate, has_detail) in statements {
        client
            .run("SET statement_timeout = '300ms'; SET lock_timeout = '100ms'")
            .expect_ok();
        let error = error_of(&mut client, statement);
        let all = error.all().join("\n");
        assert_eq!(error.sqlstate(), sqlstate, "{statement}: {all}");
        assert_eq!(!error.detail().is_empty(), has_detail, "{statement}: {all}");
        for word in ["backtrace", "panic", "::", "std", "rustc", "unwrap"] {
            assert!(!all.contains(word), "{statement}: {all}");
        }
    }
    let log = scene.cluster.log();
    assert!(!log.contains("backtrace"), "{log}");
    holder.run("ROLLBACK").expect_ok();
}

#[test]
fn values_that_are_refused_when_they_are_read() {
    let scene = Scene::new(Setup::new());
    scene.cluster.sql(
        "CREATE FUNCTION accepts(v text) RETURNS bool LANGUAGE plpgsql AS $$
         BEGIN
             IF v = 'two' THEN
                 RAISE 'not %', v USING errcode = 'AP009', detail = 'It comes after one.', hint = 'Take one.', schema = 's', table = 't', column = 'c', constraint = 'k', datatype = 'd';
             END IF;
             RETURN v <> 'three';
         END $$;
         CREATE DOMAIN word AS text CONSTRAINT accepted CHECK (accepts(VALUE));
         CREATE DOMAIN words AS text[] CONSTRAINT accepted CHECK (accepts(VALUE[1]));
         CREATE DOMAIN relation AS regclass CONSTRAINT accepted CHECK (accepts(VALUE::text));
         CREATE DOMAIN present AS text NOT NULL;
         CREATE TYPE pair AS (w word, n int);
         CREATE TABLE r.stored (id int, w text, l text[], p text, c text);
         INSERT INTO r.stored VALUES
             (1, 'one', '{one}', '(one,1)', 'pg_class'), (2, 'two', '{two}', '(two,2)', 'pg_type'), (3, 'three', '{three}', '(three,3)', 'none.such'), (4, NULL, NULL, '(', NULL);
         CREATE FOREIGN TABLE stored (id int, w word, l words, p pair, c relation) SERVER loop OPTIONS (schema_name 'r');
         CREATE FOREIGN TABLE never_null (id int, w present) SERVER loop OPTIONS (schema_name 'r', table_name 'stored')",
    );
    let mut client = scene.cluster.simple();
    // Whatever a value is refused by, the CONTEXT goes on with the column; all else is as in an expression.
    let refused = [
        ("w", "stored WHERE id = 2", "'two'::word"),
        ("w", "stored WHERE id = 3", "'three'::word"),
        ("l", "stored WHERE id = 2", "'{two}'::words"),
        ("l", "stored WHERE id = 3", "'{three}'::words"),
        ("p", "stored WHERE id = 2", "'(two,2)'::text::pair"),
        ("p", "stored WHERE id = 3", "'(three,3)'::text::pair"),
        ("p", "stored WHERE id = 4", "'('::text::pair"),
        ("c", "stored WHERE id = 3", "'none.such'::regclass"),
        ("w", "never_null WHERE id = 4", "NULL::present"),
    ];
    for (column, place, value) in refused {
        let (table, _) = place.split_once(' ').expect("a table");
        let line = format!("column \"{column}\" of foreign table \"{table}\"");
        let expected = error_of(&mut client, &format!("SELECT {value}"));
        let read = error_of(&mut client, &format!("SELECT {column} FROM {place}"));
        let mut context: Vec<&str> = expected.context().lines().collect();
        context.push(&line);
        assert_eq!(read.context(), context.join("\n"), "{value}");
        // An expression has a place in the statement, and domains are checked elsewhere in core.
        let rest = |fields: &Fields| {
            let mut all = fields.all();
            all.retain(|field| !field.starts_with(['W', 'P', 'F', 'L', 'R']));
            all
        };
        assert_eq!(rest(&read), rest(&expected), "{value}");
        assert!(!read.all().contains(&"F: shard_fdw".to_string()), "{value}");
    }
    // From outside come further lines, each once.
    let error = error_of(
        &mut client,
        "DO $$ DECLARE v text; BEGIN SELECT w INTO v FROM stored WHERE id = 2; END $$",
    );
    assert_eq!(
        error.context(),
        "PL/pgSQL function accepts(text) line 4 at RAISE\n\
         column \"w\" of foreign table \"stored\"\n\
         SQL statement \"SELECT w        FROM stored WHERE id = 2\"\n\
         PL/pgSQL function inline_code_block line 1 at SQL statement"
    );
    assert_eq!(error.constraint(), "k");
    // What was caught inside leaves nothing behind.
    client
        .run(
            "CREATE FUNCTION quietly(v text) RETURNS bool LANGUAGE plpgsql AS $$
             BEGIN RETURN accepts(v); EXCEPTION WHEN OTHERS THEN RETURN true; END $$;
             CREATE DOMAIN quiet AS text CHECK (quietly(VALUE));
             CREATE FOREIGN TABLE calm (id int, w quiet) SERVER loop OPTIONS (schema_name 'r', table_name 'stored')",
        )
        .expect_ok();
    let reply = client.run("SELECT w FROM calm WHERE id < 3 ORDER BY id");
    assert_eq!(reply.lines(), ["one", "two"]);
}

#[test]
fn options_that_are_refused_inside_of_functions() {
    let scene = Scene::new(Setup::new());
    let mut client = scene.cluster.simple();
    let statement = "ALTER SERVER loop OPTIONS (ADD batch_size ''many'')";
    let error = error_of(
        &mut client,
        &format!("DO $$ BEGIN EXECUTE '{statement}'; END $$"),
    );
    assert_eq!(
        error.context(),
        format!(
            "SQL statement \"{}\"\nPL/pgSQL function inline_code_block line 1 at EXECUTE",
            statement.replace("''", "'")
        )
    );
}

/// Of a deadlock, the client gets one DETAIL and the log another.
#[test]
fn details_for_the_log_get_there() {
    let scene = Scene::new(Setup::new());
    scene.cluster.sql(
        "CREATE TABLE a (id int);
         CREATE TABLE b (id int);
         CREATE FUNCTION take_b() RETURNS int LANGUAGE plpgsql AS $$ BEGIN LOCK TABLE b; RETURN 1; END $$",
    );
    let mut victim = scene.cluster.simple();
    let mut other = scene.cluster.simple();
    other
        .run("SET deadlock_timeout = '10min'; BEGIN; LOCK TABLE b")
        .expect_ok();
    victim
        .run("SET deadlock_timeout = '10ms'; BEGIN; LOCK TABLE a")
        .expect_ok();
    other.send("LOCK TABLE a");
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'a'::regclass";
    assert!(other.waits_until(|| scene.cluster.value(waits) == "1"));
    let query = "SELECT id FROM item WHERE id = (SELECT take_b())";
    let error = error_of(&mut victim, query);
    assert_eq!(error.sqlstate(), "40P01");
    assert_eq!(error.message(), "deadlock detected");
    assert_eq!(error.hint(), "See server log for query details.");
    assert!(error.detail().contains("waits for AccessExclusiveLock"));
    assert!(
        error
            .context()
            .ends_with("PL/pgSQL function take_b() line 1 at SQL statement"),
        "{error:?}"
    );
    victim.run("ROLLBACK").expect_ok();
    other.receive().expect_ok();
    let line = format!("Process {}: {query}", victim.pid());
    assert!(
        scene.cluster.log().contains(&line),
        "{}",
        scene.cluster.log()
    );
}

/// How xml is read depends on a setting, which a domain's check does not see changed.
#[test]
fn checks_of_xml() {
    let scene = Scene::new(Setup::new());
    let mut client = scene.cluster.simple();
    if client.run("SELECT '<a/>'::xml").error.is_some() {
        skip("this server is built without XML");
        return;
    }
    scene.cluster.sql(
        "CREATE FUNCTION is_document() RETURNS bool LANGUAGE sql STABLE AS $$ SELECT current_setting('xmloption') = 'document' $$;
         CREATE DOMAIN mark AS xml CHECK (is_document());
         CREATE TABLE r.marked (id int, x text);
         INSERT INTO r.marked SELECT g, CASE WHEN g % 2 = 0 THEN 'text <b/>' ELSE '<a/>' END FROM generate_series(1, 250) g;
         CREATE FOREIGN TABLE marked (id int, x mark) SERVER loop OPTIONS (schema_name 'r')",
    );
    client
        .run("SET xmloption = document; SET datestyle = 'SQL, DMY'")
        .expect_ok();
    let reply = client.run("SELECT count(*), count(DISTINCT x::text) FROM marked");
    assert_eq!(reply.lines(), ["250|2"]);
    client.run("SET xmloption = content").expect_ok();
    let error = error_of(&mut client, "SELECT x FROM marked");
    assert_eq!(error.sqlstate(), "23514");
    assert_eq!(error.context(), "column \"x\" of foreign table \"marked\"");
}
