//! Limits: parameters of a message, memory, and whose rights count.

use crate::site::Site;

/// P32: more values in a batch than a message can have parameters.
#[test]
fn p32_more_values_than_parameters() {
    let mut site = Site::with("batch_size '100000'");
    let columns: Vec<String> = (1..=800).map(|n| format!("c{n} int")).collect();
    site.table("wide", &format!("nr int, {}", columns.join(", ")), "");
    let insert =
        "INSERT INTO wide (nr, c1, c400, c800) SELECT g, g, -g, g FROM generate_series(1, 400) g";
    assert_eq!(site.tag(insert), "INSERT 0 400");
    let update = "UPDATE wide SET c2 = nr, c799 = nr WHERE nr <= 50 AND random() < 2";
    assert_eq!(site.tag(update), "UPDATE 50");
    assert_eq!(
        site.rows("SELECT count(*), sum(c1), sum(c400), sum(c800), sum(c2), sum(c799) FROM wide"),
        ["400|80200|-80200|80200|1275|1275"]
    );
    site.table("narrow", "n int", "");
    let many = "INSERT INTO narrow SELECT generate_series(1, 70000)";
    assert_eq!(site.tag(many), "INSERT 0 70000");
    assert_eq!(
        site.rows("SELECT count(*), count(DISTINCT n) FROM narrow"),
        ["70000|70000"]
    );
}

/// P34: memory does not grow with the number of rows.
#[test]
fn p34_memory_does_not_grow_with_the_rows() {
    let mut site = Site::with("batch_size '1000'");
    site.partitioned("leaf", "k int, nr int, body text", "");
    let insert = |rows: u32| {
        format!("INSERT INTO leaf SELECT 1 + g % 2, g, 'row number ' || g FROM generate_series(1, {rows}) g")
    };
    let peak = |site: &Site| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", site.main.pid()));
        let status = status.expect("status of the backend");
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM"))
            .expect("VmHWM");
        let kilobytes = line.split_whitespace().nth(1).expect("a number");
        kilobytes.parse().expect("a number")
    };
    assert_eq!(site.tag(&insert(30_000)), "INSERT 0 30000");
    let few = peak(&site);
    assert_eq!(site.tag(&insert(600_000)), "INSERT 0 600000");
    assert_eq!(
        site.tag("UPDATE leaf SET body = body || '!' WHERE nr % 100 = 0 AND random() < 2"),
        "UPDATE 6300"
    );
    let many = peak(&site);
    // Twenty times the rows are 30 MB more to send.

    assert!(many < few + 16_384, "{few} kB, then {many} kB");
    assert_eq!(site.rows("SELECT count(*) FROM leaf"), ["630000"]);
}

/// P48: rows written through a view go out as its owner's remote user, and a password is demanded where it must be.
#[test]
fn p48_the_mapping_of_the_right_user() {
    let mut site = Site::new();
    site.main
        .run("CREATE ROLE owner LOGIN; CREATE ROLE reader")
        .expect_ok();
    site.north
        .run(
            "CREATE TABLE entry_1 (k int, who text DEFAULT current_user);
             GRANT ALL ON entry_1 TO PUBLIC",
        )
        .expect_ok();
    site.main
        .run(
            "CREATE TABLE entry (k int) PARTITION BY LIST (k);
             CREATE FOREIGN TABLE entry_1 PARTITION OF entry FOR VALUES IN (1) \
             SERVER north OPTIONS (schema_name 'public');
             CREATE VIEW entries AS SELECT * FROM entry;
             GRANT ALL ON entry, entry_1 TO owner;
             GRANT ALL ON entries TO reader;
             GRANT CREATE ON SCHEMA public TO owner;
             ALTER VIEW entries OWNER TO owner;
             CREATE USER MAPPING FOR owner SERVER north \
             OPTIONS (user 'owner', password 'secret', password_required 'false')",
        )
        .expect_ok();
    assert_eq!(
        site.tag("INSERT INTO entries VALUES (1), (1)"),
        "INSERT 0 2"
    );
    site.tag("SET ROLE reader");
    assert_eq!(site.tag("INSERT INTO entries VALUES (1)"), "INSERT 0 1");
    site.tag("RESET ROLE");
    // Now a password is required, and the shard, which trusts everybody, does not ask for one.
    site.tag("ALTER USER MAPPING FOR owner SERVER north OPTIONS (DROP password_required)");
    site.tag("SET ROLE reader");
    let error = site
        .main
        .run("INSERT INTO entries VALUES (1)")
        .expect_error();
    assert!(error.message().contains("password"), "{error:?}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    assert_eq!(site.fails("INSERT INTO entry VALUES (1)"), "42501");
    site.tag("RESET ROLE");
    assert_eq!(site.tag("INSERT INTO entry VALUES (1)"), "INSERT 0 1");
    assert_eq!(
        site.north
            .run("SELECT who, count(*) FROM entry_1 GROUP BY who ORDER BY who")
            .lines(),
        ["owner|3", "postgres|1"]
    );
    // The owner of a mapping may neither name files nor do without the password check.
    site.tag("SET ROLE owner");
    for option in [
        "ADD password_required 'false'",
        "ADD sslkey '/tmp/key'",
        "ADD sslcert '/tmp/cert'",
    ] {
        let sql = format!("ALTER USER MAPPING FOR owner SERVER north OPTIONS ({option})");
        assert_eq!(site.fails(&sql), "42501", "{option}");
    }
}
