//! Statements that read, in whatever way, what they are just writing by COPY: they see what they would see locally.

mod common;

use common::*;

/// Each is run on local tables and on foreign tables of the same server; both must tell the same. `seen` returns how many rows
/// of `a` it sees, every 1,000th time, and else null.
const SCRIPTS: [(&str, &str); 14] = [
    (
        "a volatile function reads the target",
        "INSERT INTO a SELECT g, seen(g)::text FROM generate_series(1, 3000) g; SELECT v, count(*) FROM a GROUP BY v ORDER BY 1",
    ),
    (
        "a trigger reads the target",
        "CREATE TRIGGER look BEFORE INSERT ON b FOR EACH ROW EXECUTE FUNCTION look();
         INSERT INTO b SELECT g, '' FROM generate_series(1, 20) g; DROP TRIGGER look ON b; SELECT count(*), min(v), max(v) FROM b",
    ),
    (
        "one table into another",
        "INSERT INTO a SELECT g, 'x' || g FROM generate_series(1, 3000) g;
         INSERT INTO b SELECT id + 1, v FROM a WHERE id % 2 = 0; SELECT count(*), sum(id), md5(string_agg(v, ',' ORDER BY id)) FROM b",
    ),
    (
        "a table into itself",
        "INSERT INTO a SELECT g, 'x' || g FROM generate_series(1, 1500) g; INSERT INTO a SELECT id + 5000, v FROM a;
         INSERT INTO a SELECT -id, v FROM a; SELECT count(*), sum(id), count(DISTINCT v) FROM a",
    ),
    (
        "a table into itself, with a function that reads it",
        "INSERT INTO a SELECT g, '' FROM generate_series(1, 2000) g; INSERT INTO a SELECT -id, seen(id)::text FROM a;
         SELECT v, count(*) FROM a GROUP BY v ORDER BY 1",
    ),
    (
        "a function writes to the target",
        "INSERT INTO a SELECT g, coalesce(put_a(g), 0)::text FROM generate_series(1, 3000) g;
         SELECT v, count(*), sum(id) FROM a GROUP BY v ORDER BY 1",
    ),
    (
        "a function writes to another table, and fails now and then",
        "INSERT INTO a SELECT g, coalesce(put_b(g), 0)::text FROM generate_series(1, 3000) g;
         SELECT v, count(*) FROM a GROUP BY v ORDER BY 1; SELECT count(*), sum(id) FROM b",
    ),
    (
        "a cursor opened before",
        "INSERT INTO a SELECT g, '' FROM generate_series(1, 1000) g; DECLARE c CURSOR FOR SELECT id FROM a ORDER BY id; FETCH 2 FROM c;
         INSERT INTO a SELECT g, '' FROM generate_series(-3000, 0) g; FETCH 2 FROM c; DELETE FROM a WHERE id > 10;
         MOVE 900 FROM c; FETCH 1 FROM c; MOVE ALL FROM c; SELECT count(*) FROM a",
    ),
    (
        "the number of rows",
        "DO $$ DECLARE n bigint; BEGIN
             INSERT INTO a SELECT g, '' FROM generate_series(1, 2345) g; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '%', n;
             INSERT INTO a SELECT g, '' FROM generate_series(1, 3) g; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '%', n;
             FOR i IN 1..5 LOOP INSERT INTO a SELECT g, '' FROM generate_series(1, 700) g WHERE g % i = 0;
                 GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '%, % in all', n, (SELECT count(*) FROM a); END LOOP;
         END $$; SELECT count(*) FROM a",
    ),
    (
        "an error in a block, and the rows before it",
        "DO $$ BEGIN INSERT INTO a SELECT g, 'outer' FROM generate_series(1, 2000) g;
             BEGIN INSERT INTO a SELECT g, 'inner' FROM generate_series(1, 2000) g; PERFORM 1 / (SELECT 0 FROM a LIMIT 1);
             EXCEPTION WHEN division_by_zero THEN RAISE NOTICE '% rows', (SELECT count(*) FROM a); END;
             INSERT INTO a SELECT g, 'after' FROM generate_series(1, 2000) g; END $$;
         SELECT v, count(*) FROM a GROUP BY v ORDER BY 1",
    ),
    (
        "two streams in one statement",
        "WITH w AS (INSERT INTO b SELECT g, seen(g)::text FROM generate_series(1, 2000) g RETURNING id)
         INSERT INTO a SELECT g, seen(g)::text FROM generate_series(1, 3000) g;
         SELECT v, count(*) FROM a GROUP BY v ORDER BY 1; SELECT v, count(*) FROM b GROUP BY v ORDER BY 1",
    ),
    (
        "a statement trigger reads the target",
        "CREATE TRIGGER done AFTER INSERT ON a FOR EACH STATEMENT EXECUTE FUNCTION done();
         INSERT INTO a SELECT g, '' FROM generate_series(1, 2500) g; DROP TRIGGER done ON a; SELECT count(*) FROM a",
    ),
    (
        "an update and a delete between",
        "INSERT INTO a SELECT g, 'x' FROM generate_series(1, 2500) g; UPDATE a SET v = 'y' WHERE id % 2 = 0;
         INSERT INTO a SELECT g, 'z' FROM generate_series(1, 2500) g; DELETE FROM a WHERE id < 100;
         INSERT INTO a SELECT id, v FROM a WHERE v = 'z'; SELECT v, count(*) FROM a GROUP BY v ORDER BY 1",
    ),
    (
        "a table emptied between",
        "INSERT INTO a SELECT g, 'x' FROM generate_series(1, 2500) g; TRUNCATE a; INSERT INTO a SELECT g, 'y' FROM generate_series(1, 1500) g;
         SELECT v, count(*) FROM a GROUP BY v ORDER BY 1",
    ),
];

