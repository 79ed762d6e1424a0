//! Shards whose database has another locale than the local one, and no column says a collation.

mod common;

use common::*;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const COLUMNS: &str = "id int, name text, code char(8), doc jsonb";
const ROWS: &str = "(1, 'Évry', 'Éa', '{\"a\": \"Évry\"}'), (2, 'évry', 'éa', '{\"a\": \"évry\"}'), (3, 'Köln', 'b', '{\"a\": \"Z\"}'),
    (4, 'Bonn', 'B', '{\"a\": \"b\"}'), (5, 'ćma', 'c', NULL), (6, 'Zürich', 'z', '{\"a\": \"ß\"}'), (7, 'älg', 'ä', '{}')";

/// Conditions whose outcome depends on the locale.
const DEPENDENT: [&str; 18] = [
    "lower(name) = 'évry'",
    "upper(name) = 'KÖLN'",
    "initcap(name) = 'Évry'",
    "name ILIKE 'É%'",
    "name NOT ILIKE '%Ä%'",
    "name ~ '^\\w+$'",
    "name ~* '^É'",
    "name !~ '[[:upper:]]'",
    "name SIMILAR TO '[[:alpha:]]+'",
    "regexp_replace(name, '\\W', '') = name",
    "substring(name FROM '\\w+') = name",
    "name < 'a'",
    "name BETWEEN 'b' AND 'é'",
    "code >= 'b'",
    "code ILIKE 'É%'",
    "doc @? '$.a ? (@ like_regex \"^É\" flag \"i\")'",
    "doc > '{\"a\": \"Z\"}'",
    "to_tsvector('simple'::regconfig, name) @@ '''évry'''::tsquery",
];

/// Conditions whose outcome does not.
const INDIFFERENT: [&str; 6] = [
    "name = 'Évry'",
    "name <> 'évry' AND name LIKE 'É%'",
    "name IN ('Bonn', 'Köln')",
    "substr(name, 2, 2) = 'ol' OR length(name) = 4",
    "doc @> '{\"a\": \"Z\"}'",
    "id < 4",
];

struct Scene {
    client: Simple,
    coordinator: Cluster,
    shard: Cluster,
}

impl Scene {
    fn new(local: Setup, remote: Setup) -> Scene {
        let shard = remote.start();
        shard.sql(&format!(
            "CREATE TABLE town ({COLUMNS}); INSERT INTO town VALUES {ROWS}"
        ));
        let coordinator = local.start();
        let mut client = coordinator.simple();
        client
            .run(&format!(
                "CREATE EXTENSION shard_fdw; {}
                 CREATE FOREIGN TABLE town ({COLUMNS}) SERVER s OPTIONS (schema_name 'public');
                 CREATE TABLE here ({COLUMNS}); INSERT INTO here VALUES {ROWS}",
                create_server("s", shard.port(), "")
            ))
            .expect_ok();
        Scene {
            client,
            coordinator,
            shard,
        }
    }

    #[track_caller]
    fn both(&mut self, sql: &str) {
        let foreign = self.client.run(&sql.replace("TABLE", "town"));
        let local = self.client.run(&sql.replace("TABLE", "here"));
        assert_eq!(foreign.tag(), local.tag(), "{sql}");
        assert_eq!(foreign.lines(), local.lines(), "{sql}");
    }

    fn explain(&mut self, sql: &str) -> String {
        let explain = format!("EXPLAIN (VERBOSE, COSTS OFF) {sql}");
        self.client.run(&explain).lines().join("\n")
    }

    #[track_caller]
    fn check_outcomes(&mut self) {
        for condition in DEPENDENT.iter().chain(&INDIFFERENT) {
            self.both(&format!(
                "SELECT id FROM TABLE WHERE {condition} ORDER BY id"
            ));
            self.both(&format!(
                "BEGIN; UPDATE TABLE SET code = 'x' WHERE {condition}"
            ));
            self.both("SELECT id, code FROM TABLE ORDER BY id");
            self.client.run("ROLLBACK; BEGIN").expect_ok();
            self.both(&format!("DELETE FROM TABLE WHERE {condition}"));
            self.client.run("ROLLBACK").expect_ok();
        }
        for value in [
            "upper(name)",
            "initcap(name)",
            "regexp_replace(name, '\\w', 'x', 'g')",
            "name || code",
        ] {
            self.both(&format!(
                "UPDATE TABLE SET name = {value} WHERE id IN (1, 2, 3, 7)"
            ));
        }
        self.both("SELECT * FROM TABLE ORDER BY id");
    }

