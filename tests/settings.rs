//! Shards whose sessions have other settings than the ones values are read and written by: from the start, or because a
//! function there has changed them.

mod common;

use common::*;

/// A coordinator with foreign tables of a shard, each beside a local table of the same rows.
struct Scene {
    client: Simple,
    shard: Cluster,
    _coordinator: Cluster,
}

const COLUMNS: &str =
    "id int, day date, at timestamptz, span interval, f float8, raw bytea, list text[]";
const ROWS: &str = "SELECT g, date '2024-06-05' + g, timestamptz '2024-06-05 10:00+00' + g * interval '1 day', g * interval '-1 day 2 hours',
    g + 0.1::float8 + 0.2::float8, '\\x00ff5c'::bytea, ARRAY['NULL', NULL, g::text] FROM generate_series";

impl Scene {
    fn new(role: &str, options: &str) -> Scene {
        Scene::on(Setup::new(), role, options)
    }

    /// `role`: statements on the shard before anybody connects.
    fn on(setup: Setup, role: &str, options: &str) -> Scene {
        let coordinator = setup.clone().start();
        let shard = setup.start();
        shard.sql(&format!(
            "CREATE TABLE visit ({COLUMNS}); CREATE TABLE login (id int);
             CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 PERFORM set_config(split_part(s, '=', 1), split_part(s, '=', 2), false)
                     FROM unnest(string_to_array(current_setting('test.change', true), ';')) AS s;
                 RETURN new; END $$;
             CREATE TRIGGER change BEFORE INSERT ON login FOR EACH ROW EXECUTE FUNCTION change();
             {role}"
        ));
        let mut client = coordinator.simple();
        client
            .run(&format!(
                "CREATE EXTENSION shard_fdw; {}
                 CREATE FOREIGN TABLE visit ({COLUMNS}) SERVER s OPTIONS (schema_name 'public');
                 CREATE FOREIGN TABLE login (id int) SERVER s OPTIONS (schema_name 'public');
                 CREATE TABLE here ({COLUMNS});
                 INSERT INTO here {ROWS}(1, 10) g; INSERT INTO visit {ROWS}(1, 10) g",
                create_server("s", shard.port(), options)
            ))
            .expect_ok();
        Scene {
            client,
            shard,
            _coordinator: coordinator,
        }
    }

    /// From now on the trigger of `login` makes these settings for its session, as `name=value;name=value`.
    fn change(&mut self, settings: &str) {
        self.shard.sql(&format!(
            "ALTER DATABASE postgres SET test.change = '{settings}'"
        ));
        // The next session has it.
        self.client
            .run("SELECT shard_fdw_disconnect_all()")
            .expect_ok();
    }

    /// The rows of the foreign table are those of the local one.
    #[track_caller]
    fn check(&mut self) {
        let rows = |table| format!("SELECT * FROM {table} ORDER BY id");
        let here = self.client.run(&rows("here")).lines();
        assert_eq!(self.client.run(&rows("visit")).lines(), here);
        assert!(!here.is_empty());
    }

    /// What the shard has is what the local table has.
    #[track_caller]
    fn check_stored(&mut self) {
        let rows = |table| {
            format!("SET timezone = 'UTC'; SET extra_float_digits = 1; SET bytea_output = hex; SELECT * FROM public.{table} ORDER BY id")
        };
        let here = self.client.run(&rows("here")).lines();
        assert_eq!(self.shard.simple().run(&rows("visit")).lines(), here);
    }

    /// Runs a statement on the foreign and on the local table; both must have the same outcome.
    #[track_caller]
    fn both(&mut self, sql: &str) {
        let foreign = self.client.run(&sql.replace("TABLE", "visit"));
        let local = self.client.run(&sql.replace("TABLE", "here"));
        assert_eq!(foreign.tag(), local.tag(), "{sql}");
        assert_eq!(foreign.lines(), local.lines(), "{sql}");
    }
}

