//! Values of every type: stored by a shard exactly as a local table stores them?

use crate::common;
use crate::driver::{rows_differ, Databases, Kind, Side, WAYS};
use crate::literals::{arrays, BASE, MODIFIED, NO_INPUT, OWN, OWN_TYPES, RANGES};
use common::{need_extension, skip, Simple};

/// Settings that must not leak into what is sent: text forms that lose digits, swap days and months, or change signs.
const ODD_SETTINGS: &str = "SET extra_float_digits = -5; SET datestyle = 'SQL, DMY'; \
    SET intervalstyle = 'sql_standard'; SET timezone = 'Asia/Tokyo'; SET bytea_output = 'escape'; SET xmloption = document";

/// A type under test.
struct Type {
    name: String,
    values: Vec<String>,
    arrays: Vec<String>,
    /// It has a binary form that can be read back.
    sendable: bool,
}

impl Type {
    fn table(&self, number: usize) -> String {
        format!("v{number}")
    }

    /// `(1, 'value', NULL)`, … for every value, every array, and NULL.
    fn rows(&self) -> String {
        let literal = |text: &String| format!("$lit${text}$lit$");
        let values = self.values.iter().map(|v| (literal(v), "NULL".to_string()));
        let arrays = self.arrays.iter().map(|a| ("NULL".to_string(), literal(a)));
        let nothing = [("NULL".to_string(), "NULL".to_string())];
        let rows: Vec<String> = values
            .chain(arrays)
            .chain(nothing)
            .enumerate()
            .map(|(n, (value, array))| format!("({n}, {value}, {array})"))
            .collect();
        rows.join(", ")
    }
}

fn types_of(client: &mut Simple, list: &[(&str, &[&str])]) -> Vec<Type> {
    list.iter()
        .map(|(name, values)| {
            let facts = client
                .run(&format!(
                    "SELECT typdelim, typsend <> 0 AND typarray <> 0, typtype FROM pg_type \
                     WHERE oid = '{}'::regtype",
                    quoted(name)
                ))
                .rows()[0]
                .clone();
            let delimiter = facts[0].as_deref().and_then(|d| d.chars().next());
            Type {
                name: quoted(name),
                values: values.iter().map(ToString::to_string).collect(),
                arrays: arrays(values, delimiter.expect("a delimiter")),
                // The empty values of these have a binary form that their own input functions refuse.
                sendable: facts[1].as_deref() == Some("t")
                    && !matches!(*name, "int2vector" | "oidvector" | "tsquery"),
            }
        })
        .collect()
}

/// `char` alone is another type.
fn quoted(name: &str) -> String {
    if name == "char" {
        "\"char\"".to_string()
    } else {
        name.to_string()
    }
}

/// Creates a table of each type, where it is stored and as a foreign table, and a local one with the values.
fn create(side: &mut Side, types: &[Type]) {
    let mut stored = String::new();
    let mut here = String::new();
    for (number, this) in types.iter().enumerate() {
        let table = this.table(number);
        let columns = format!("(n int, v {0}, a {0}[])", this.name);
        stored.push_str(&format!("CREATE TABLE {table} {columns};\n"));
        if side.is_local() {
            here.push_str(&format!("CREATE TABLE {table} {columns};\n"));
        } else {
            here.push_str(&format!(
                "CREATE FOREIGN TABLE {table} {columns} SERVER s1 OPTIONS (schema_name 'w');\n"
            ));
        }
        here.push_str(&format!(
            "CREATE TABLE {table}_src {columns};\nINSERT INTO {table}_src VALUES {};\n",
            this.rows()
        ));
    }
    if let Some(shard) = side.shards.first_mut() {
        shard.run(&stored).expect_ok();
    }
    side.main.run(&here).expect_ok();
}

/// What each way of writing reports, and what is stored then.
struct Result {
    replies: Vec<String>,
    text: Vec<String>,
    read: Vec<String>,
    binary: Vec<u8>,
}

