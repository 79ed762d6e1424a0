//! Values of every built-in type, in text form: extremes, signs, the empty and the odd.

/// Types of pg_catalog whose input function refuses all input: nobody can store a value of their own.
pub const NO_INPUT: &[&str] = &[
    "gtsvector",
    "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary",
    "pg_dependencies",
    "pg_mcv_list",
    "pg_ndistinct",
    "pg_node_tree",
];

/// Base types with their values. A test compares the names with pg_type, so that none is forgotten.
pub const BASE: &[(&str, &[&str])] = &[
    ("bool", &["t", "f"]),
    ("bytea", &["", "\\x00", "\\x00ff5c2722", "\\xdeadbeef"]),
    ("char", &["a", "", "\\377", "'", "\\"]),
    (
        "name",
        &[
            "",
            "a",
            "Name with spaces",
            "012345678901234567890123456789012345678901234567890123456789012",
        ],
    ),
    (
        "int8",
        &["0", "-1", "9223372036854775807", "-9223372036854775808"],
    ),
    ("int2", &["0", "-1", "32767", "-32768"]),
    ("int2vector", &["", "1", "1 -2 32767"]),
    ("int4", &["0", "-1", "2147483647", "-2147483648"]),
    (
        "regproc",
        &["-", "now", "pg_catalog.pg_backend_pid", "4294967295"],
    ),
    (
        "text",
        &[
            "",
            " ",
            "a",
            "NULL",
            "null",
            "\\N",
            "{}",
            "a,b\"c\\d'e\n\t\r",
            "\u{e9}\u{20ac}\u{1f600}",
            "\u{1}\u{7f}",
        ],
    ),
    ("oid", &["0", "1", "4294967295"]),
    ("tid", &["(0,0)", "(0,1)", "(4294967295,65535)"]),
    ("xid", &["0", "3", "4294967295"]),
    ("cid", &["0", "1", "4294967295"]),
    ("oidvector", &["", "1", "1 4294967295 0"]),
    (
        "json",
        &[
            "null",
            "{}",
            "[]",
            "{\"a\":  1, \"a\": 2}",
            "\"\\u0041\"",
            " [1, \"x\", null, true] ",
            "1e400",
        ],
    ),
    (
        "xml",
        &[
            "",
            "<a/>",
            "text only",
            "<?xml version=\"1.0\"?><a b=\"c\">d &amp; \u{e9}</a>",
        ],
    ),
    ("xid8", &["0", "18446744073709551615"]),
    (
        "point",
        &["(0,0)", "(-1.5,2e300)", "(Infinity,-Infinity)", "(NaN,0)"],
    ),
    ("lseg", &["[(0,0),(1,1)]", "[(-1e-300,2),(3,4)]"]),
    ("path", &["((0,0),(1,1),(2,0))", "[(0,0),(1,1)]"]),
    ("box", &["(1,1),(0,0)", "(-1,-1),(-2,-2)"]),
    ("polygon", &["((0,0),(1,1),(2,0))", "((0,0))"]),
    ("line", &["{1,2,3}", "{0,-1,0}"]),
    (
        "float4",
        &[
            "0",
            "-0",
            "NaN",
            "Infinity",
            "-Infinity",
            "3.4028235e38",
            "1e-45",
            "0.333333333333",
        ],
    ),
    (
        "float8",
        &[
            "0",
            "-0",
            "NaN",
            "Infinity",
            "-Infinity",
            "1.7976931348623157e308",
            "5e-324",
            "0.1",
            "0.30000000000000004",
        ],
    ),
    ("circle", &["<(0,0),0>", "<(-1,2.5),3>"]),
    (
        "money",
        &[
            "$0.00",
            "-$92,233,720,368,547,758.08",
            "$92,233,720,368,547,758.07",
        ],
    ),
    (
        "macaddr",
        &[
            "00:00:00:00:00:00",
            "ff:ff:ff:ff:ff:ff",
            "08:00:2b:01:02:03",
        ],
    ),
    (
        "macaddr8",
        &["00:00:00:00:00:00:00:00", "08:00:2b:01:02:03:04:05"],
    ),
    (
        "inet",
        &[
            "0.0.0.0",
            "10.0.0.0/8",
            "255.255.255.255/32",
            "::1",
            "::/0",
            "fe80::1/64",
            "1:2:3:4:5:6:7:8",
        ],
    ),
    (
        "cidr",
        &[
            "0.0.0.0/0",
            "10.0.0.0/8",
            "192.168.1.1/32",
            "::/0",
            "fe80::/64",
        ],
    ),
    ("aclitem", &["postgres=r/postgres", "=arwd/postgres"]),
    ("bpchar", &["", "a", "a  ", "\u{e9}"]),
    ("varchar", &["", "a", "a  ", "\\N", "\u{e9}\u{20ac}"]),
    (
        "date",
        &[
            "infinity",
            "-infinity",
            "4713-01-01 BC",
            "0001-01-01",
            "2024-02-29",
            "5874897-12-31",
        ],
    ),
    ("time", &["00:00:00", "23:59:59.999999", "24:00:00"]),
    (
        "timestamp",
        &[
            "infinity",
            "-infinity",
            "4713-01-01 00:00:00 BC",
            "2024-02-29 12:34:56.789012",
            "294276-12-31 23:59:59.999999",
        ],
    ),
    (
        "timestamptz",
        &[
            "infinity",
            "-infinity",
            "4713-01-01 00:00:00+00 BC",
            "2024-03-31 02:30:00.000001+01",
            "294276-12-31 23:59:59.999999+00",
            "1883-11-18 12:03:58-07:52:58",
        ],
    ),
    (
        "interval",
        &[
            "00:00:00",
            "-1 days +11:22:33",
            "1 mon -1 days -00:00:00.000001",
            "178000000 years",
            "-178000000 years -11 mons -2147483648 days",
            "2562047788:00:54.775807",
        ],
    ),
    (
        "timetz",
        &["00:00:00+00", "24:00:00-15:59:59", "12:34:56.789012+05:30"],
    ),
    ("bit", &["0", "1"]),
    ("varbit", &["", "1", "10110011100011110000"]),
    (
        "numeric",
        &[
            "0",
            "-0.00",
            "NaN",
            "Infinity",
            "-Infinity",
            "1e-16383",
            "123456789.123456789",
            "-1.10",
            "10000",
            "0.0001",
            "1e131071",
        ],
    ),
    ("refcursor", &["", "c", "cursor with spaces"]),
    ("regprocedure", &["-", "now()", "lower(text)", "4294967295"]),
    ("regoper", &["0", "||/"]),
    (
        "regoperator",
        &["0", "+(integer,integer)", "!!(NONE,tsquery)"],
    ),
    (
        "regclass",
        &[
            "-",
            "pg_class",
            "pg_catalog.pg_type",
            "information_schema.tables",
            "4294967295",
        ],
    ),
    ("regcollation", &["-", "\"C\"", "\"POSIX\""]),
    (
        "regtype",
        &[
            "-",
            "integer",
            "timestamp with time zone",
            "character varying[]",
            "4294967295",
        ],
    ),
    ("regrole", &["-", "postgres", "pg_monitor"]),
    ("regnamespace", &["-", "pg_catalog", "information_schema"]),
    ("regconfig", &["-", "english", "simple"]),
    ("regdictionary", &["-", "english_stem", "simple"]),
    (
        "uuid",
        &[
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ],
    ),
    ("pg_lsn", &["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"]),
    ("tsvector", &["", "'a':1A 'b':2,3B 'c d'", "'it''s' '\\\\'"]),
    (
        "tsquery",
        &["", "'a' & !'b'", "'a' <-> 'b':*AB | ( 'c' & 'it''s' )"],
    ),
    (
        "jsonb",
        &[
            "null",
            "{}",
            "[]",
            "{\"a\": [1, 2.50, -1e3], \"b\": {\"\": null}}",
            "\"\\u00e9\\n\"",
            "0.10",
        ],
    ),
    (
        "jsonpath",
        &["$", "strict $.\"a\"[*]?(@ > 1)", "$.\"b c\".size()"],
    ),
    ("txid_snapshot", &["10:20:10,14,15", "1:1:"]),
    ("pg_snapshot", &["10:20:10,14,15", "1:1:"]),
];

