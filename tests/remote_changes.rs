//! Changes on a shard while a session goes on that has learned of its tables before: what it stores is what a new session
//! would store, or there is an error.

mod common;

use common::*;

/// A coordinator and a shard, with a session on each.
struct Site {
    coordinator: Cluster,
    shard: Cluster,
    client: Simple,
    there: Simple,
}

impl Site {
    fn start() -> Site {
        let (coordinator, shard) = (Cluster::start(), Cluster::start());
        let mut client = coordinator.simple();
        client
            .run(&format!(
                "CREATE EXTENSION shard_fdw; {}",
                create_server("s", shard.port(), "")
            ))
            .expect_ok();
        let there = shard.simple();
        Site {
            coordinator,
            shard,
            client,
            there,
        }
    }

    #[track_caller]
    fn ok(&mut self, sql: &str) -> Reply {
        self.client.run(sql).expect_ok()
    }

    #[track_caller]
    fn remote(&mut self, sql: &str) {
        self.there.run(sql).expect_ok();
    }

    #[track_caller]
    fn stored(&mut self, query: &str) -> String {
        self.there.run(query).lines().join(" ")
    }
}

/// The type of a column here, and there in the beginning; the one that it gets; a value.
const CHANGES: [(&str, &str, &str, &str); 32] = [
    ("numeric", "numeric", "int", "1.5"),
    ("numeric", "numeric", "numeric(10,1)", "1.55"),
    ("numeric", "numeric", "float4", "1.23456789012"),
    ("numeric(10,2)", "numeric(10,2)", "bigint", "2.50"),
    ("float8", "float8", "int", "2.7"),
    ("float8", "float8", "numeric", "0.1"),
    ("float8", "float8", "float4", "0.123456789012"),
    ("float4", "float4", "float8", "0.1"),
    ("bigint", "bigint", "float8", "9007199254740993"),
    ("bigint", "bigint", "smallint", "70000"),
    ("int", "int", "text", "7"),
    (
        "timestamptz",
        "timestamptz",
        "timestamp",
        "2024-05-05 13:14:15+00",
    ),
    (
        "timestamptz",
        "timestamptz",
        "date",
        "2024-05-05 23:14:15+00",
    ),
    (
        "timestamp",
        "timestamp",
        "timestamptz",
        "2024-05-05 13:14:15",
    ),
    ("timestamp", "timestamp", "time", "2024-05-05 13:14:15"),
    (
        "timestamptz",
        "timestamptz",
        "text",
        "2024-05-05 13:14:15+00",
    ),
    ("timetz", "timetz", "time", "13:14:15+05"),
    ("date", "date", "timestamptz", "2024-05-05"),
    ("interval", "interval", "time", "1 day 02:03:04"),
    ("varchar(8)", "varchar(8)", "varchar(3)", "abcd"),
    ("text", "text", "char(3)", "abcd"),
    ("text", "text", "name", "a b"),
    ("text", "text", "\"char\"", "xyz"),
    ("char(4)", "char(4)", "text", "ab"),
    ("bool", "bool", "text", "true"),
    ("inet", "inet", "text", "10.0.0.1"),
    ("oid", "oid", "int", "4294967295"),
    ("jsonb", "jsonb", "json", "{\"a\": 1}"),
    ("numeric[]", "numeric[]", "int[]", "{1.5,2}"),
    ("text", "int", "text", "007"),
    ("text", "positive", "int", "1.5"),
    ("text", "mood", "text", "ok"),
];