    /// Is nothing sent that depends on the locale, and all else? EXPLAIN says why.
    #[track_caller]
    fn check_kept(&mut self, reason: &str) {
        for condition in DEPENDENT {
            let plan = self.explain(&format!("SELECT id FROM town WHERE {condition}"));
            assert!(plan.contains("Filter:"), "{plan}");
            assert!(
                plan.contains(&format!(
                    "Not Shipped: what depends on the locale, {reason}"
                )),
                "{plan}"
            );
            let plan = self.explain(&format!("DELETE FROM town WHERE {condition}"));
            assert!(!plan.contains("Foreign Delete"), "{plan}");
        }
        let plan = self.explain("UPDATE town SET name = upper(name) WHERE id = 1");
        assert!(
            !plan.contains("Foreign Update") && plan.contains("Not Shipped"),
            "{plan}"
        );
        self.check_indifferent();
    }

    #[track_caller]
    fn check_indifferent(&mut self) {
        for condition in INDIFFERENT {
            let plan = self.explain(&format!("SELECT id FROM town WHERE {condition}"));
            assert!(
                !plan.contains("Filter:") && !plan.contains("Not Shipped"),
                "{plan}"
            );
        }
    }

    #[track_caller]
    fn check_sent(&mut self) {
        for condition in DEPENDENT {
            let plan = self.explain(&format!("SELECT id FROM town WHERE {condition}"));
            assert!(
                !plan.contains("Filter:") && !plan.contains("Not Shipped"),
                "{plan}"
            );
        }
        let plan = self.explain("UPDATE town SET name = upper(name) WHERE id = 1");
        assert!(plan.contains("Foreign Update"), "{plan}");
        self.check_indifferent();
    }

    fn remote_sessions(&self) -> String {
        self.shard
            .value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shard_fdw'")
    }
}

fn utf8() -> Setup {
    Setup::new().initdb("--locale=C.UTF-8")
}

const OTHER: &str = "which is another one on the server";
const UNKNOWN: &str = "which is not known of the server";

#[test]
fn another_locale_gives_the_outcome_of_local_tables() {
    for (local, remote) in [(utf8(), Setup::new()), (Setup::new(), utf8())] {
        let mut scene = Scene::new(local, remote);
        scene.check_kept(OTHER);
        scene.check_outcomes();
    }
}

#[test]
fn the_same_locale_is_asked_for_once_and_only_where_it_matters() {
    let mut scene = Scene::new(utf8(), utf8());
    scene.check_indifferent();
    assert_eq!(scene.remote_sessions(), "0");
    scene.check_sent();
    assert_eq!(scene.remote_sessions(), "1");
    scene.check_outcomes();
    assert_eq!(scene.remote_sessions(), "1");
}

#[test]
fn a_locale_of_the_c_library() {
    let of_library = |locale: &str| {
        let setup = Setup::new().with_locales(&["en_US", "de_DE"])?;
        Some(setup.initdb(&format!("--locale={locale}")))
    };
    let (Some(english), Some(spelled), Some(german)) = (
        of_library("en_US.UTF-8"),
        of_library("en_US.utf8"),
        of_library("de_DE.UTF-8"),
    ) else {
        return skip("locales cannot be made: run tests/setup.sh");
    };
    let mut scene = Scene::new(english.clone(), spelled);
    scene.check_sent();
    scene.check_outcomes();
    let mut scene = Scene::new(english, german);
    scene.check_kept(OTHER);
    scene.check_outcomes();
}

#[test]
fn locales_of_other_providers() {
    let scene = Scene::new(Setup::new(), Setup::new());
    let icu = "CREATE DATABASE icu TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C'";
    let own = "CREATE DATABASE own TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'";
    let mut databases = Vec::new();
    for (name, create) in [("icu", icu), ("own", own)] {
        match scene.coordinator.simple().run(create).error {
            None => databases.push(name),
            Some(error) => skip(&format!("no database {name}: {}", error.message())),
        }
    }
    databases.push("postgres");
    let table =
        |name: &str| format!("CREATE TABLE {name} ({COLUMNS}); INSERT INTO {name} VALUES {ROWS}");
    for name in &databases {
        let mut database = scene.coordinator.simple_as(name, "postgres");
        database
            .run("CREATE EXTENSION IF NOT EXISTS shard_fdw; DROP TABLE IF EXISTS here")
            .expect_ok();
        database.run(&table("here")).expect_ok();
        database.run(&table("stored")).expect_ok();
    }
    for local in &databases {
        for remote in &databases {
            let mut client = scene.coordinator.simple_as(local, "postgres");
            let server = create_server("t", scene.coordinator.port(), "");
            let server = server.replace("dbname 'postgres'", &format!("dbname '{remote}'"));
            client
                .run(&format!(
                    "{server} DROP FOREIGN TABLE IF EXISTS town;
                     CREATE FOREIGN TABLE town ({COLUMNS}) SERVER t OPTIONS (schema_name 'public', table_name 'stored')"
                ))
                .expect_ok();
            for condition in DEPENDENT {
                let rows = |name| format!("SELECT id FROM {name} WHERE {condition} ORDER BY id");
                let here = client.run(&rows("here")).lines();
                assert_eq!(
                    client.run(&rows("town")).lines(),
                    here,
                    "{local} {remote} {condition}"
                );
            }
            let plan = "EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM town WHERE lower(name) = 'x'";
            let plan = client.run(plan).lines().join("\n");
            assert_eq!(
                !plan.contains("Not Shipped"),
                local == remote,
                "{local} {remote} {plan}"
            );
            client.run("DROP SERVER t CASCADE").expect_ok();
        }
    }
}

