//! Who may connect with what, and that no password shows anywhere.

mod common;

use common::*;

const PASSWORD: &str = "kx7-Hush-right";
const WRONG: &str = "kx7-Hush-wrong";
/// What both passwords begin with.
const SECRET: &str = "kx7-Hush";

/// A coordinator whose user `clerk` is no superuser, and a shard that wants a password from everybody but superuser
/// postgres and role `open`.
struct Scene {
    coordinator: Cluster,
    shard: Cluster,
}

impl Scene {
    fn new() -> Scene {
        let hba = "local all all trust\n\
                   host all postgres,open 127.0.0.1/32 trust\n\
                   host all all 127.0.0.1/32 scram-sha-256\n";
        let shard = Setup::new()
            .file("pg_hba.conf", hba)
            .set("log_connections", "on")
            .start();
        shard.sql(&format!(
            "CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE open LOGIN PASSWORD '{PASSWORD}';
             CREATE TABLE t (id int, who text DEFAULT current_user); GRANT ALL ON t TO keeper, open;
             ALTER ROLE keeper SET log_statement = 'all'"
        ));
        let coordinator = Setup::new().set("log_min_messages", "debug1").start();
        coordinator.sql(&format!(
            "CREATE EXTENSION shard_fdw;
             CREATE SERVER s FOREIGN DATA WRAPPER shard_fdw
                 OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
             CREATE FOREIGN TABLE t (id int, who text OPTIONS (remote_default 'true')) SERVER s
                 OPTIONS (schema_name 'public');
             CREATE ROLE clerk LOGIN; CREATE ROLE boss LOGIN SUPERUSER; CREATE ROLE guest LOGIN;
             GRANT USAGE ON FOREIGN SERVER s TO clerk;
             GRANT ALL ON t TO clerk, guest",
            shard.port()
        ));
        Scene { coordinator, shard }
    }

    /// Gives a user this mapping, in place of the one he had.
    fn map(&self, user: &str, options: &str) {
        self.coordinator.sql(&format!(
            "DROP USER MAPPING IF EXISTS FOR {user} SERVER s;
             CREATE USER MAPPING FOR {user} SERVER s OPTIONS ({options})"
        ));
    }

    fn client(&self, user: &str) -> Simple {
        self.coordinator.simple_as("postgres", user)
    }

    fn check_logs(&self) {
        // Only what the tests themselves say may hold it, and that is not logged.
        for cluster in [&self.coordinator, &self.shard] {
            let log = cluster.log();
            assert!(log.contains("LOG:  "));
            let told: Vec<&str> = log.lines().filter(|line| line.contains(SECRET)).collect();
            assert!(told.is_empty(), "{told:?}");
        }
    }
}

/// The error, which must not tell the password in any of its fields.
#[track_caller]
fn refused(reply: Reply) -> Fields {
    let told = format!("{:?}", reply.notices);
    let error = reply.expect_error();
    for text in [
        error.message(),
        error.detail(),
        error.hint(),
        error.context(),
        told.as_str(),
    ] {
        assert!(!text.contains(SECRET), "{text}");
    }
    error
}

const READ: &str = "SELECT count(*) FROM t";

#[test]
fn a_password_that_the_shard_asks_for_is_enough() {
    let scene = Scene::new();
    scene.map("clerk", &format!("user 'keeper', password '{PASSWORD}'"));
    let mut clerk = scene.client("clerk");
    assert_eq!(
        clerk
            .run("INSERT INTO t (id) SELECT generate_series(1, 5)")
            .tag(),
        "INSERT 0 5"
    );
    assert_eq!(clerk.run("SELECT DISTINCT who FROM t").lines(), ["keeper"]);
    let error = refused(clerk.run("SELECT id / 0 FROM t WHERE id / 0 = 1"));
    assert_eq!(error.sqlstate(), "22012");

    scene.map("clerk", &format!("user 'keeper', password '{WRONG}'"));
    let error = refused(clerk.run(READ));
    assert_eq!(error.sqlstate(), "08001", "{error:?}");
    assert_eq!(error.message(), "could not connect to server \"s\"");
    assert!(
        error
            .detail()
            .contains("password authentication failed for user \"keeper\""),
        "{error:?}"
    );
    scene.map("clerk", "user 'keeper', password ''");
    assert_eq!(refused(clerk.run(READ)).sqlstate(), "2F003");
    scene.map("clerk", &format!("user 'keeper', password '{PASSWORD}'"));
    assert_eq!(clerk.value(READ), "5");

    for view in [
        "shard_fdw_connections()",
        "shard_fdw_stats()",
        "pg_user_mappings",
        "pg_stat_activity",
    ] {
        let mut other = scene.client("guest");
        for client in [&mut clerk, &mut other] {
            let shown = client.run(&format!("SELECT string_agg(v::text, ' ') FROM {view} AS v"));
            let own_mapping =
                view == "pg_user_mappings" && client.value("SELECT current_user") == "clerk";
            // The owner of a mapping sees its options, as core has it.
            assert_eq!(shown.value().contains(SECRET), own_mapping, "{view}");
        }
    }
    scene.check_logs();
}