/// Types with a modifier, which the shard has to get right as well.
pub const MODIFIED: &[(&str, &[&str])] = &[
    (
        "varchar(5)",
        &["", "abcde", "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}", "a    "],
    ),
    ("char(5)", &["", "a", "abcde", "\u{20ac}"]),
    (
        "numeric(10,3)",
        &["0", "-1234567.891", "9999999.999", "NaN"],
    ),
    ("numeric(3,-2)", &["99900", "-100", "0"]),
    ("bit(3)", &["000", "101"]),
    ("bit varying(8)", &["", "10101010"]),
    ("timestamp(0)", &["2024-01-01 00:00:01", "infinity"]),
    ("timestamptz(3)", &["2024-01-01 00:00:00.123+00"]),
    ("time(2)", &["12:34:56.78"]),
    ("interval day to second(2)", &["3 days 04:05:06.07"]),
    ("interval year to month", &["1 year 2 mons"]),
];

/// Ranges and multiranges.
pub const RANGES: &[(&str, &[&str])] = &[
    (
        "int4range",
        &["empty", "(,)", "[1,5)", "[-2147483648,2147483647)", "(,0)"],
    ),
    ("int8range", &["empty", "[-9223372036854775808,)", "[0,1)"]),
    (
        "numrange",
        &[
            "empty",
            "(1.50,2.5]",
            "[-Infinity,Infinity]",
            "[,3)",
            "[NaN,NaN]",
        ],
    ),
    (
        "tsrange",
        &[
            "empty",
            "[\"2024-01-01 00:00:00\",infinity)",
            "(,\"2024-01-01 00:00:00\"]",
        ],
    ),
    (
        "tstzrange",
        &[
            "empty",
            "[\"2024-01-01 00:00:00+00\",\"2024-01-02 00:00:00.5+00\")",
        ],
    ),
    (
        "daterange",
        &[
            "empty",
            "[2024-01-01,2024-02-01)",
            "(,)",
            "[-infinity,infinity)",
        ],
    ),
    ("int4multirange", &["{}", "{[1,3),[5,9)}", "{(,)}"]),
    ("int8multirange", &["{}", "{[1,3),[5,)}"]),
    ("nummultirange", &["{}", "{[1.0,3.5),(5,6]}"]),
    (
        "tsmultirange",
        &["{}", "{[\"2024-01-01 00:00:00\",\"2024-01-02 00:00:00\")}"],
    ),
    ("tstzmultirange", &["{}", "{[\"2024-01-01 00:00:00+00\",)}"]),
    (
        "datemultirange",
        &["{}", "{[2024-01-01,2024-02-01),[2025-01-01,)}"],
    ),
];