const FUNCTIONS: &str = "
    CREATE FUNCTION seen(g int) RETURNS bigint VOLATILE LANGUAGE plpgsql AS
        'BEGIN IF g % 1000 = 0 THEN RETURN (SELECT count(*) FROM a); END IF; RETURN NULL; END';
    CREATE FUNCTION put_a(g int) RETURNS bigint VOLATILE LANGUAGE plpgsql AS
        'DECLARE n bigint; BEGIN IF g % 1000 = 0 THEN INSERT INTO a SELECT -i, ''f'' FROM generate_series(1, g) i;
         SELECT count(*) INTO n FROM a; END IF; RETURN n; END';
    CREATE FUNCTION put_b(g int) RETURNS bigint VOLATILE LANGUAGE plpgsql AS
        'BEGIN IF g % 1000 <> 0 THEN RETURN NULL; END IF;
         BEGIN INSERT INTO b SELECT i, ''f'' FROM generate_series(1, g) i;
             IF g % 2000 = 0 THEN RAISE EXCEPTION ''no''; END IF;
         EXCEPTION WHEN raise_exception THEN RETURN -g; END; RETURN (SELECT count(*) FROM b); END';
    CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO a SELECT NEW.id, '''' FROM generate_series(1, 40); NEW.v = (SELECT lpad(count(*)::text, 5) FROM a) || (SELECT lpad(count(*)::text, 5) FROM b);
         RETURN NEW; END';
    CREATE FUNCTION done() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE NOTICE ''% rows'', (SELECT count(*) FROM a); RETURN NULL; END'";

/// Everything that a script has told.
fn outcome(client: &mut Simple, script: &str) -> Vec<String> {
    let reply = client.run(&format!("BEGIN; {script}; COMMIT")).expect_ok();
    let notices = reply
        .notices
        .iter()
        .map(|notice| notice.message().to_string());
    let mut told: Vec<String> = notices.collect();
    for statement in &reply.statements {
        told.push(format!("{}: {:?}", statement.tag, statement.rows));
    }
    told
}

/// Enough of `pad` makes rows stream. Nobody reads it.
const TABLES: &str = "
    CREATE TABLE a (id int, v text, pad text DEFAULT repeat('x', 50)) PARTITION BY HASH (id);
    CREATE TABLE b (LIKE a INCLUDING ALL) PARTITION BY HASH (id)";

/// Leaves of each table, all on one server, `transport`, `fetch_size` and `batch_bytes`. One leaf has the connection alone.
const WAYS: [(u32, &str, u32, &str); 8] = [
    (1, "insert", 100, "2kB"),
    (1, "copy", 100, "2kB"),
    (1, "copy", 100, "1MB"),
    (1, "copy", 1, "1MB"),
    (1, "auto", 100, "2kB"),
    (3, "copy", 100, "2kB"),
    (3, "copy", 1, "1MB"),
    (3, "auto", 100, "2kB"),
];

/// Databases of one cluster: with local tables, with those that the foreign ones are of, and with these.
struct Scene {
    local: Simple,
    stored: Simple,
    sharded: Simple,
    _cluster: Cluster,
}

impl Scene {
    fn new(leaves: u32) -> Scene {
        let cluster = Cluster::start();
        let mut admin = cluster.simple();
        for name in ["local", "stored", "sharded"] {
            admin.run(&format!("CREATE DATABASE {name}")).expect_ok();
        }
        let [mut local, mut stored, mut sharded] =
            ["local", "stored", "sharded"].map(|name| cluster.simple_as(name, "postgres"));
        let server = create_server(
            "far",
            cluster.port(),
            "transport 'auto', fetch_size '100', batch_size '100', batch_bytes '2kB'",
        );
        let server = server.replace("dbname 'postgres'", "dbname 'stored'");
        sharded
            .run(&format!(
                "CREATE EXTENSION shard_fdw; SET shard_fdw.copy_rows = 1; {server}"
            ))
            .expect_ok();
        for client in [&mut local, &mut sharded] {
            client.run(&format!("{TABLES}; {FUNCTIONS}")).expect_ok();
        }
        for (table, number) in ["a", "b"]
            .iter()
            .flat_map(|t| (0..leaves).map(move |n| (t, n)))
        {
            let name = format!("{table}{number}");
            let part = format!(
                "TABLE {name} PARTITION OF {table} FOR VALUES WITH (MODULUS {leaves}, REMAINDER {number})"
            );
            local.run(&format!("CREATE {part}")).expect_ok();
            stored
                .run(&format!("CREATE TABLE {name} (id int, v text, pad text)"))
                .expect_ok();
            sharded
                .run(&format!(
                    "CREATE FOREIGN {part} SERVER far OPTIONS (schema_name 'public')"
                ))
                .expect_ok();
        }
        Scene {
            local,
            stored,
            sharded,
            _cluster: cluster,
        }
    }

    fn clear(&mut self) {
        self.sharded.run("TRUNCATE a, b").expect_ok();
    }
}

fn statements_see_what_they_would_see_locally(leaves: u32) {
    let mut scene = Scene::new(leaves);
    let expected = SCRIPTS.map(|(_, script)| {
        let told = outcome(&mut scene.local, script);
        scene.local.run("TRUNCATE a, b").expect_ok();
        told
    });
    for (_, transport, fetch_size, batch_bytes) in WAYS.iter().filter(|way| way.0 == leaves) {
        let way = format!("{leaves} leaves, {transport}, fetch_size {fetch_size}, {batch_bytes}");
        scene
            .sharded
            .run(&format!(
                "ALTER SERVER far OPTIONS (SET transport '{transport}', SET fetch_size '{fetch_size}',
                     SET batch_bytes '{batch_bytes}')"
            ))
            .expect_ok();
        for ((what, script), expected) in SCRIPTS.iter().zip(&expected) {
            let told = outcome(&mut scene.sharded, script);
            assert_eq!(&told, expected, "{what}, {way}");
            scene.clear();
        }
        copied_by_a_client(&mut scene);
        if *transport != "copy" {
            copied_in_part(&mut scene);
        }
    }
}

#[test]
fn a_statement_sees_what_it_streams() {
    statements_see_what_they_would_see_locally(1);
}

#[test]
fn a_statement_sees_what_it_sends_to_several_tables() {
    statements_see_what_they_would_see_locally(3);
}

fn lines(number: u32) -> String {
    (1..=number).map(|n| format!("{n}\trow {n}\n")).collect()
}

/// COPY of a client into tables whose rows go by COPY themselves.
fn copied_by_a_client(scene: &mut Scene) {
    let data = lines(5000);
    let reply = scene
        .sharded
        .copy_in("COPY a (id, v) FROM STDIN", data.as_bytes());
    assert_eq!(reply.tag(), "COPY 5000");
    let right = "SELECT count(*), sum(id) FROM a WHERE v = 'row ' || id";
    assert_eq!(scene.sharded.run(right).lines(), ["5000|12502500"]);
    let copy = "COPY a (id, v) FROM STDIN WHERE id % 2 = 0";
    let reply = scene.sharded.copy_in(copy, data.as_bytes());
    assert_eq!(reply.tag(), "COPY 2500");
    assert_eq!(scene.sharded.value("SELECT count(*) FROM a"), "7500");
    scene.clear();
}

/// The shard drops some of the rows: they are not counted.
fn copied_in_part(scene: &mut Scene) {
    scene
        .stored
        .run(
            "CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END';
             CREATE TRIGGER odd BEFORE INSERT ON a0 FOR EACH ROW EXECUTE FUNCTION odd()",
        )
        .expect_ok();
    let data = lines(5000);
    let copy = "COPY a (id, v) FROM STDIN";
    let tag = scene
        .sharded
        .copy_in(copy, data.as_bytes())
        .tag()
        .to_string();
    scene.stored.run("DROP FUNCTION odd CASCADE").expect_ok();
    let stored = scene.sharded.value("SELECT count(*) FROM a");
    assert_eq!(tag, format!("COPY {stored}"));
    let dropped = "SELECT count(*) FROM a0 WHERE id % 2 = 0";
    assert_eq!(scene.stored.value(dropped), "0");
    scene.clear();
}