#[test]
fn without_a_password_only_superusers_connect() {
    let scene = Scene::new();
    let mut clerk = scene.client("clerk");
    // No mapping at all, none with a password, and a shard that does not ask for the password.
    assert_eq!(refused(clerk.run(READ)).sqlstate(), "42704");
    scene.map("clerk", "user 'open'");
    let error = refused(clerk.run(READ));
    assert_eq!(error.sqlstate(), "2F003", "{error:?}");
    assert_eq!(scene.shard.log().matches("user=open").count(), 0);
    scene.map("clerk", &format!("user 'open', password '{PASSWORD}'"));
    let error = refused(clerk.run(READ));
    assert_eq!(error.sqlstate(), "2F003", "{error:?}");
    assert!(
        error.detail().contains("without asking for the password"),
        "{error:?}"
    );
    assert_eq!(
        refused(clerk.run("INSERT INTO t (id) VALUES (1)")).sqlstate(),
        "2F003"
    );

    let waive = "ALTER USER MAPPING FOR clerk SERVER s OPTIONS (ADD password_required 'false')";
    assert_eq!(refused(clerk.run(waive)).sqlstate(), "42501");
    let key = "ALTER USER MAPPING FOR clerk SERVER s OPTIONS (ADD sslkey '/somewhere')";
    assert_eq!(refused(clerk.run(key)).sqlstate(), "42501");
    scene.coordinator.sql(waive);
    assert_eq!(clerk.value(READ), "0");

    scene.map("boss", "user 'open'");
    assert_eq!(scene.client("boss").value(READ), "0");
    scene.check_logs();
}

#[test]
fn a_view_connects_as_its_owner() {
    let scene = Scene::new();
    scene.map("clerk", &format!("user 'keeper', password '{PASSWORD}'"));
    scene.map("boss", "user 'open'");
    scene.coordinator.sql(
        "GRANT CREATE ON SCHEMA public TO clerk;
         SET ROLE clerk; CREATE VIEW of_clerk AS SELECT * FROM t; GRANT ALL ON of_clerk TO guest, boss;
         SET ROLE boss; CREATE VIEW of_boss AS SELECT * FROM t; GRANT ALL ON of_boss TO guest, clerk",
    );
    let mut guest = scene.client("guest");
    assert_eq!(refused(guest.run(READ)).sqlstate(), "42704");
    assert_eq!(
        guest.run("INSERT INTO of_clerk (id) VALUES (1)").tag(),
        "INSERT 0 1"
    );
    assert_eq!(
        guest.run("INSERT INTO of_boss (id) VALUES (2)").tag(),
        "INSERT 0 1"
    );
    assert_eq!(
        guest.run("SELECT id, who FROM of_clerk ORDER BY 1").lines(),
        ["1|keeper", "2|open"]
    );
    let users = "SELECT user_name FROM shard_fdw_connections() ORDER BY 1";
    assert_eq!(guest.run(users).lines(), ["boss", "clerk"]);
    scene.check_logs();
}

/// The mapping of PUBLIC: superusers may use it without a password, the others not, whoever has connected.
#[test]
fn a_connection_made_without_password_is_for_superusers_only() {
    let scene = Scene::new();
    scene.map("PUBLIC", "user 'open'");
    scene.coordinator.sql(&format!(
        "CREATE FUNCTION trusted() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS '{READ}';
         CREATE FUNCTION mixed() RETURNS bigint LANGUAGE sql AS 'SELECT trusted() + ({READ})'"
    ));
    let write = "INSERT INTO t (id) VALUES (1)";
    let copy = "COPY t (id) FROM PROGRAM 'echo 1'";
    let mut owner = scene.coordinator.simple();
    owner
        .run("GRANT pg_execute_server_program TO guest")
        .expect_ok();
    for statement in [READ, write, copy, "DELETE FROM t", "TRUNCATE t"] {
        assert_eq!(owner.value(READ), "0");
        owner.run("SET ROLE guest").expect_ok();
        let error = refused(owner.run(statement));
        assert_eq!(error.sqlstate(), "2F003", "{statement}: {error:?}");
        assert_eq!(
            error.message(),
            "password is required to connect to server \"s\""
        );
        // The same inside of one transaction.
        owner.run("RESET ROLE").expect_ok();
        owner.run("BEGIN").expect_ok();
        assert_eq!(owner.value(READ), "0");
        owner.run("SET LOCAL ROLE guest").expect_ok();
        assert_eq!(refused(owner.run(statement)).sqlstate(), "2F003");
        assert_eq!(owner.run("COMMIT").tag(), "ROLLBACK");
    }

    let mut guest = scene.client("guest");
    for statement in [READ, write, copy, "SELECT mixed()"] {
        assert_eq!(guest.value("SELECT trusted()"), "0");
        assert_eq!(refused(guest.run(statement)).sqlstate(), "2F003");
        guest.run("BEGIN").expect_ok();
        assert_eq!(guest.value("SELECT trusted()"), "0");
        assert_eq!(refused(guest.run(statement)).sqlstate(), "2F003");
        assert_eq!(guest.run("COMMIT").tag(), "ROLLBACK");
    }
    // Nobody's refusal has cost the connection.
    assert_eq!(guest.value("SELECT trusted()"), "0");
    assert_eq!(scene.shard.log().matches("user=open").count(), 2);
    scene.check_logs();
}

