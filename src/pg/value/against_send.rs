//! Binary forms against the types' own send functions.

mod probe;
mod random;

#[pgrx::pg_schema]
mod tests {
    use super::probe::{check_query, check_texts, Header, Probe};
    use super::random::Random;
    use crate::model::wire::numeric;
    use crate::pg::value::*;
    use pgrx::pg_test;
    use pgrx::prelude::Spi;

    #[pg_test]
    fn binary_types_are_what_the_catalog_says() {
        for (type_oid, name, layout) in BINARY_TYPES {
            let query = format!(
                "SELECT concat_ws(' ', typname, typlen, typbyval::text, typsend::oid, typoutput::oid) \
                 FROM pg_type WHERE oid = {} AND typnamespace = 'pg_catalog'::regnamespace AND typsend <> 0 AND \
                 typreceive <> 0 AND typarray = to_regtype('pg_catalog.{name}[]')",
                type_oid.to_u32()
            );
            let found: Option<String> = Spi::get_one(&query).expect("an answer");
            let found = found.unwrap_or_else(|| panic!("no type {name}"));
            let facts: Vec<&str> = found.split(' ').collect();
            let [type_name, length, by_value, send, output] = facts[..] else {
                panic!("{found}");
            };
            assert_eq!(type_name, name.trim_matches('"'));
            let expected = match layout {
                Layout::Bool | Layout::Int1 => "1",
                Layout::Int2 => "2",
                Layout::Int4 => "4",
                Layout::Int8 => "8",
                Layout::Bytes(size) => &size.to_string(),
                Layout::Words(count) => &(8 * count).to_string(),
                Layout::Tid => "6",
                Layout::TimeTz => "12",
                Layout::Interval => "16",
                Layout::Name => "64",
                _ => "-1",
            };
            assert_eq!(length, expected, "{name}");
            let is_by_value = matches!(
                layout,
                Layout::Bool | Layout::Int1 | Layout::Int2 | Layout::Int4 | Layout::Int8
            );
            assert_eq!(by_value, is_by_value.to_string(), "{name}");
            match layout {
                Layout::Send(function) => assert_eq!(send, function.to_string(), "{name}"),
                Layout::Versioned(function) => assert_eq!(output, function.to_string(), "{name}"),
                _ => {}
            }
        }
    }

    #[pg_test]
    fn values_in_a_datum() {
        let mut random = Random(1);
        for (type_oid, _, layout) in BINARY_TYPES {
            let probe = Probe::new(type_oid);
            let bits = match layout {
                Layout::Bool => 1,
                Layout::Int1 => 8,
                Layout::Int2 => 16,
                Layout::Int4 => 32,
                Layout::Int8 => 64,
                _ => continue,
            };
            // As `CharGetDatum` and its like make them: with the sign in all bits above.
            let cut = |number: u64| match layout {
                Layout::Bool => number & 1,
                Layout::Int1 => number as i8 as u64,
                Layout::Int2 => number as i16 as u64,
                Layout::Int4 => number as i32 as u64,
                _ => number,
            };
            let extremes = [0, 1, u64::MAX, 1 << (bits - 1), (1 << (bits - 1)) - 1];
            let numbers = extremes
                .into_iter()
                .chain((0..1000).map(|_| random.number()));
            for number in numbers.map(cut) {
                probe.check(Datum::from(number));
            }
        }
    }

    #[pg_test]
    fn values_of_fixed_size() {
        let mut random = Random(2);
        for (type_oid, _, layout) in BINARY_TYPES {
            let size = match layout {
                Layout::Bytes(size) => size,
                Layout::Words(count) => 8 * count,
                Layout::Tid => 6,
                Layout::TimeTz => 12,
                Layout::Interval => 16,
                _ => continue,
            };
            let probe = Probe::new(type_oid);
            for _ in 0..1000 {
                let mut words = [0; 4].map(|_: u64| match random.below(6) {
                    0 => 0,
                    1 => u64::MAX,
                    2 => i64::MIN as u64,
                    _ => random.number(),
                });
                assert!(size <= std::mem::size_of_val(&words));
                probe.check(Datum::from(words.as_mut_ptr()));
            }
        }
        let infinity: &[&str] = if cfg!(any(feature = "pg17", feature = "pg18")) {
            &["infinity", "-infinity"]
        } else {
            &[]
        };
        check_texts(
            pg_sys::INTERVALOID,
            &["-1 mon 2 days -00:00:00.000001", "178000000 years", "0"],
        );
        check_texts(pg_sys::INTERVALOID, infinity);
        check_texts(
            pg_sys::TIMETZOID,
            &[
                "24:00:00-15:59:59",
                "00:00:00+15:59:59",
                "12:34:56.789012+05:30",
            ],
        );
        check_texts(pg_sys::NAMEOID, &["", "n", "näme", &"x".repeat(63)]);
        check_texts(
            pg_sys::TIDOID,
            &["(0,0)", "(4294967295,65535)", "(66051,1029)"],
        );
        check_texts(pg_sys::MACADDROID, &["08:00:2b:01:02:03"]);
        check_texts(
            pg_sys::MACADDR8OID,
            &["08:00:2b:01:02:03", "ff:fe:fd:fc:fb:fa:f9:f8"],
        );
        check_texts(
            pg_sys::BOXOID,
            &["(1,2),(3,-4)", "(NaN,2),(Infinity,-Infinity)"],
        );
        check_texts(pg_sys::LINEOID, &["{1,2,3}", "{0,-1,NaN}"]);
    }

