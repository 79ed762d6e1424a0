//! A local database and a shard of different encodings.

mod common;

use common::*;

fn latin1() -> Setup {
    Setup::new().initdb("--encoding=LATIN1")
}

/// A coordinator with server `südlich`, whose foreign table `Straße` has a namesake on the shard. The client speaks UTF8.
struct Scene {
    coordinator: Cluster,
    shard: Cluster,
    client: Simple,
}

impl Scene {
    fn new(local: Setup, remote: Setup) -> Scene {
        let coordinator = local.start();
        let shard = remote.start();
        shard.sql(
            r#"CREATE TABLE "Straße" (id int, "Größe" text, "Wörter" text[],
                   CONSTRAINT "éinmalig" UNIQUE ("Größe"), CONSTRAINT "zu groß" CHECK (length("Größe") < 30));
               CREATE FUNCTION "prüfe"() RETURNS trigger LANGUAGE plpgsql AS $$
               BEGIN
                   IF NEW."Größe" = 'schön' THEN
                       RAISE EXCEPTION 'zu schön' USING DETAIL = 'Größe ä', HINT = 'hässlicher', ERRCODE = 'P0999';
                   END IF;
                   RAISE WARNING 'geprüft: %', NEW."Größe";
                   RETURN NEW;
               END $$;
               CREATE TRIGGER "prüfe" BEFORE UPDATE ON "Straße" FOR EACH ROW EXECUTE FUNCTION "prüfe"()"#,
        );
        let mut client = coordinator.simple();
        client
            .run(&format!(
                r#"CREATE EXTENSION shard_fdw; {}
                   CREATE FOREIGN TABLE "Straße" (id int, "Größe" text, "Wörter" text[]) SERVER "südlich"
                       OPTIONS (schema_name 'public', batch_size '2');
                   CREATE TABLE hier (id int, "Größe" text, "Wörter" text[])"#,
                create_server("\"südlich\"", shard.port(), "application_name 'größer'")
            ))
            .expect_ok();
        Scene {
            coordinator,
            shard,
            client,
        }
    }

    /// The same statement on the foreign and on the local table.
    #[track_caller]
    fn both(&mut self, sql: &str) {
        let foreign = self.client.run(&sql.replace("TABLE", "\"Straße\""));
        let local = self.client.run(&sql.replace("TABLE", "hier"));
        assert_eq!(foreign.tag(), local.tag());
        assert_eq!(foreign.lines(), local.lines());
    }

    fn texts_travel(&mut self) {
        self.both("INSERT INTO TABLE SELECT i, 'Zürich ' || i, ARRAY['ß', NULL, 'é\"'] FROM generate_series(1, 5) AS i");
        let rows = "6\tÆther\t{ÿ,\"ä, ö\"}\n7\tñandú\t\\N\n".as_bytes();
        for table in ["\"Straße\"", "hier"] {
            let copied = self
                .client
                .copy_in(&format!("COPY {table} FROM STDIN"), rows);
            assert_eq!(copied.tag(), "COPY 2");
        }
        self.both("SELECT *, length(\"Größe\") FROM TABLE ORDER BY id");
        self.both(
            "SELECT id FROM TABLE WHERE \"Größe\" = 'ñandú' OR 'ÿ' = ANY (\"Wörter\") ORDER BY id",
        );
        self.both("UPDATE TABLE SET \"Größe\" = \"Größe\" || 'ö' WHERE \"Größe\" LIKE 'Zü%'");
        self.both("SELECT * FROM TABLE ORDER BY id");
        self.client
            .run("SET plan_cache_mode = force_generic_plan; PREPARE q(text) AS SELECT id FROM \"Straße\" WHERE \"Größe\" = $1")
            .expect_ok();
        assert_eq!(self.client.value("EXECUTE q('Zürich 3ö')"), "3");
        let plan = self
            .client
            .run("EXPLAIN (VERBOSE) EXECUTE q('é')")
            .lines()
            .join("\n");
        assert!(
            plan.contains("FROM \"public\".\"Straße\"") && plan.contains("$1"),
            "{plan}"
        );
        // Independently of what this library reads back.
        let stored = "SELECT string_agg(\"Größe\" || coalesce(\"Wörter\"::text, ''), ';' ORDER BY id) FROM \"Straße\" WHERE id IN (1, 7)";
        assert_eq!(
            self.shard.value(stored),
            "Zürich 1ö{ß,NULL,\"é\\\"\"};ñandú"
        );
        let application =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%gr%er'";
        assert_eq!(self.shard.value(application), "1");
    }

    /// In both formats of COPY: the array has no form of its own.
    fn copies_travel(&mut self) {
        self.client.run("SET shard_fdw.copy_rows = 1").expect_ok();
        for transport in ["ADD transport 'copy'", "SET transport 'auto'"] {
            self.client
                .run(&format!(
                    "ALTER FOREIGN TABLE \"Straße\" OPTIONS ({transport})"
                ))
                .expect_ok();
            for value in ["NULL", "ARRAY['ß\\', NULL, 'é\"\t']"] {
                let columns = if value == "NULL" { "" } else { ", \"Wörter\"" };
                let value = if value == "NULL" {
                    String::new()
                } else {
                    format!(", {value}")
                };
                self.both(&format!(
                    "INSERT INTO TABLE (id, \"Größe\"{columns})
                         SELECT i + 100, i || ' Zürich\\ñ'{value} FROM generate_series(1, 2000) AS i"
                ));
                self.both("SELECT md5(string_agg(TABLE::text, ',' ORDER BY id)) FROM TABLE WHERE id > 100");
                let error = self
                    .client
                    .run(&format!(
                        "INSERT INTO \"Straße\" (id, \"Größe\"{columns})
                             SELECT i, CASE i WHEN 1234 THEN 'Æther' ELSE 'ö' || i END{value} FROM generate_series(1, 1500) AS i"
                    ))
                    .expect_error();
                assert_eq!(error.detail(), "Key (\"Größe\")=(Æther) already exists.");
                if transport.contains("copy") {
                    let place = "server \"südlich\", foreign table \"Straße\", row 1234";
                    assert!(error.context().contains(place), "{error:?}");
                }
                self.both("DELETE FROM TABLE WHERE id > 100");
            }
        }
        self.client
            .run("ALTER FOREIGN TABLE \"Straße\" OPTIONS (DROP transport)")
            .expect_ok();
    }

    fn errors_travel(&mut self) {
        let error = self
            .client
            .run("INSERT INTO \"Straße\" VALUES (10, 'neu'), (11, 'Æther')")
            .expect_error();
        assert_eq!(error.sqlstate(), "23505", "{error:?}");
        assert_eq!(
            error.message(),
            "duplicate key value violates unique constraint \"éinmalig\""
        );
        assert_eq!(error.detail(), "Key (\"Größe\")=(Æther) already exists.");
        assert_eq!((error.table(), error.constraint()), ("Straße", "éinmalig"));
        assert!(
            error
                .context()
                .starts_with("server \"südlich\", foreign table \"Straße\", rows 1 to 2"),
            "{error:?}"
        );
        let error = self
            .client
            .run("UPDATE \"Straße\" SET \"Größe\" = 'schön' WHERE id = 1")
            .expect_error();
        assert_eq!(
            (
                error.sqlstate(),
                error.message(),
                error.detail(),
                error.hint()
            ),
            ("P0999", "zu schön", "Größe ä", "hässlicher")
        );
        let reply = self
            .client
            .run("UPDATE \"Straße\" SET \"Größe\" = 'übel' WHERE id = 1")
            .expect_ok();
        assert_eq!(reply.notices[0].message(), "geprüft: übel");
    }

    /// Names of ours in errors that are raised here.
    fn local_errors_are_readable(&mut self) {
        let connections = self
            .client
            .value("SELECT server_name FROM shard_fdw_connections()");
        assert_eq!(connections, "südlich");
        assert_eq!(
            self.client.value("SELECT shard_fdw_disconnect('südlich')"),
            "t"
        );
        let error = self
            .client
            .run("SELECT shard_fdw_disconnect('nördlich')")
            .expect_error();
        assert!(error.message().contains("\"nördlich\""), "{error:?}");

        let error = self
            .client
            .run("ALTER SERVER \"südlich\" OPTIONS (ADD \"größe\" '1')")
            .expect_error();
        assert_eq!(error.sqlstate(), "HV00D");
        assert!(error.message().contains("\"größe\""), "{error:?}");
        let error = self
            .client
            .run("ALTER SERVER \"südlich\" OPTIONS (ADD fetch_size 'fünf')")
            .expect_error();
        assert!(
            error.message().contains("fünf") || error.detail().contains("fünf"),
            "{error:?}"
        );

        self.coordinator.sql(
            "CREATE ROLE gast LOGIN; GRANT SELECT ON \"Straße\" TO gast; CREATE USER MAPPING FOR gast SERVER \"südlich\"",
        );
        let mut guest = self.coordinator.simple_as("postgres", "gast");
        let error = guest.run("SELECT * FROM \"Straße\"").expect_error();
        assert_eq!(error.sqlstate(), "2F003");
        assert!(error.message().contains("\"südlich\""), "{error:?}");

        self.client
            .run("ALTER SERVER \"südlich\" OPTIONS (SET dbname 'kein_ä')")
            .expect_ok();
        let error = self.client.run("SELECT * FROM \"Straße\"").expect_error();
        assert_eq!(error.message(), "could not connect to server \"südlich\"");
        assert!(error.detail().contains("does not exist"), "{error:?}");
        self.client
            .run("ALTER SERVER \"südlich\" OPTIONS (SET dbname 'postgres', ADD session_settings 'work_mem=zwölf')")
            .expect_ok();
        let error = self.client.run("SELECT * FROM \"Straße\"").expect_error();
        assert!(error.message().contains("zwölf"), "{error:?}");
        assert!(error.context().contains("\"südlich\""), "{error:?}");
        self.client
            .run("ALTER SERVER \"südlich\" OPTIONS (DROP session_settings); SELECT * FROM \"Straße\"")
            .expect_ok();
    }
}