#[test]
fn a_shard_that_cannot_be_reached_is_planned_for() {
    let mut scene = Scene::new(utf8(), utf8());
    scene.shard.stop();
    scene.check_kept(UNKNOWN);
    let lower = "SELECT id FROM town WHERE lower(name) = 'évry'";
    assert_eq!(scene.client.run(lower).expect_error().sqlstate(), "08001");
    scene
        .client
        .run("DROP USER MAPPING FOR CURRENT_USER SERVER s")
        .expect_ok();
    scene.check_kept(UNKNOWN);
    let mapping = "CREATE USER MAPPING FOR CURRENT_USER SERVER s OPTIONS (user 'postgres')";
    scene.client.run(mapping).expect_ok();
    scene.shard.start_again();
    scene.check_sent();
}

/// How often does somebody try to connect while this runs?
fn attempts(listener: &TcpListener, run: impl FnOnce()) -> usize {
    listener
        .set_nonblocking(true)
        .expect("a socket that does not block");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let counter = scope.spawn(|| {
            let mut count = 0;
            loop {
                let was_over = is_over.load(Ordering::SeqCst);
                match listener.accept() {
                    // The connection is closed at once.
                    Ok(_) => count += 1,
                    Err(_) if was_over => return count,
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        run();
        is_over.store(true, Ordering::SeqCst);
        counter.join().expect("the counter ends")
    })
}

#[test]
fn a_statement_waits_once_for_a_shard_that_cannot_be_reached() {
    let mut scene = Scene::new(utf8(), utf8());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    scene
        .client
        .run(&format!(
            "ALTER SERVER s OPTIONS (SET port '{port}', ADD sslmode 'disable')"
        ))
        .expect_ok();
    for select in [
        "SELECT * FROM town a, town b",
        "SELECT * FROM town a, town b WHERE lower(a.name) = 'évry' AND lower(b.name) = 'évry'",
    ] {
        // The second time as well.
        for _ in 0..2 {
            let count = attempts(&listener, || {
                let error = scene.client.run(select).expect_error();
                assert_eq!(error.sqlstate(), "08001");
            });
            assert_eq!(count, 1, "{select}");
        }
    }
}

#[test]
fn a_remote_user_who_may_not_look_at_databases() {
    let mut scene = Scene::new(utf8(), utf8());
    scene.shard.sql(
        "CREATE ROLE guest LOGIN; GRANT SELECT, UPDATE, DELETE ON town TO guest; REVOKE SELECT ON pg_database FROM PUBLIC",
    );
    scene
        .client
        .run("ALTER USER MAPPING FOR CURRENT_USER SERVER s OPTIONS (SET user 'guest')")
        .expect_ok();
    scene.check_kept(UNKNOWN);
    scene.check_outcomes();
}

#[test]
fn a_database_that_is_made_anew_with_another_locale() {
    let mut scene = Scene::new(utf8(), utf8());
    let create = |scene: &Scene, locale: &str| {
        scene.shard.sql("DROP DATABASE IF EXISTS work WITH (FORCE)");
        scene.shard.sql(&format!(
            "CREATE DATABASE work TEMPLATE template0 LOCALE '{locale}'"
        ));
        let fill = format!("CREATE TABLE town ({COLUMNS}); INSERT INTO town VALUES {ROWS}");
        scene
            .shard
            .simple_as("work", "postgres")
            .run(&fill)
            .expect_ok();
    };
    let server = "ALTER SERVER s OPTIONS (SET dbname 'work')";
    scene.client.run(server).expect_ok();
    for statement in ["find", "raise"] {
        create(&scene, "C.UTF-8");
        scene.client = scene.coordinator.simple();
        scene
            .client
            .run(
                "SET plan_cache_mode = force_generic_plan;
                 PREPARE find AS SELECT id FROM town WHERE lower(name) = 'évry' ORDER BY id;
                 PREPARE raise AS UPDATE town SET name = upper(name) WHERE name = 'évry' RETURNING name",
            )
            .expect_ok();
        for locale in ["C.UTF-8", "C"] {
            create(&scene, locale);
            if locale == "C" {
                let error = scene
                    .client
                    .run(&format!("EXECUTE {statement}"))
                    .expect_error();
                assert_eq!(error.sqlstate(), "55000");
                assert!(
                    error.message().contains("server \"s\""),
                    "{}",
                    error.message()
                );
            }
            assert_eq!(scene.client.run("EXECUTE find").lines(), ["1", "2"]);
            let raised = scene.client.run("BEGIN; EXECUTE raise").lines();
            assert_eq!(raised, ["ÉVRY"]);
            scene.client.run("ROLLBACK").expect_ok();
        }
    }
}

#[test]
fn columns_that_say_a_collation() {
    let mut scene = Scene::new(utf8(), Setup::new());
    scene.shard.sql("CREATE TABLE plain (id int, name text COLLATE \"C\"); INSERT INTO plain SELECT id, name FROM town");
    scene
        .client
        .run("CREATE FOREIGN TABLE plain (id int, name text COLLATE \"C\") SERVER s OPTIONS (schema_name 'public')")
        .expect_ok();
    for condition in [
        "name < 'b'",
        "name > 'Z'",
        "lower(name) = 'bonn'",
        "name ~ '^[a-z]'",
    ] {
        let plan = scene.explain(&format!("SELECT id FROM plain WHERE {condition}"));
        assert!(
            !plan.contains("Filter:") && !plan.contains("Not Shipped"),
            "{plan}"
        );
        let rows = |table: &str, condition: &str| {
            format!("SELECT id FROM {table} WHERE {condition} ORDER BY id")
        };
        let collated = condition.replace("name", "(name COLLATE \"C\")");
        let here = scene.client.run(&rows("here", &collated)).lines();
        assert_eq!(
            scene.client.run(&rows("plain", condition)).lines(),
            here,
            "{condition}"
        );
    }
    assert_eq!(scene.remote_sessions(), "1");
    // The encoding is the same: bytes are counted alike.
    let plan = scene.explain("SELECT id FROM plain WHERE octet_length(name) = 5");
    assert!(!plan.contains("Not Shipped"), "{plan}");
}

/// The order of bytes is that of the encoding: in LATIN2 "Ł" comes before "é", in UTF8 after it.
#[test]
fn bytes_of_another_encoding() {
    let mut scene = Scene::new(utf8(), Setup::new().initdb("--encoding=LATIN2"));
    let columns =
        "id int, name text COLLATE \"C\", code name, list text[] COLLATE \"C\", vector tsvector";
    let rows = "SELECT id, name, name::name, ARRAY[name], to_tsvector('simple'::regconfig, name || ' Łódź')
        FROM (VALUES (1, 'Évry'), (2, 'évry'), (3, 'Łomża'), (4, 'bonn'), (5, 'ćma'), (6, 'żuk')) v (id, name)";
    scene.shard.sql(&format!("CREATE TABLE plain ({columns})"));
    scene
        .client
        .run(&format!(
            "CREATE FOREIGN TABLE plain ({columns}) SERVER s OPTIONS (schema_name 'public');
             INSERT INTO plain {rows}; CREATE TABLE same ({columns}); INSERT INTO same {rows}"
        ))
        .expect_ok();
    for condition in [
        "name < 'é'",
        "name BETWEEN 'É' AND 'é'",
        "text_larger(name, 'é') = name",
        "list >= ARRAY['é']",
        "octet_length(name) = 5",
        "md5(name) < '8'",
        "code >= name AND name < 'ł'",
        "vector < to_tsvector('simple'::regconfig, 'évry Łódź')",
    ] {
        let run = |client: &mut Simple, table: &str| {
            client.run(&format!(
                "BEGIN; DELETE FROM {table} WHERE {condition}; SELECT id FROM {table} ORDER BY id; ROLLBACK"
            ))
        };
        let here = run(&mut scene.client, "same").lines();
        assert_eq!(run(&mut scene.client, "plain").lines(), here, "{condition}");
        let plan = scene.explain(&format!("DELETE FROM plain WHERE {condition}"));
        assert!(plan.contains("Not Shipped"), "{plan}");
    }
    for condition in ["name = 'Łomża'", "name LIKE 'é%'", "'żuk' = ANY (list)"] {
        let plan = scene.explain(&format!("SELECT id FROM plain WHERE {condition}"));
        assert!(!plan.contains("Not Shipped"), "{plan}");
    }
}