fn write(side: &mut Side, this: &Type, number: usize, copies: &[(String, Vec<u8>)]) -> Result {
    let table = this.table(number);
    let mut replies = Vec::new();
    let mut note = |what: &str, reply: common::Reply| {
        let outcome = match &reply.error {
            Some(error) => format!("{error:?}"),
            None => reply.tag().to_string(),
        };
        replies.push(format!("{what}: {outcome}"));
    };
    let main = &mut side.main;
    note(
        "literals",
        main.run(&format!("INSERT INTO {table} VALUES {}", this.rows())),
    );
    if !side.shards.is_empty() {
        main.run(ODD_SETTINGS).expect_ok();
    }
    note(
        "query",
        main.run(&format!(
            "INSERT INTO {table} SELECT n + 1000, v, a FROM {table}_src"
        )),
    );
    note(
        "returning",
        main.run(&format!(
            "INSERT INTO {table} SELECT n + 2000, v, a FROM {table}_src WHERE n < 2 RETURNING n"
        )),
    );
    note(
        "update",
        main.run(&format!(
            "UPDATE {table} SET v = s.v, a = s.a FROM {table}_src s \
             WHERE s.n + 1000 = {table}.n AND random() < 2"
        )),
    );
    main.run("RESET ALL").expect_ok();
    for (format, data) in copies {
        let copy = format!("COPY {table} FROM STDIN (FORMAT {format})");
        note(format, main.copy_in(&copy, data));
    }
    let query = format!("SELECT {table}::text FROM {table} ORDER BY n, {table}::text");
    let read = main.run(&query).lines();
    let stored = side.shards.first_mut().unwrap_or(main);
    Result {
        replies,
        text: stored.run(&query).lines(),
        read,
        binary: if this.sendable {
            let copy = format!(
                "COPY (SELECT * FROM {table} ORDER BY n, {table}::text) TO STDOUT (FORMAT binary)"
            );
            stored.run(&copy).expect_ok().copied
        } else {
            Vec::new()
        },
    }
}

/// Finds rows by comparison with each value: constants must reach the shard unchanged.
fn find(side: &mut Side, this: &Type, number: usize) -> Vec<String> {
    let table = this.table(number);
    let probe = format!("SELECT count(*) FROM {table}_src x, {table}_src y WHERE x.v = y.v");
    if side.main.run(&probe).error.is_some() {
        return Vec::new();
    }
    let values = this.values.iter().map(|value| {
        format!(
            "SELECT n FROM {table} WHERE v = $lit${value}$lit$::{}",
            this.name
        )
    });
    let arrays = this.arrays.iter().map(|array| {
        format!(
            "SELECT n FROM {table} WHERE a = $lit${array}$lit$::{}[]",
            this.name
        )
    });
    let mut found = Vec::new();
    for query in values.chain(arrays) {
        let reply = side.main.run(&format!("{query} ORDER BY n"));
        found.push(match &reply.error {
            Some(error) => format!("{query}: {} {}", error.sqlstate(), error.message()),
            None => format!("{query}: {}", reply.lines().join(" ")),
        });
    }
    found
}

/// The copies that are fed to COPY FROM, made once.
fn copies(side: &mut Side, this: &Type, number: usize) -> Vec<(String, Vec<u8>)> {
    let mut formats = vec!["text"];
    if this.sendable {
        formats.push("binary");
    }
    formats
        .into_iter()
        .map(|format| {
            let copy = format!(
                "COPY (SELECT n + 5000, v, a FROM {}_src ORDER BY n) TO STDOUT (FORMAT {format})",
                this.table(number)
            );
            (format.to_string(), side.main.run(&copy).expect_ok().copied)
        })
        .collect()
}