/// Ways to store a value: what runs, where `$1` is the value as a typed literal and `$2` its type.
const WAYS: [(&str, &str); 10] = [
    ("a row", "INSERT INTO x VALUES (1, $1)"),
    ("a batch", "INSERT INTO x VALUES (1, $1), (2, $1)"),
    ("a returned row", "INSERT INTO x VALUES (1, $1) RETURNING id"),
    (
        "an update of many rows",
        "UPDATE x SET v = $1 WHERE random() < 2",
    ),
    ("an update by the shard", "UPDATE x SET v = $1"),
    (
        "an expression that the shard computes",
        "UPDATE x SET v = CASE WHEN id > 0 THEN $1 END",
    ),
    ("an upsert", "INSERT INTO u VALUES (10, $1), (11, $1)"),
    (
        "a function",
        "DO $do$ BEGIN FOR i IN 1..3 LOOP INSERT INTO x VALUES (i, $1); END LOOP; END $do$",
    ),
    (
        "waiting rows",
        "BEGIN; SET LOCAL shard_fdw.flush_policy = transaction; INSERT INTO x VALUES (1, $1); INSERT INTO x VALUES (2, $1); COMMIT",
    ),
    ("a prepared statement", "EXECUTE p"),
];

/// What is stored, or the SQLSTATE.
fn outcome(site: &mut Site, sql: &str) -> Result<String, String> {
    let reply = site.client.run(sql);
    if reply.status != 'I' {
        site.client.run("ROLLBACK").expect_ok();
    }
    match reply.error {
        Some(error) => Err(error.sqlstate().to_string()),
        None => Ok(site.stored("SELECT id, quote_nullable(v::text) FROM x ORDER BY id")),
    }
}

fn store(site: &mut Site, sql: &str) -> Result<String, String> {
    site.remote("TRUNCATE x; INSERT INTO x VALUES (10, NULL), (11, NULL)");
    outcome(site, sql)
}

#[test]
fn values_are_those_of_a_new_session_or_there_is_an_error() {
    let mut site = Site::start();
    site.remote(
        "CREATE DOMAIN positive AS numeric CHECK (VALUE > 0); CREATE TYPE mood AS ENUM ('ok', 'bad')",
    );
    site.ok("SET timezone = 'Asia/Tokyo'");
    for (number, (local, before, after, value)) in CHANGES.into_iter().enumerate() {
        let literal = format!("'{value}'::{local}");
        // A third of the pairs, in which each change and each way occurs.
        let ways = WAYS.iter().enumerate();
        let ways = ways.filter(|(way, _)| long() || (number + way) % 3 == 0);
        for (_, (what, way)) in ways {
            let what = format!("{what}, {local}: {before} becomes {after}");
            let sql = way.replace("$1", &literal);
            site.remote(&format!(
                "DROP TABLE IF EXISTS x; CREATE TABLE x (id int PRIMARY KEY, v {before})"
            ));
            site.ok(&format!(
                "DROP FOREIGN TABLE IF EXISTS x, u; DEALLOCATE ALL;
                 CREATE FOREIGN TABLE x (id int, v {local}) SERVER s OPTIONS (schema_name 'public');
                 CREATE FOREIGN TABLE u (id int OPTIONS (key 'true'), v {local}) SERVER s
                     OPTIONS (schema_name 'public', table_name 'x', on_conflict 'update');
                 PREPARE p AS INSERT INTO x SELECT g, {literal} FROM generate_series(1, 3) g"
            ));
            // The session learns what there is.
            store(&mut site, &sql).unwrap_or_else(|error| panic!("{what}: {error}"));
            site.remote(&format!(
                "TRUNCATE x; ALTER TABLE x ALTER v TYPE {after} USING NULL"
            ));
            let known = store(&mut site, &sql);
            let again = store(&mut site, &sql);
            site.ok("SELECT shard_fdw_disconnect_all()");
            let new = store(&mut site, &sql);
            assert_eq!(again, new, "{what}, the second time");
            match &known {
                Ok(_) => assert_eq!(known, new, "{what}"),
                // Not known to be another one before it was sent.
                Err(error) if new.is_ok() => assert_eq!(error, "55000", "{what}"),
                Err(_) => {}
            }
            // One row goes as text, of which the shard makes whatever the column is.
            if way.ends_with("(1, $1)") || way.ends_with("RETURNING id") {
                assert_eq!(known, new, "{what}");
            }
        }
    }
}