    /// Of each length where headers or storage change, and with characters of several bytes.
    #[pg_test]
    fn texts() {
        let mut random = Random(3);
        for type_oid in [
            pg_sys::TEXTOID,
            pg_sys::VARCHAROID,
            pg_sys::BPCHAROID,
            pg_sys::REFCURSOROID,
        ] {
            let probe = Probe::new(type_oid);
            for length in (0..300).chain([1000, 8000, 70_000]) {
                let text: String = (0..length)
                    .map(|_| random.pick(&["a", "é", " ", "語", "𝄞"]))
                    .collect();
                probe.check_text(&text);
            }
        }
        check_texts(
            pg_sys::BYTEAOID,
            &[
                "",
                "\\x00",
                "\\x0001ff",
                &format!("\\x{}", "00".repeat(200)),
            ],
        );
        check_texts(pg_sys::JSONOID, &["{\"a\" : 1.0}", "\"\\u0000\"", "[1,2 ]"]);
        check_texts(
            pg_sys::JSONPATHOID,
            &[
                "$.a[*] ? (@ > 1 && @.b like_regex \"é\" flag \"i\")",
                "strict $",
            ],
        );
    }

    #[pg_test]
    fn lexemes() {
        check_texts(
            pg_sys::TSVECTOROID,
            &["", "'a':1A 'b':2,3B 'c d'", "'it''s' '\\\\' 'é':16383C"],
        );
        check_query(
            "SELECT to_tsvector('simple', string_agg(left(md5((i * i % 77)::text), i % 31 + 1) || 'ü', ' ')), \
                    strip(to_tsvector('simple', string_agg(i::text, ' '))) \
             FROM generate_series(1, 600, 13) n, generate_series(1, n) i GROUP BY n",
        );
        check_query("SELECT setweight(to_tsvector('simple', repeat('a b ccc ', 9000)), 'B')");
    }

    #[pg_test]
    fn numerics() {
        let probe = Probe::new(pg_sys::NUMERICOID);
        let check = |text: &str| {
            probe.with_input(text, |probe, value| {
                probe.check(value);
                let mut out = Vec::new();
                // SAFETY: the value is a numeric, and the texts are palloc'd.
                let expected = unsafe {
                    numeric::append_text(contents(value), &mut out).expect("a text");
                    let output = Oid::from_u32(pg_sys::F_NUMERIC_OUT);
                    CStr::from_ptr(pg_sys::OidOutputFunctionCall(output, value)).to_bytes()
                };
                assert!(
                    out == expected,
                    "{text:.100}: {:.100?}",
                    String::from_utf8_lossy(&out)
                );
            });
        };
        for text in [
            "NaN",
            "Infinity",
            "-Infinity",
            "0",
            "-0.0",
            "1e-16383",
            "-1e131071",
        ] {
            check(text);
        }
        let nines = "9".repeat(131_072);
        check(&nines);
        check(&format!("-{nines}.{}", "9".repeat(16_383)));
        check(&format!("0.{}1", "0".repeat(16_382)));
        // Weights and scales around the limits of the short header, and trailing zeros.
        for power in -300..300 {
            check(&format!("1e{power}"));
            check(&format!("-9999.99990e{power}"));
            check(&format!("12345678901234567890.5e{power}"));
        }
        for scale in (0..80).chain([999, 1000, 1001, 16_383]) {
            check(&format!("0.{}", "0".repeat(scale)));
            check(&format!("-10000.{}", "0".repeat(scale)));
            check(&format!("10001.{}7", "0".repeat(scale.min(16_000))));
        }
        let mut random = Random(4);
        for round in 0..6000 {
            let longest = if round % 100 == 0 { 1200 } else { 45 };
            check(&random.decimal(longest));
        }
    }