/// Compares all types; `prepare` runs first in every database. With `same_oids`, binary forms are compared too.
fn compare(list: &[(&str, &[&str])], prepare: &str, same_oids: bool) {
    let databases = Databases::start();
    let mut local = databases.side(Kind::Local);
    local.main.run(prepare).expect_ok();
    let mut types = types_of(&mut local.main, list);
    if let Some(numeric) = types.iter_mut().find(|this| this.name == "numeric") {
        numeric
            .values
            .push(format!("-{}.{}", "9".repeat(131_072), "9".repeat(16_383)));
    }
    create(&mut local, &types);
    let copies: Vec<_> = types
        .iter()
        .enumerate()
        .map(|(number, this)| {
            let mut copies = copies(&mut local, this, number);
            // The binary form names types by number, which may be another on the other side.
            copies.retain(|(format, _)| same_oids || format != "binary");
            copies
        })
        .collect();
    let mut expected = Vec::new();
    for (number, this) in types.iter().enumerate() {
        let result = write(&mut local, this, number, &copies[number]);
        for reply in &result.replies {
            assert!(!reply.contains("ERROR"), "{}, locally: {reply}", this.name);
        }
        expected.push((result, find(&mut local, this, number)));
    }

    let mut differences = Vec::new();
    for way in WAYS {
        let mut foreign = databases.side(Kind::Foreign(way));
        for client in std::iter::once(&mut foreign.main).chain(&mut foreign.shards) {
            client.run(prepare).expect_ok();
        }
        create(&mut foreign, &types);
        for (number, this) in types.iter().enumerate() {
            // Beside an array it would travel as text, and is refused.
            if way.transport == "copy" && this.name == "\"char\"" {
                continue;
            }
            let result = write(&mut foreign, this, number, &copies[number]);
            let (local, found) = &expected[number];
            let mut found_here = vec![
                rows_differ("reported", &local.replies, &result.replies),
                rows_differ("stored", &local.text, &result.text),
                rows_differ("read back", &local.read, &result.read),
            ];
            if same_oids && local.binary != result.binary {
                found_here.push(Some(
                    "the binary forms of the stored rows differ".to_string(),
                ));
            }
            if way == WAYS[0] {
                let there = find(&mut foreign, this, number);
                found_here.push(rows_differ("found", found, &there));
            }
            differences.extend(found_here.into_iter().flatten().map(|difference| {
                let difference: String = difference.chars().take(1500).collect();
                format!("=== {}, {way}: {difference}", this.name)
            }));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn no_built_in_type_is_forgotten() {
    let databases = Databases::start();
    let mut client = databases.side(Kind::Local).main;
    let listed = |kind: &str| {
        let query = format!(
            "SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND {kind}"
        );
        client.run(&query).lines()
    };
    let mut missing = Vec::new();
    let kinds = [
        // True arrays are tested with their elements; int2vector and oidvector are none.
        (
            "typtype = 'b' AND typsubscript <> 'array_subscript_handler'::regproc",
            BASE,
        ),
        (
            "typtype = 'b' AND typname IN ('int2vector', 'oidvector')",
            BASE,
        ),
        ("typtype IN ('r', 'm')", RANGES),
    ];
    let mut listed = listed;
    for (kind, list) in kinds {
        missing.extend(listed(kind).into_iter().filter(|name| {
            !NO_INPUT.contains(&name.as_str()) && !list.iter().any(|(known, _)| known == name)
        }));
    }
    assert!(missing.is_empty(), "no values for {missing:?}");
}

#[test]
fn base_types() {
    let mut list = BASE.to_vec();
    let xml = {
        let databases = Databases::start();
        let mut client = databases.side(Kind::Local).main;
        client.run("SELECT '<a/>'::xml").error.is_none()
    };
    if !xml {
        skip("this server is built without XML");
        list.retain(|(name, _)| *name != "xml");
    }
    compare(&list, "", true);
}

#[test]
fn types_with_modifiers_and_ranges() {
    let mut list = MODIFIED.to_vec();
    list.extend(RANGES);
    compare(&list, "", true);
}

#[test]
fn types_of_ones_own() {
    compare(OWN, OWN_TYPES, false);
}

#[test]
fn types_of_extensions() {
    let extensions: &[(&str, &str, &[&str])] = &[
        (
            "hstore",
            "public.hstore",
            &["", "\"a\"=>\"1\", \"b\"=>NULL, \"c d\"=>\"it's \\\"x\\\"\""],
        ),
        ("citext", "public.citext", &["", "MiXed", "\u{c9}"]),
        ("cube", "public.cube", &["(0)", "(1, 2, 3),(4, 5, 6)"]),
        ("ltree", "public.ltree", &["", "a.b.c"]),
        ("isn", "public.isbn13", &["978-0-393-04002-9"]),
    ];
    let mut list: Vec<(&str, &[&str])> = Vec::new();
    let mut prepare = String::new();
    for (extension, name, values) in extensions {
        if need_extension(extension) {
            prepare.push_str(&format!(
                "CREATE EXTENSION IF NOT EXISTS {extension} SCHEMA public;\n"
            ));
            list.push((name, values));
        }
    }
    if !list.is_empty() {
        compare(&list, &prepare, false);
    }
}