/// Changes of settings that are reported.
const REPORTED: [&str; 4] = [
    "datestyle=SQL, DMY",
    "datestyle=Postgres, MDY",
    "intervalstyle=sql_standard;datestyle=German",
    "timezone=Asia/Kolkata;standard_conforming_strings=off",
];

#[test]
fn a_trigger_changes_settings_of_its_session() {
    let mut scene = Scene::new("", "");
    for settings in REPORTED {
        scene.change(settings);
        for _ in 0..2 {
            assert_eq!(
                scene.client.run("INSERT INTO login VALUES (1)").tag(),
                "INSERT 0 1"
            );
            scene.check();
        }
        scene.both("INSERT INTO TABLE SELECT id + 100, day, at, span, f, raw, list FROM TABLE");
        scene.client.run("INSERT INTO login VALUES (1)").expect_ok();
        scene.both("UPDATE TABLE SET id = id + 1000, day = day + 1 WHERE random() < 2");
        scene
            .client
            .run("BEGIN; INSERT INTO login VALUES (1); SAVEPOINT a; INSERT INTO login VALUES (1)")
            .expect_ok();
        scene.check();
        scene.both("UPDATE TABLE SET span = -span WHERE random() < 2");
        scene
            .client
            .run("ROLLBACK TO a; INSERT INTO login VALUES (1)")
            .expect_ok();
        scene.client.run("ROLLBACK TO a").expect_ok();
        scene
            .client
            .run("DELETE FROM here; DELETE FROM visit; ROLLBACK")
            .expect_ok();
        scene.check();
        scene
            .client
            .run("BEGIN; INSERT INTO login VALUES (1); COMMIT")
            .expect_ok();
        scene.check();
        scene
            .client
            .run("BEGIN; INSERT INTO login VALUES (1); ROLLBACK")
            .expect_ok();
        scene.check();
        scene.check_stored();
        scene.both("DELETE FROM TABLE WHERE id % 1000 > 10");
        scene
            .client
            .run("UPDATE here SET id = id % 1000; UPDATE visit SET id = id % 1000")
            .expect_ok();
    }
}

/// An error (55000) that names server and setting, or the rows of the local table.
#[track_caller]
fn is_refused(reply: Reply, setting: &str, here: &[String]) -> bool {
    if let Some(error) = reply.error.clone() {
        assert_eq!(error.sqlstate(), "55000");
        let message = error.message();
        assert!(
            message.contains("server \"s\"") && message.contains(setting),
            "{message}"
        );
        return true;
    }
    assert_eq!(reply.lines(), here);
    false
}

#[test]
fn rows_that_a_function_has_given_another_form_are_refused() {
    let mut scene = Scene::new("", "fetch_size '2'");
    scene.shard.sql(
        "CREATE FUNCTION german(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
             PERFORM set_config('datestyle', 'German', false) WHERE $1 = 5; RETURN $1; END $$;
         CREATE VIEW odd AS SELECT german(id) AS id, day FROM visit",
    );
    let foreign =
        "CREATE FOREIGN TABLE odd (id int, day date) SERVER s OPTIONS (schema_name 'public')";
    scene.client.run(foreign).expect_ok();
    for _ in 0..2 {
        let reply = scene.client.run("SELECT * FROM odd");
        assert!(is_refused(reply, "DateStyle", &[]));
        // What came before the change may be used.
        let first = scene.client.run("SELECT * FROM odd LIMIT 2").lines();
        assert_eq!(first, ["1|2024-06-06", "2|2024-06-07"]);
        scene.check();
    }
    // The error belongs to its own statement.
    scene.client.run("BEGIN; SAVEPOINT a").expect_ok();
    let reply = scene.client.run("SELECT count(day) FROM odd");
    assert!(is_refused(reply, "DateStyle", &[]));
    scene.client.run("ROLLBACK TO a").expect_ok();
    scene.check();
    scene.client.run("COMMIT").expect_ok();
    let block = "DO $$ BEGIN PERFORM day FROM odd; EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL; END $$";
    scene.client.run(block).expect_ok();
    scene.check();
    // RETURNING comes after what a trigger of its own statement has done.
    scene.shard.sql(
        "CREATE TABLE own (id int, day date);
         CREATE TRIGGER change BEFORE INSERT ON own FOR EACH ROW EXECUTE FUNCTION change()",
    );
    scene.change("datestyle=SQL, DMY");
    let foreign =
        "CREATE FOREIGN TABLE own (id int, day date) SERVER s OPTIONS (schema_name 'public')";
    scene.client.run(foreign).expect_ok();
    let reply = scene
        .client
        .run("INSERT INTO own VALUES (1, '2024-06-05') RETURNING day");
    assert!(is_refused(reply, "DateStyle", &[]));
    assert_eq!(
        scene
            .client
            .run("INSERT INTO own VALUES (2, '2024-06-05')")
            .tag(),
        "INSERT 0 1"
    );
    let rows = scene.client.run("SELECT id, day FROM own").lines();
    assert_eq!(rows, ["2|2024-06-05"]);
}