    #[pg_test]
    fn addresses() {
        let (inet, cidr) = (Probe::new(pg_sys::INETOID), Probe::new(pg_sys::CIDROID));
        let mut random = Random(5);
        for (bits, size) in (0..=32)
            .map(|bits| (bits, 32))
            .chain((0..=128).map(|bits| (bits, 128)))
        {
            for _ in 0..10 {
                let number = u128::from(random.number()) << 64 | u128::from(random.number());
                let host = number >> (128 - size);
                let host_bits = size - bits;
                let network = host.checked_shr(host_bits).unwrap_or(0);
                let network = network.checked_shl(host_bits).unwrap_or(0);
                let text = |address: u128| {
                    if size == 32 {
                        format!("{}/{bits}", std::net::Ipv4Addr::from(address as u32))
                    } else {
                        format!("{}/{bits}", std::net::Ipv6Addr::from(address))
                    }
                };
                inet.check_text(&text(host));
                cidr.check_text(&text(network));
            }
        }
        check_texts(
            pg_sys::INETOID,
            &["10.1.2.3", "::", "::1", "::ffff:1.2.3.4/96", "0.0.0.0/0"],
        );
        check_texts(pg_sys::CIDROID, &["10", "10.1.0.0/16", "::/0", "fe80::/10"]);
    }

    #[pg_test]
    fn documents() {
        let probe = Probe::new(pg_sys::JSONBOID);
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "-1.50",
            "1e-20",
            "1e100",
            "\"\"",
            "\"a\\\"b\"",
            "[]",
            "{}",
            "[[]]",
            "[{}]",
            "{\"\":{}}",
            "{\"b\":1,\"aa\":2,\"a\":[3,null]}",
            "[\"x\", 1.0, \"yy\", 2.00, \"zzz\", [3], \"\", {\"k\": 4}]",
        ] {
            probe.check_text(text);
        }
        let all: Vec<String> = (1..0x20).map(|code| format!("\\u{code:04x}")).collect();
        probe.check_text(&format!(
            "[\"{}\", \"\\u007f\\u00e9\\u20ac\\ud834\\udd1e\"]",
            all.join("é")
        ));
        for length in (0..70).chain([1000, 100_000]) {
            probe.check_text(&format!(
                "[\"{0}\\n\", 5, \"{0}\", {{\"{0}\": 1.10}}]",
                "x".repeat(length)
            ));
        }
        for depth in [10, 1000] {
            probe.check_text(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
            probe.check_text(&format!(
                "{}7{}",
                "{\"k\":[1,".repeat(depth),
                "]}".repeat(depth)
            ));
        }
        let mut random = Random(6);
        for round in 0..2500 {
            let size = match round % 50 {
                0 => 1500,
                1..10 => 100,
                _ => 12,
            };
            let size = 1 + random.below(size);
            probe.check_text(&random.json(size));
        }
        for size in [31, 32, 33, 63, 64, 65, 5000] {
            let items: Vec<String> = (0..size).map(|_| random.json(1)).collect();
            probe.check_text(&format!("[{}]", items.join(",")));
            let pairs: Vec<String> = items
                .iter()
                .map(|item| format!("{}:{item}", random.string(20)))
                .collect();
            probe.check_text(&format!("{{{}}}", pairs.join(",")));
        }
        // Values that no input function made.
        check_query(
            "SELECT to_jsonb(n), jsonb_build_array(n, n::float8 / 7, n::numeric(30, 10), 'NaN'::float8, now()), \
                    jsonb_set('{\"a\": [1, 2]}', '{a, 1}', to_jsonb(n / 8.0)), to_jsonb(n) || '[\"x\"]' \
             FROM generate_series(-300, 300) n",
        );
        check_query(
            "SELECT jsonb_agg(n || ''), jsonb_object_agg(n, n / 3.0) FROM generate_series(1, 900) n",
        );
        check_query("SELECT to_jsonb(pg_type), to_jsonb(pg_type.*) FROM pg_type");
    }