#[test]
fn an_expression_that_the_shard_computes_gives_the_value_of_one_computed_here() {
    let mut site = Site::start();
    site.remote(
        "CREATE DOMAIN positive AS numeric CHECK (VALUE > 0); CREATE TYPE mood AS ENUM ('ok', 'bad')",
    );
    site.ok("SET timezone = 'Asia/Tokyo'");
    let mut count = 0;
    for (local, before, after, value) in CHANGES {
        site.remote(&format!(
            "DROP TABLE IF EXISTS x; CREATE TABLE x (id int PRIMARY KEY, v {after})"
        ));
        site.ok(&format!(
            "DROP FOREIGN TABLE IF EXISTS x; SELECT shard_fdw_disconnect_all();
             CREATE FOREIGN TABLE x (id int, v {local}) SERVER s OPTIONS (schema_name 'public')"
        ));
        let update = format!("UPDATE x SET v = CASE WHEN id > 0 THEN '{value}'::{local} END");
        let plan = site.ok(&format!("EXPLAIN {update}")).lines().join("\n");
        count += usize::from(plan.contains("Foreign Update"));
        let computed = store(&mut site, &update);
        let sent = store(&mut site, &format!("{update} WHERE random() < 2"));
        // The shard does not know the time zone of the user.
        match computed == Err("0A000".to_owned()) {
            true => assert_eq!(local, "timestamptz"),
            false => assert_eq!(computed, sent, "{local} for {after}, which was {before}"),
        }
    }
    // A length is enforced here.
    assert!(count > CHANGES.len() - 5, "{count}");
}

#[test]
fn rows_of_copy_are_those_of_a_new_session_or_there_is_an_error() {
    let mut site = Site::start();
    site.ok("SET timezone = 'Asia/Tokyo'");
    let changes = CHANGES.iter().filter(|change| change.0 == change.1);
    for (local, before, after, value) in changes {
        for transport in ["auto", "insert", "copy"] {
            let what = format!("{transport}, {local}: {before} becomes {after}");
            site.remote(&format!(
                "DROP TABLE IF EXISTS x; CREATE TABLE x (id int, v {before})"
            ));
            site.ok(&format!(
                "DROP FOREIGN TABLE IF EXISTS x;
                 CREATE FOREIGN TABLE x (id int, v {local}) SERVER s
                     OPTIONS (schema_name 'public', transport '{transport}', batch_size '5')"
            ));
            let data: String = (0..12).map(|id| format!("{id}\t{value}\n")).collect();
            let copy = |site: &mut Site| {
                site.remote("TRUNCATE x");
                let reply = site.client.copy_in("COPY x FROM STDIN", data.as_bytes());
                match reply.error {
                    Some(error) => Err(error.sqlstate().to_string()),
                    None => Ok(site
                        .stored("SELECT count(*), count(DISTINCT v::text), min(v::text) FROM x")),
                }
            };
            copy(&mut site).unwrap_or_else(|error| panic!("{what}: {error}"));
            site.remote(&format!(
                "TRUNCATE x; ALTER TABLE x ALTER v TYPE {after} USING NULL"
            ));
            let known = copy(&mut site);
            site.ok("SELECT shard_fdw_disconnect_all()");
            let new = copy(&mut site);
            if known.is_ok() || transport != "copy" {
                assert_eq!(known, new, "{what}");
            }
        }
    }
}