/// Types of our own, created by this text in every database.
pub const OWN_TYPES: &str = "
CREATE TYPE w.mood AS ENUM ('sad', 'so so', 'it''s \"ok\"', '');
CREATE DOMAIN w.percent AS int CHECK (value BETWEEN 0 AND 100);
CREATE DOMAIN w.code AS varchar(8) COLLATE \"C\";
CREATE DOMAIN w.pairs AS int[] CHECK (array_length(value, 1) % 2 = 0);
CREATE TYPE w.address AS (street text, number int, tags text[]);
CREATE TYPE w.person AS (name text, home w.address, feeling w.mood, score numeric(5,2));
CREATE TYPE w.moods AS RANGE (subtype = w.mood);
CREATE DOMAIN w.grown AS w.person CHECK ((value).name <> '');
CREATE TYPE w.nothing AS ();
";

/// Those types with their values.
pub const OWN: &[(&str, &[&str])] = &[
    ("w.mood", &["sad", "so so", "it's \"ok\"", ""]),
    ("w.percent", &["0", "100"]),
    ("w.code", &["", "a\\b\"c,d"]),
    ("w.pairs", &["{1,2}", "{1,2,3,NULL}"]),
    (
        "w.address",
        &[
            "(,,)",
            "(\"a,\"\"b\\\\\",-1,\"{x,\"\"y z\"\",NULL}\")",
            "(\"\",0,{})",
        ],
    ),
    (
        "w.person",
        &[
            "(,,,)",
            "(ann,\"(\"\"main st\"\",5,{})\",\"so so\",99.90)",
            "(\"(\",\"(,,)\",\"it's \"\"ok\"\"\",-1)",
        ],
    ),
    ("w.moods", &["empty", "[sad,\"it's \"\"ok\"\"\"]", "(,)"]),
    ("w.moods_multirange", &["{}", "{[sad,sad],(\"so so\",)}"]),
    ("w.grown", &["(ann,,,)"]),
    ("w.nothing", &["()"]),
];

/// Arrays made of the values of their elements: empty, one, all with a NULL, two dimensions, other bounds.
pub fn arrays(values: &[&str], delimiter: char) -> Vec<String> {
    let quoted: Vec<String> = values
        .iter()
        .map(|value| format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
        .collect();
    let one = quoted.first().cloned().unwrap_or_default();
    let last = quoted.last().cloned().unwrap_or_default();
    let all = quoted.join(&delimiter.to_string());
    vec![
        "{}".to_string(),
        format!("{{{one}}}"),
        "{NULL}".to_string(),
        format!("{{{all}{delimiter}NULL}}"),
        format!("{{{{{one}{delimiter}{last}}}{delimiter}{{NULL{delimiter}{one}}}}}"),
        format!("[-1:0]={{{one}{delimiter}{last}}}"),
    ]
}
