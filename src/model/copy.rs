//! COPY … FROM STDIN: its text, its text format, and what its errors say about rows.

use crate::model::insert::{push_target, Target};
use crate::model::sql::Sql;
use crate::model::tuples::Tuples;

/// How the rows of a COPY travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Binary,
}

impl Format {
    /// What comes before the rows. Binary: signature, flags, length of an extension.
    pub fn header(self) -> &'static [u8] {
        match self {
            Format::Text => b"",
            Format::Binary => b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0",
        }
    }

    /// What comes after them. Binary: -1 in place of a number of fields.
    pub fn trailer(self) -> &'static [u8] {
        match self {
            Format::Text => b"",
            Format::Binary => b"\xff\xff",
        }
    }
}

/// `COPY table (…) FROM STDIN (…)`.
pub fn copy_from(schema: &[u8], table: &[u8], columns: &[Target], format: Format) -> Sql {
    let mut sql = Sql::from("COPY ");
    push_target(&mut sql, schema, table, columns);
    sql.push(match format {
        Format::Text => " FROM STDIN",
        Format::Binary => " FROM STDIN (FORMAT binary)",
    });
    sql
}

/// Appends rows whose fields are text, in COPY's text format with its default delimiter and NULL. The end of the data needs
/// no mark in the protocol of version 3.
pub fn append_text(tuples: &Tuples, out: &mut Vec<u8>) {
    // A field's length takes as much room as delimiter and a few escapes.
    out.reserve(tuples.bytes());
    for row in tuples.rows() {
        for (position, value) in row.values().enumerate() {
            if position > 0 {
                out.push(b'\t');
            }
            match value {
                None => out.extend_from_slice(b"\\N"),
                Some(text) => escape(text, out),
            }
        }
        out.push(b'\n');
    }
}

/// In an encoding that servers use, no byte of a longer character looks like one of these.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(position) = rest
        .iter()
        .position(|byte| matches!(byte, b'\\' | b'\t' | b'\n' | b'\r'))
    {
        out.extend_from_slice(&rest[..position]);
        out.extend_from_slice(match rest[position] {
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            _ => b"\\\\",
        });
        rest = &rest[position + 1..];
    }
    out.extend_from_slice(rest);
}

/// The line that an error of COPY into `table` is about, from 1: the first number after `COPY table, `, as translations
/// of the message have it too.
pub fn line_of_context(context: &[u8], table: &[u8]) -> Option<u64> {
    let start = [b"COPY ".as_slice(), table, b", "].concat();
    let line = context
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(start.as_slice()))?;
    let digits: Vec<u8> = line
        .iter()
        .copied()
        .skip_while(|byte| !byte.is_ascii_digit())
        .take_while(u8::is_ascii_digit)
        .collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::insert::Form;

    #[test]
    fn the_command_names_columns_and_format() {
        let columns = ["a", "b"].map(|name| Target {
            name: name.into(),
            form: Form::Inferred,
            checked_type: None,
        });
        assert_eq!(
            copy_from(b"r", b"t", &columns, Format::Binary).to_string(),
            "COPY \"r\".\"t\" (\"a\", \"b\") FROM STDIN (FORMAT binary)"
        );
        assert_eq!(
            copy_from(b"r", b"t", &[], Format::Text).to_string(),
            "COPY \"r\".\"t\" FROM STDIN"
        );
    }

    fn tuples(rows: &[&[Option<&str>]]) -> Tuples {
        let mut tuples = Tuples::new(rows[0].len());
        for row in rows {
            let fields = row.iter().map(|field| {
                move |out: &mut Vec<u8>| -> Result<bool, ()> {
                    out.extend_from_slice(field.unwrap_or_default().as_bytes());
                    Ok(field.is_some())
                }
            });
            tuples.push(fields).unwrap();
        }
        tuples
    }

    #[test]
    fn text_is_escaped() {
        let rows = tuples(&[
            &[Some("a"), None],
            &[Some(""), Some("\\N")],
            &[Some("\\."), Some("t\tn\nr\r")],
        ]);
        let mut out = Vec::new();
        append_text(&rows, &mut out);
        assert_eq!(out, b"a\t\\N\n\t\\\\N\n\\\\.\tt\\tn\\nr\\r\n");
    }

    #[test]
    fn errors_tell_their_line() {
        let of = |context: &str| line_of_context(context.as_bytes(), b"rows_1");
        assert_eq!(of("COPY rows_1, line 17"), Some(17));
        assert_eq!(of("COPY rows_1, line 3, column id: \"12\""), Some(3));
        assert_eq!(of("COPY rows_1, Zeile 5, Spalte 7"), Some(5));
        assert_eq!(
            of("PL/pgSQL function f() line 3 at RAISE\nCOPY rows_1, line 4: \"x\""),
            Some(4)
        );
        assert_eq!(of("COPY rows_2, line 4"), None);
        assert_eq!(of("COPY rows_1"), None);
        assert_eq!(of(""), None);
    }
}