#[test]
fn misplaced_passwords_are_refused_without_being_shown() {
    let scene = Scene::new();
    let mut client = scene.coordinator.simple();
    for statement in [
        "ALTER SERVER s OPTIONS (ADD password 'VALUE')",
        "ALTER FOREIGN TABLE t OPTIONS (ADD password 'VALUE')",
        "CREATE USER MAPPING FOR guest SERVER s OPTIONS (passwort 'VALUE')",
    ] {
        let error = client
            .run(&statement.replace("VALUE", PASSWORD))
            .expect_error();
        assert_eq!(error.sqlstate(), "HV00D", "{error:?}");
        for text in [
            error.message(),
            error.detail(),
            error.hint(),
            error.context(),
        ] {
            assert!(!text.contains(SECRET), "{text}");
        }
    }
}

#[test]
fn mappings_with_equal_options_share_a_session() {
    let scene = Scene::new();
    let options = format!("user 'keeper', password '{PASSWORD}'");
    scene.map("clerk", &options);
    scene.map("guest", &options);
    scene.coordinator.sql(
        "GRANT USAGE ON FOREIGN SERVER s TO guest; CREATE VIEW of_guest AS SELECT * FROM t; ALTER VIEW of_guest OWNER TO guest;
         GRANT ALL ON of_guest TO clerk",
    );
    let connections = "SELECT count(*) FROM shard_fdw_connections()";
    let mut clerk = scene.client("clerk");
    clerk
        .run("BEGIN; INSERT INTO t (id) VALUES (1), (2)")
        .expect_ok();
    assert_eq!(clerk.value("SELECT count(*) FROM of_guest"), "2");
    assert_eq!(clerk.value(connections), "1");
    // A row that one of them has locked.
    clerk
        .run("UPDATE t SET who = 'clerk'; UPDATE of_guest SET who = who || ' and guest'")
        .expect_ok();
    assert_eq!(
        clerk.run("SELECT DISTINCT who FROM t").lines(),
        ["clerk and guest"]
    );
    clerk.run("COMMIT").expect_ok();
    assert_eq!(clerk.value(connections), "1");
    // Options of one of them change: from now on they differ.
    scene.map("guest", "user 'open', password_required 'false'");
    assert_eq!(clerk.value("SELECT count(*) FROM of_guest"), "2");
    assert_eq!(clerk.value(READ), "2");
    assert_eq!(clerk.value(connections), "2");
    // And are equal again: what the session was made for first does not matter.
    scene.map("guest", &options);
    scene.map("clerk", &options);
    clerk
        .run("BEGIN; UPDATE of_guest SET who = 'x'")
        .expect_ok();
    assert_eq!(clerk.value("SELECT count(*) FROM t WHERE who = 'x'"), "2");
    clerk.run("COMMIT").expect_ok();
    assert_eq!(clerk.value(connections), "1");
    scene.check_logs();
}

#[test]
fn who_shares_a_session_may_connect_by_his_own_rules() {
    let scene = Scene::new();
    scene.map("clerk", "user 'open', password_required 'false'");
    scene.map("guest", "user 'open'");
    scene.coordinator.sql(
        "GRANT USAGE ON FOREIGN SERVER s TO guest; CREATE VIEW of_guest AS SELECT * FROM t; ALTER VIEW of_guest OWNER TO guest;
         GRANT ALL ON of_guest TO clerk",
    );
    let of_guest = "SELECT count(*) FROM of_guest";
    // Whoever comes first, connected or not.
    let mut clerk = scene.client("clerk");
    assert_eq!(refused(clerk.run(of_guest)).sqlstate(), "2F003");
    assert_eq!(clerk.value(READ), "0");
    assert_eq!(refused(clerk.run(of_guest)).sqlstate(), "2F003");
    assert_eq!(clerk.value(READ), "0");
    let both = format!("SELECT ({READ}), ({of_guest})");
    assert_eq!(refused(clerk.run(&both)).sqlstate(), "2F003");
    let mut clerk = scene.client("clerk");
    assert_eq!(refused(clerk.run(&both)).sqlstate(), "2F003");
    // A password that the shard does not ask for is as good as none.
    let options = format!("user 'open', password '{PASSWORD}'");
    scene.map("clerk", &format!("{options}, password_required 'false'"));
    scene.map("guest", &options);
    assert_eq!(clerk.value(READ), "0");
    assert_eq!(refused(clerk.run(of_guest)).sqlstate(), "2F003");
    scene.map("guest", &format!("{options}, password_required 'false'"));
    assert_eq!(clerk.run(&both).lines(), ["0|0"]);
    assert_eq!(
        clerk.value("SELECT count(*) FROM shard_fdw_connections()"),
        "1"
    );
    scene.check_logs();
}