    #[pg_test]
    fn bits_shapes_and_ranges() {
        check_query(
            "SELECT (n::bit(32) || (n * 7)::bit(32))::varbit(64) >> n, substr(repeat('10110', 20), 1, n + 1)::varbit, \
                    substr(repeat('10110', 20), 1, n)::bit(50) FROM generate_series(0, 63) n",
        );
        check_texts(pg_sys::VARBITOID, &["", "1", "00000000", "000000001"]);
        check_texts(
            pg_sys::PATHOID,
            &[
                "[(1,2)]",
                "((1,2),(3,4),(-0,NaN))",
                "[(1e300,-Infinity),(0,0)]",
            ],
        );
        check_texts(pg_sys::POLYGONOID, &["((1,2))", "((0,0),(1,1.5),(2,-7))"]);
        check_query(
            "SELECT p, path(p) FROM generate_series(2, 200) n, polygon(n, '<(1,2),3>'::circle) p",
        );
        check_query(
            "SELECT int4range(a, b, i), int8range(a, b, i), \
                    daterange('2000-01-01'::date + a, '2000-01-01'::date + b, i), \
                    numrange(a / 7.0, b, i), tsrange('2000-01-01'::timestamp + make_interval(secs => a), 'infinity', i), \
                    tstzrange('-infinity', '2000-01-01'::timestamptz + make_interval(secs => b), i), \
                    int4multirange(int4range(a, b, i), int4range(b + 2, b + 9)), nummultirange(numrange(a, b * 3.5, i)) \
             FROM (VALUES (1, 1), (1, 2), (-5, 1000000), (NULL, 7), (7, NULL), (NULL, NULL)) v(a, b), \
                  unnest('{[),[],(],()}'::text[]) i",
        );
        for type_oid in [
            pg_sys::INT4RANGEOID,
            pg_sys::INT8RANGEOID,
            pg_sys::NUMRANGEOID,
            pg_sys::INT8MULTIRANGEOID,
        ] {
            let texts = ["empty", "[-5,7]", "(,)", "[3,)", "(,3]"];
            let multi = type_oid == pg_sys::INT8MULTIRANGEOID;
            let probe = Probe::new(type_oid);
            texts
                .iter()
                .filter(|text| !multi || **text != "empty")
                .for_each(|text| {
                    probe.check_text(&if multi {
                        format!("{{{text}}}")
                    } else {
                        text.to_string()
                    });
                });
        }
        check_query(
            "SELECT '{}'::datemultirange, '{}'::tsmultirange, '{[2020-01-01,)}'::tstzmultirange",
        );
        check_query("SELECT pg_current_snapshot(), '10:20:10,14,15'::pg_snapshot, '10:20:10,14,15'::txid_snapshot");
    }

    #[pg_test]
    fn stored_values() {
        Spi::run(
            "CREATE TEMP TABLE stored AS \
                 SELECT string_agg(md5(i::text), '') AS t, string_agg(md5(i::text), '')::bytea AS b, \
                        jsonb_agg(jsonb_build_object(md5(i::text), i / 3.0, 'text', md5((-i)::text))) AS j, \
                        repeat('1234567890', n)::numeric AS n, repeat('10', n * 100)::varbit AS v, \
                        polygon(n + 2, '<(1,2),3>'::circle) AS p, json_agg(i) AS x, \
                        to_tsvector('simple', string_agg(md5(i::text), ' ')) AS l \
                 FROM generate_series(1, 300, 23) n, generate_series(1, n) i GROUP BY n; \
             CREATE TEMP TABLE plain (LIKE stored); \
             ALTER TABLE plain ALTER t SET STORAGE external, ALTER b SET STORAGE external, ALTER j SET STORAGE external; \
             INSERT INTO plain SELECT * FROM stored; \
             CREATE TEMP TABLE packed (LIKE stored); \
             ALTER TABLE packed ALTER t SET STORAGE main, ALTER j SET STORAGE main, ALTER v SET STORAGE main; \
             INSERT INTO packed SELECT repeat(t, 50), b, \
                    jsonb_build_object('a', jsonb_build_array(repeat('ab\"', 1500)), 'b', repeat('c', 1500)), \
                    n, v, p, x, l FROM stored",
        )
        .expect("tables");
        let headers: Vec<Header> = ["stored", "plain", "packed"]
            .iter()
            .flat_map(|table| check_query(&format!("SELECT * FROM {table}")))
            .collect();
        for header in [
            Header::Long,
            Header::Compressed,
            Header::Short,
            Header::Toast,
        ] {
            assert!(headers.contains(&header), "{header:?} has not come");
        }
        // As expressions, array elements and variables hold them.
        Spi::run(
            "CREATE FUNCTION pg_temp.kept() RETURNS TABLE (t text, j jsonb, n numeric) LANGUAGE plpgsql AS $$ \
             DECLARE r stored; a jsonb[]; \
             BEGIN \
                 FOR r IN SELECT * FROM stored LOOP \
                     a := a || r.j || jsonb_build_object('k', 1.50); a[1] := r.j -> 0; \
                     t := r.t; j := a[array_length(a, 1)]; n := r.n; RETURN NEXT; \
                     t := left(r.t, 10); j := a[1]; n := r.n / 3; RETURN NEXT; \
                 END LOOP; \
             END $$",
        )
        .expect("a function");
        check_query("SELECT * FROM pg_temp.kept()");
        check_query(
            "SELECT t || 'x', j || '{}', n + 0.50, (ARRAY[j, j -> 0])[2], (ARRAY[t, 'é'])[2], substr(b, 2) \
             FROM stored",
        );
    }
}