#[test]
fn a_type_that_changes_in_a_transaction_is_learned_in_it() {
    let mut site = Site::start();
    site.remote("CREATE TABLE x (id int, v numeric); CREATE TABLE other (id int)");
    site.ok("IMPORT FOREIGN SCHEMA public FROM SERVER s INTO public");
    site.ok("INSERT INTO x VALUES (1, 1.5), (2, 2.5)");
    // The remote transaction's snapshot is older than the change.
    site.ok("BEGIN; SELECT * FROM other");
    site.remote("ALTER TABLE x ALTER v TYPE int");
    let error = site
        .client
        .run("SAVEPOINT a; INSERT INTO x VALUES (3, 3.5), (4, 4.5)")
        .expect_error();
    assert_eq!(error.sqlstate(), "55000");
    assert!(error.message().contains("\"x\""), "{error:?}");
    assert!(error.hint().contains("Try again"), "{error:?}");
    let error = site
        .client
        .run("ROLLBACK TO a; INSERT INTO x VALUES (3, 3.5), (4, 4.5)")
        .expect_error();
    assert_eq!(error.sqlstate(), "22P02");
    site.ok("ROLLBACK TO a; INSERT INTO x VALUES (3, 3), (4, 4); COMMIT");
    let stored = site.stored("SELECT v FROM x WHERE id > 2 ORDER BY id");
    assert_eq!(stored, "3 4");

    // An error of the shard's own code is not taken for one.
    site.remote(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '42804'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON x FOR EACH ROW EXECUTE FUNCTION refuse()",
    );
    let error = site
        .client
        .run("INSERT INTO x VALUES (5, 5), (6, 6)")
        .expect_error();
    assert_eq!((error.sqlstate(), error.message()), ("42804", "no"));
}

#[test]
fn the_first_violation_of_a_transaction_drops_what_is_known() {
    let mut site = Site::start();
    site.remote("CREATE TABLE x (id int PRIMARY KEY)");
    site.ok("IMPORT FOREIGN SCHEMA public FROM SERVER s INTO public");
    // Rows may wait beyond their statement only where the shard drops none.
    site.ok("SET shard_fdw.flush_policy = transaction");
    site.ok("INSERT INTO x VALUES (1), (2)");
    site.remote(
        "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.id = 7 THEN RETURN NULL; END IF; RETURN NEW; END $$;
         CREATE TRIGGER skip BEFORE INSERT ON x FOR EACH ROW EXECUTE FUNCTION skip()",
    );
    let error = site.client.run("INSERT INTO x VALUES (1), (2)");
    assert_eq!(error.expect_error().sqlstate(), "23505");
    // That the shard may drop rows is learned now.
    site.ok("INSERT INTO x VALUES (7), (8)");
    assert_eq!(site.stored("SELECT id FROM x ORDER BY id"), "1 2 8");
}

#[test]
fn domains_that_refuse_null_are_checked_without_one() {
    let mut site = Site::start();
    site.remote(
        "CREATE DOMAIN d AS numeric NOT NULL CHECK (VALUE > 0); CREATE DOMAIN e AS int NOT NULL;
         CREATE TABLE x (id int, v d DEFAULT 1)",
    );
    site.ok("CREATE FOREIGN TABLE x (id int, v text) SERVER s OPTIONS (schema_name 'public')");
    site.ok("INSERT INTO x VALUES (1, '1.5'), (2, '2.5')");
    assert_eq!(site.stored("SELECT v FROM x ORDER BY id"), "1.5 2.5");
    site.remote("TRUNCATE x; ALTER TABLE x ALTER v DROP DEFAULT, ALTER v TYPE e");
    let error = site
        .client
        .run("INSERT INTO x VALUES (1, '1.5'), (2, '2.5')");
    assert_eq!(error.expect_error().sqlstate(), "55000");
    let error = site
        .client
        .run("INSERT INTO x VALUES (1, '1.5'), (2, '2.5')");
    assert_eq!(error.expect_error().sqlstate(), "22P02");
}