#[test]
fn a_search_path_that_a_function_leaves_behind_matters_only_to_names() {
    let mut scene = Scene::new("", "");
    scene.shard.sql(
        "CREATE SCHEMA other; CREATE TABLE other.things (id int);
         CREATE FUNCTION wander(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
             PERFORM set_config('search_path', 'other', false); RETURN $1; END $$;
         CREATE VIEW odd AS SELECT public.wander(id) AS id, day FROM visit;
         CREATE VIEW named AS SELECT public.wander(id) AS id, 'other.things'::regclass AS at, ARRAY['other.things'::regclass] AS list
             FROM visit WHERE id = 1",
    );
    scene
        .client
        .run(
            "CREATE FOREIGN TABLE odd (id int, day date) SERVER s OPTIONS (schema_name 'public');
             CREATE FOREIGN TABLE named (id int, at text, list text[]) SERVER s OPTIONS (schema_name 'public');
             CREATE SCHEMA other; CREATE TABLE other.things (id int); CREATE TABLE things (id int)",
        )
        .expect_ok();
    for _ in 0..3 {
        let here = scene
            .client
            .run("SELECT id, day FROM here ORDER BY id")
            .lines();
        let there = scene
            .client
            .run("SELECT id, day FROM odd ORDER BY id")
            .lines();
        assert_eq!(there, here);
        scene.check();
        for column in ["at", "list"] {
            let reply = scene.client.run(&format!("SELECT id, {column} FROM named"));
            // Before PostgreSQL 18 nobody reports it, and the name comes without its schema.
            if major() >= 18 {
                assert!(is_refused(reply, "search_path", &[]));
            }
        }
        scene.check();
    }
}

#[test]
fn rows_fetched_ahead_of_changes_that_change_settings() {
    let mut scene = Scene::new("", "fetch_size '2', batch_size '2'");
    scene
        .shard
        .sql("CREATE TRIGGER change BEFORE UPDATE ON visit FOR EACH ROW EXECUTE FUNCTION change()");
    for (settings, name) in [
        ("datestyle=SQL, DMY", "DateStyle"),
        ("intervalstyle=iso_8601", "IntervalStyle"),
    ] {
        scene.change(settings);
        // Rows that were asked for before it was known are refused. From then on the settings are made before all others.
        let update = "UPDATE visit SET day = day + 1, span = span * 2 WHERE random() < 2";
        let reply = scene.client.run(update);
        let refused = match reply.error.clone() {
            Some(error) => {
                assert_eq!(error.sqlstate(), "55000");
                assert!(error.message().contains(name), "{}", error.message());
                true
            }
            None => false,
        };
        if refused {
            scene.check();
            assert_eq!(scene.client.run(update).tag(), "UPDATE 10");
        }
        scene
            .client
            .run("UPDATE here SET day = day + 1, span = span * 2")
            .expect_ok();
        scene.check();
        scene.check_stored();
    }
}

#[test]
fn rows_that_share_a_message_with_a_change() {
    let mut scene = Scene::new("", "flush_policy 'transaction'");
    scene.change("datestyle=SQL, DMY");
    let here = scene
        .client
        .run("SELECT id, day FROM here ORDER BY id")
        .lines();
    let mut refusals = 0;
    for _ in 0..3 {
        scene
            .client
            .run("BEGIN; INSERT INTO login VALUES (1)")
            .expect_ok();
        let reply = scene.client.run("SELECT id, day FROM visit ORDER BY id");
        refusals += usize::from(is_refused(reply, "DateStyle", &here));
        scene.client.run("ROLLBACK").expect_ok();
    }
    assert!(refusals <= 1);
    scene.check();
}

#[test]
fn another_client_encoding_is_an_error() {
    let mut scene = Scene::new("", "");
    scene.change("client_encoding=LATIN1");
    for _ in 0..2 {
        let error = scene
            .client
            .run("INSERT INTO login VALUES (1)")
            .expect_error();
        assert_eq!(error.sqlstate(), "55000");
        assert!(
            error.message().contains("client_encoding"),
            "{}",
            error.message()
        );
        scene.check();
    }
    assert_eq!(scene.shard.value("SELECT count(*) FROM login"), "0");
    // When the transaction commits it is too late for an error, but not for what comes then.
    scene.shard.sql(
        "DROP TRIGGER change ON login;
         CREATE CONSTRAINT TRIGGER change AFTER INSERT ON login INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION change()",
    );
    for _ in 0..2 {
        assert_eq!(
            scene.client.run("INSERT INTO login VALUES (1)").tag(),
            "INSERT 0 1"
        );
        scene.both("INSERT INTO TABLE (id, list) VALUES (77, ARRAY['Zürich'])");
        scene.check();
    }
}

#[test]
fn settings_that_nobody_reports_are_made_in_each_transaction() {
    let odd = [
        "extra_float_digits=-3;bytea_output=escape",
        "array_nulls=off;xmloption=document",
        "search_path=elsewhere;extra_float_digits=0;bytea_output=escape",
    ];
    let role: String = odd
        .iter()
        .flat_map(|settings| settings.split(';'))
        .map(|setting| format!("ALTER ROLE postgres SET {};", setting.replace('=', " = ")))
        .collect();
    let mut scene = Scene::new(&role, "");
    scene.check();
    scene.check_stored();
    for settings in odd {
        scene.change(settings);
        for end in ["COMMIT", "ROLLBACK"] {
            scene
                .client
                .run(&format!("BEGIN; INSERT INTO login VALUES (1); {end}"))
                .expect_ok();
            scene.check();
            scene
                .client
                .run(&format!("BEGIN; INSERT INTO login VALUES (1); {end}"))
                .expect_ok();
            scene.both("INSERT INTO TABLE SELECT id + 100, day, at, span, f * 1.1, raw, list FROM TABLE WHERE id < 100");
            scene
                .client
                .run(&format!("BEGIN; INSERT INTO login VALUES (1); {end}"))
                .expect_ok();
            scene.both(
                "UPDATE TABLE SET f = f / 3, list = list || ARRAY[NULL, 'NULL'] WHERE random() < 2",
            );
            scene.check();
            scene.check_stored();
            scene.both("DELETE FROM TABLE WHERE id > 100");
        }
    }
}

#[test]
fn xml_is_read_and_written_as_content() {
    let mut scene = Scene::new(
        "ALTER ROLE postgres SET xmloption = document; CREATE TABLE pages (id int, body xml)",
        "",
    );
    if scene
        .shard
        .simple()
        .run("SELECT '<a/>'::xml")
        .error
        .is_some()
    {
        return skip("a server without libxml");
    }
    scene
        .client
        .run(
            "CREATE FOREIGN TABLE pages (id int, body xml) SERVER s OPTIONS (schema_name 'public')",
        )
        .expect_ok();
    scene.change("xmloption=document");
    for id in 1..3 {
        scene.client.run("INSERT INTO login VALUES (1)").expect_ok();
        let insert = format!("INSERT INTO pages VALUES ({id}, 'text <b>and</b> more')");
        assert_eq!(scene.client.run(&insert).tag(), "INSERT 0 1");
    }
    let rows = scene
        .client
        .run("SET xmloption = document; SELECT body FROM pages")
        .lines();
    assert_eq!(rows, ["text <b>and</b> more"; 2]);
}

#[test]
fn money_keeps_its_value_whatever_the_local_and_the_remote_locale() {
    let Some(setup) = Setup::new().with_locales(&["de_DE", "en_IE", "ja_JP"]) else {
        return skip("locales cannot be made: run tests/setup.sh");
    };
    let role = "ALTER ROLE postgres SET lc_monetary = 'en_IE.UTF-8'; CREATE DOMAIN amount AS money CHECK (VALUE > '-1'::money); CREATE TYPE bill AS (label text, total money, part amount);
        CREATE TABLE price (id int, p money, list money[], due amount, lines bill[])";
    let mut scene = Scene::on(setup, role, "batch_size '2'");
    let columns = "(id int, p money, list money[], due amount, lines bill[])";
    scene
        .client
        .run(&format!(
            "CREATE DOMAIN amount AS money CHECK (VALUE > '-1'::money); CREATE TYPE bill AS (label text, total money, part amount);
             CREATE FOREIGN TABLE price {columns} SERVER s OPTIONS (schema_name 'public'); CREATE TABLE prices {columns}"
        ))
        .expect_ok();
    scene.change("lc_monetary=de_DE.UTF-8");
    for local in ["de_DE.UTF-8", "C", "en_IE.UTF-8"] {
        scene
            .client
            .run(&format!("SET lc_monetary = '{local}'"))
            .expect_ok();
        for table in ["price", "prices"] {
            let insert = format!(
                "INSERT INTO {table} SELECT g, (g * 1234.56)::numeric::money, ARRAY[g::money, NULL, (-0.05)::numeric::money],
                     (g * 0.5)::numeric::money, ARRAY[('a', (g * 1000.5)::numeric::money, (g * 2.5)::numeric::money)::bill]
                     FROM generate_series(1, 5) g"
            );
            assert_eq!(scene.client.run(&insert).tag(), "INSERT 0 5");
            for change in [
                "UPDATE TABLE SET p = p * 2 WHERE random() < 2",
                "UPDATE TABLE SET p = (7.25)::numeric::money WHERE id = 1",
                "UPDATE TABLE SET p = p + '1'::money WHERE p > '2000'::money",
                "UPDATE TABLE SET list = ARRAY[p] WHERE p > (5000.1)::numeric::money",
                "DELETE FROM TABLE WHERE p = (7.25)::numeric::money AND id = 2",
            ] {
                scene
                    .client
                    .run(&change.replace("TABLE", table))
                    .expect_ok();
            }
        }
        scene.client.run("INSERT INTO login VALUES (1)").expect_ok();
        let rows =
            |table| format!("SELECT id, p::numeric, list, due, lines FROM {table} ORDER BY id");
        let here = scene.client.run(&rows("prices")).lines();
        assert_eq!(scene.client.run(&rows("price")).lines(), here, "{local}");
        let stored = format!("SET lc_monetary = '{local}'; {}", rows("price"));
        assert_eq!(scene.shard.simple().run(&stored).lines(), here, "{local}");
        scene
            .client
            .run("DELETE FROM price; DELETE FROM prices")
            .expect_ok();
    }
    // Yen have no fraction: what is counted stays the same number.
    scene
        .client
        .run("SET lc_monetary = 'ja_JP.UTF-8'; INSERT INTO price VALUES (1, 1234::money)")
        .expect_ok();
    assert_eq!(scene.client.value("SELECT p::numeric FROM price"), "1234");
    let stored = "SET lc_monetary = 'ja_JP.UTF-8'; SELECT p::numeric FROM price";
    assert_eq!(scene.shard.simple().run(stored).value(), "1234");
}