#[test]
fn latin1_database_with_utf8_shard() {
    let mut scene = Scene::new(latin1(), Setup::new());
    scene.texts_travel();
    scene.copies_travel();
    scene.errors_travel();
    scene.local_errors_are_readable();

    scene
        .shard
        .sql("INSERT INTO \"Straße\" VALUES (20, 'für 5 €')");
    let error = scene.client.run("SELECT * FROM \"Straße\"").expect_error();
    assert_eq!(error.sqlstate(), "22P05", "{error:?}");
    assert_eq!(
        scene
            .client
            .value("SELECT \"Größe\" FROM \"Straße\" WHERE id = 1"),
        "übel"
    );
}

#[test]
fn utf8_database_with_latin1_shard() {
    let mut scene = Scene::new(Setup::new(), latin1());
    scene.texts_travel();
    scene.copies_travel();
    scene.errors_travel();
    scene.local_errors_are_readable();

    for insert in [
        "INSERT INTO \"Straße\" VALUES (20, 'fein'), (21, 'für 5 €')",
        "UPDATE \"Straße\" SET \"Größe\" = '€' WHERE id = 1",
    ] {
        let error = scene.client.run(insert).expect_error();
        assert_eq!(error.sqlstate(), "22P05", "{error:?}");
    }
    let read = "SELECT count(*), min(\"Größe\") FILTER (WHERE id = 1) FROM \"Straße\"";
    assert_eq!(scene.client.run(read).lines(), ["7|übel"]);
}