#[test]
fn tables_and_columns_newer_than_the_snapshot_are_unknown() {
    let mut site = Site::start();
    site.remote("CREATE TABLE other (id int); CREATE TABLE w (id int)");
    site.ok("CREATE FOREIGN TABLE other (id int) SERVER s OPTIONS (schema_name 'public');
        CREATE FOREIGN TABLE x (id int, v timestamptz, n numeric, c \"char\") SERVER s OPTIONS (schema_name 'public');
        CREATE FOREIGN TABLE w (id int, v int[]) SERVER s OPTIONS (schema_name 'public')");
    site.ok("SET timezone = 'Asia/Tokyo'; BEGIN; SELECT * FROM other");
    site.remote(
        "CREATE TABLE x (id int PRIMARY KEY, v timestamp, n text, c \"char\"); ALTER TABLE w ADD v int[]",
    );
    site.ok("INSERT INTO x VALUES (1, '2024-05-05 13:14:15+09', 1.50, 'a'), (2, NULL, NULL, 'b'), (3, NULL, 7, NULL);
        INSERT INTO w VALUES (1, '{1,2}'), (2, NULL)");
    assert_eq!(site.ok("UPDATE x SET n = 8 WHERE id = 3").tag(), "UPDATE 1");
    assert_eq!(
        site.ok("UPDATE x SET n = n + 1 WHERE id = 3 AND random() < 2")
            .tag(),
        "UPDATE 1"
    );
    let copied = site
        .client
        .copy_in("COPY x FROM STDIN", b"4\t\\N\t4.0\tx\n5\t\\N\t5.0\ty\n");
    assert_eq!(copied.tag(), "COPY 2");
    site.ok("COMMIT");
    let rows = "1|2024-05-05 13:14:15|1.50|a 2|NULL|NULL|b 3|NULL|9|NULL 4|NULL|4.0|x 5|NULL|5.0|y";
    let stored = site.stored("SELECT id || '|' || coalesce(v::text, 'NULL') || '|' || coalesce(n, 'NULL') || '|' || coalesce(c::text, 'NULL') FROM x ORDER BY id");
    assert_eq!(stored, rows);
    assert_eq!(site.stored("SELECT v FROM w WHERE id = 1"), "{1,2}");
    // Nothing of that has been kept.
    let explain = "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) INSERT INTO x SELECT g, NULL, g FROM generate_series(11, 13) g";
    let lines = site.ok(explain).lines().join("\n");
    assert!(lines.contains("unnest("), "{lines}");
}

/// What is kept of an answer belongs to the foreign table as it was when the question was made.
#[test]
fn a_leaf_that_changes_while_the_shard_is_asked_is_asked_about_again() {
    let mut site = Site::start();
    let proxy = Proxy::to(site.shard.port());
    site.remote(
        "CREATE TABLE a (k int, v numeric); CREATE TABLE b (k int, v numeric); CREATE TABLE c (k int, v text)",
    );
    site.ok(&format!(
        "{}; CREATE TABLE t (k int, v numeric) PARTITION BY LIST (k);
         CREATE FOREIGN TABLE a PARTITION OF t FOR VALUES IN (1) SERVER far OPTIONS (schema_name 'public');
         CREATE FOREIGN TABLE b PARTITION OF t FOR VALUES IN (2) SERVER far OPTIONS (schema_name 'public');
         SELECT * FROM a",
        create_server("far", proxy.port(), "")
    ));
    let mut other = site.coordinator.simple();
    site.ok("BEGIN; SELECT * FROM a");
    proxy.reset();
    proxy.stall_from(Side::Client);
    site.client.send("INSERT INTO t VALUES (1, 1.5), (1, 2.5)");
    wait_until("the question is held back", || {
        proxy.holds_back("SELECT q.ord")
    });
    other
        .run("ALTER FOREIGN TABLE b OPTIONS (ADD table_name 'c')")
        .expect_ok();
    proxy.resume();
    site.client.receive().expect_ok();
    site.ok("INSERT INTO t VALUES (2, 1.50), (2, 2.50)");
    assert_eq!(
        site.client
            .value("SELECT string_agg(v::text, ' ' ORDER BY v) FROM b"),
        "1.50 2.50"
    );
    site.ok("ROLLBACK");
}

#[test]
fn rows_arrive_in_the_order_that_matters_since_a_change() {
    let mut site = Site::start();
    site.remote(
        "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int, p int); CREATE TABLE seen (c int, n bigint);
         CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO public.seen SELECT NEW.id, count(*) FROM public.p WHERE id = NEW.id; RETURN NULL; END $$",
    );
    site.ok(
        "CREATE FOREIGN TABLE p (id int) SERVER s OPTIONS (schema_name 'public');
        CREATE FOREIGN TABLE c (id int, p int) SERVER s OPTIONS (schema_name 'public');
        SET shard_fdw.flush_policy = transaction",
    );
    let one = |id: i32| {
        format!("INSERT INTO c VALUES ({id}, NULL); INSERT INTO p VALUES ({id}); INSERT INTO c VALUES ({id}, {id})")
    };
    site.ok(&format!("BEGIN; {}; COMMIT", one(1)));
    site.remote("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p");
    site.ok(&format!("BEGIN; {}; COMMIT", one(2)));
    // In a transaction that has begun to use the tables, but has not sent these rows.
    site.remote("ALTER TABLE c DROP CONSTRAINT c_p_fkey");
    site.ok("BEGIN; SELECT count(*) FROM p; INSERT INTO c VALUES (3, NULL)");
    site.remote("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p");
    site.ok("INSERT INTO p VALUES (3); INSERT INTO c VALUES (3, 3); COMMIT");
    site.remote("ALTER TABLE c DROP CONSTRAINT c_p_fkey; CREATE TRIGGER look AFTER INSERT ON c FOR EACH ROW EXECUTE FUNCTION look()");
    site.ok(&format!("BEGIN; {}; COMMIT", one(4)));
    assert_eq!(
        site.stored("SELECT c, n FROM seen ORDER BY c, n"),
        "4|0 4|1"
    );
    // So often that it pays to ask.
    let all: Vec<String> = (5..40).map(one).collect();
    site.ok(&format!("BEGIN; {}; COMMIT", all.join("; ")));
    assert_eq!(
        site.stored("SELECT count(*), sum(n) FROM seen WHERE c >= 5"),
        "70|35"
    );
    site.remote("DROP TRIGGER look ON c; ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p");
    let all: Vec<String> = (50..90).map(one).collect();
    site.ok(&format!("BEGIN; {}; COMMIT", all.join("; ")));
    assert_eq!(site.stored("SELECT count(*) FROM c"), "158");

    // Where nobody cares, rows share batches as before.
    site.remote("ALTER TABLE c DROP CONSTRAINT c_p_fkey");
    let all: Vec<String> = (100..150).map(one).collect();
    let count = "SELECT sum(batches) FROM shard_fdw_stats()";
    let before: i64 = site.client.value(count).parse().unwrap();
    site.ok(&format!("BEGIN; {}; COMMIT", all.join("; ")));
    let after: i64 = site.client.value(count).parse().unwrap();
    assert!(after - before <= 20, "{before}, {after}");
    assert_eq!(site.stored("SELECT count(*) FROM c"), "258");
}

#[test]
fn what_is_undone_with_a_savepoint_takes_the_order_with_it() {
    let mut site = Site::start();
    site.remote("CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int, p int)");
    site.ok(
        "CREATE FOREIGN TABLE p (id int) SERVER s OPTIONS (schema_name 'public');
        CREATE FOREIGN TABLE c (id int, p int) SERVER s OPTIONS (schema_name 'public');
        SET shard_fdw.flush_policy = transaction",
    );
    // The shard is asked about both inside the savepoint, and both are free again after it.
    site.ok("BEGIN; SAVEPOINT a; INSERT INTO c VALUES (1, NULL); INSERT INTO p VALUES (1); ROLLBACK TO a");
    site.remote("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p");
    site.ok("INSERT INTO c VALUES (1, NULL); INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1); COMMIT");
    assert_eq!(site.stored("SELECT id, p FROM c ORDER BY p"), "1|1 1|");
}

#[test]
fn keys_that_a_shard_begins_to_change_are_noticed() {
    let mut site = Site::start();
    site.remote(
        "CREATE TABLE x (id text PRIMARY KEY, v int);
         CREATE FUNCTION fold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := lower(NEW.id); RETURN NEW; END $$",
    );
    site.ok(
        "CREATE FOREIGN TABLE x (id text OPTIONS (key 'true'), v int) SERVER s
            OPTIONS (schema_name 'public', on_conflict 'update')",
    );
    site.ok("INSERT INTO x VALUES ('a', 1), ('b', 2)");
    site.remote("CREATE TRIGGER fold BEFORE INSERT ON x FOR EACH ROW EXECUTE FUNCTION fold()");
    let insert = "INSERT INTO x VALUES ('c', 3), ('C', 4)";
    assert_eq!(site.client.run(insert).expect_error().sqlstate(), "21000");
    assert_eq!(site.ok(insert).tag(), "INSERT 0 2");
    assert_eq!(site.stored("SELECT id, v FROM x WHERE id > 'b'"), "c|4");

    // A key column that the snapshot does not show is no reason to send single rows for ever.
    site.remote("DROP TABLE x; CREATE TABLE other (id int)");
    site.ok("CREATE FOREIGN TABLE other (id int) SERVER s OPTIONS (schema_name 'public')");
    site.ok("SELECT shard_fdw_disconnect_all()");
    site.ok("BEGIN; SELECT * FROM other");
    site.remote("CREATE TABLE x (id text PRIMARY KEY, v int)");
    site.ok("INSERT INTO x VALUES ('a', 1), ('b', 2), ('a', 3); COMMIT");
    assert_eq!(site.stored("SELECT id, v FROM x ORDER BY id"), "a|3 b|2");
    let explain = "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) INSERT INTO x VALUES ('c', 3), ('d', 4)";
    let lines = site.ok(explain).lines().join("\n");
    assert!(!lines.contains("Batching"), "{lines}");
}

const USER_MAPPING: &str = "CREATE USER MAPPING FOR postgres SERVER s OPTIONS (user 'postgres'";

/// What somebody else does, and whether the next transaction can go on.
const MAPPING_CHANGES: [(&str, &[&str], bool); 5] = [
    (
        "dropped",
        &["DROP USER MAPPING FOR postgres SERVER s"],
        false,
    ),
    (
        "made anew",
        &[
            "DROP USER MAPPING FOR postgres SERVER s",
            "CREATE USER MAPPING FOR postgres SERVER s OPTIONS (user 'postgres')",
        ],
        true,
    ),
    (
        "another user",
        &[
            "DROP USER MAPPING FOR postgres SERVER s",
            "CREATE USER MAPPING FOR postgres SERVER s OPTIONS (user 'another')",
        ],
        true,
    ),
    (
        "altered",
        &["ALTER USER MAPPING FOR postgres SERVER s OPTIONS (SET user 'another')"],
        true,
    ),
    (
        "that of PUBLIC",
        &[
            "DROP USER MAPPING FOR postgres SERVER s",
            "CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (user 'another')",
        ],
        true,
    ),
];

#[test]
fn a_transaction_keeps_its_session_whatever_becomes_of_the_user_mapping() {
    let mut site = Site::start();
    site.remote("CREATE ROLE another LOGIN; CREATE TABLE x (id int PRIMARY KEY, v int); GRANT ALL ON x TO another");
    site.ok("CREATE FOREIGN TABLE x (id int, v int) SERVER s OPTIONS (schema_name 'public')");
    let mut other = site.coordinator.simple();
    for (what, changes, goes_on) in MAPPING_CHANGES {
        site.remote("TRUNCATE x");
        site.ok("BEGIN; DECLARE c CURSOR FOR SELECT * FROM x; INSERT INTO x VALUES (1, 1), (2, 2), (3, 3)");
        site.ok("SAVEPOINT a; UPDATE x SET v = 0; DECLARE d CURSOR FOR SELECT * FROM x ORDER BY id; FETCH d");
        for change in changes {
            other.run(change).expect_ok();
        }
        assert_eq!(
            site.ok("SELECT * FROM x ORDER BY id").lines(),
            ["1|0", "2|0", "3|0"],
            "{what}"
        );
        assert_eq!(site.ok("FETCH ALL d").lines(), ["2|0", "3|0"], "{what}");
        assert_eq!(
            site.ok("ROLLBACK TO a; SELECT sum(v) FROM x").value(),
            "6",
            "{what}"
        );
        assert_eq!(
            site.ok("UPDATE x SET v = 2 WHERE id = 1").tag(),
            "UPDATE 1",
            "{what}"
        );
        assert_eq!(
            site.ok("INSERT INTO x VALUES (4, 4) RETURNING v").value(),
            "4",
            "{what}"
        );
        assert_eq!(
            site.ok("DELETE FROM x WHERE id = 2 AND random() < 2").tag(),
            "DELETE 1",
            "{what}"
        );
        assert!(site.ok("FETCH ALL c").lines().is_empty(), "{what}");
        assert_eq!(
            site.client
                .value("SELECT count(*) FROM shard_fdw_connections() WHERE used_in_xact"),
            "1",
            "{what}"
        );
        site.ok("COMMIT");
        assert_eq!(
            site.stored("SELECT id, v FROM x ORDER BY id"),
            "1|2 3|3 4|4",
            "{what}"
        );
        // The next one uses what is there now.
        let reply = site.client.run("SELECT count(*) FROM x");
        match goes_on {
            true => assert_eq!(reply.expect_ok().value(), "3", "{what}"),
            false => assert_eq!(reply.expect_error().sqlstate(), "42704", "{what}"),
        }
        other
            .run("DROP USER MAPPING IF EXISTS FOR postgres SERVER s; DROP USER MAPPING IF EXISTS FOR PUBLIC SERVER s")
            .expect_ok();
        other.run(&format!("{USER_MAPPING})")).expect_ok();
    }
}

#[test]
fn a_mapping_of_its_own_counts_from_the_next_transaction() {
    let mut site = Site::start();
    site.remote("CREATE ROLE another LOGIN; CREATE TABLE x (who text DEFAULT current_user, id int); GRANT ALL ON x TO another");
    site.ok("DROP USER MAPPING FOR postgres SERVER s;
        CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (user 'another');
        CREATE FOREIGN TABLE x (who text OPTIONS (remote_default 'true'), id int) SERVER s OPTIONS (schema_name 'public')");
    site.ok("BEGIN; INSERT INTO x (id) VALUES (1)");
    let mut other = site.coordinator.simple();
    other.run(&format!("{USER_MAPPING})")).expect_ok();
    assert_eq!(site.ok("SELECT count(*) FROM x").value(), "1");
    site.ok("INSERT INTO x (id) VALUES (2); COMMIT; INSERT INTO x (id) VALUES (3)");
    other
        .run("DROP USER MAPPING FOR postgres SERVER s")
        .expect_ok();
    site.ok("INSERT INTO x (id) VALUES (4)");
    assert_eq!(
        site.stored("SELECT who FROM x ORDER BY id"),
        "another another postgres another"
    );
}

#[test]
fn a_server_made_anew_in_a_transaction_is_refused_in_it() {
    let mut site = Site::start();
    let port = site.shard.port();
    site.remote("CREATE TABLE x (id int)");
    let table = "CREATE FOREIGN TABLE x (id int) SERVER s OPTIONS (schema_name 'public')";
    let server = create_server("s", port, "");
    site.ok(table);
    site.ok(&format!(
        "BEGIN; INSERT INTO x VALUES (1), (2); DROP SERVER s CASCADE; {server}; {table}; SAVEPOINT a"
    ));
    for sql in [
        "SELECT * FROM x",
        "UPDATE x SET id = 1",
        "INSERT INTO x VALUES (3)",
    ] {
        let error = site.client.run(sql).expect_error();
        assert_eq!(error.sqlstate(), "55000", "{sql}");
        site.ok("ROLLBACK TO a");
    }
    site.ok("COMMIT");
    assert_eq!(site.ok("SELECT count(*) FROM x").value(), "2");
    // A server under the old name of another is just another one.
    site.ok(&format!(
        "BEGIN; INSERT INTO x VALUES (3); ALTER SERVER s RENAME TO old; {server};
         CREATE FOREIGN TABLE y (id int) SERVER s OPTIONS (schema_name 'public', table_name 'x')"
    ));
    assert_eq!(site.ok("SELECT count(*) FROM y").value(), "2");
    assert_eq!(site.ok("SELECT count(*) FROM x").value(), "3");
    site.ok("COMMIT");
}
