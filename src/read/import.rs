//! IMPORT FOREIGN SCHEMA: what the shard says of the tables of a schema, as commands that make foreign tables.

use crate::model::array::ArrayBuilder;
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::import::{Generated, Import, ImportedColumn};
use crate::model::option::push_setting;
use crate::model::sql::Sql;
use crate::model::text;
use crate::pq::PgResult;
use crate::remote::session::Session;
use crate::remote::statement::{Param, Statement, Subject};
use std::rc::Rc;

/// OIDs of types.
const BOOL: u32 = 16;
const TEXT: u32 = 25;
const TEXT_ARRAY: u32 = 1009;

const SEARCH_PATH: &[u8] = b"search_path";

/// One row for each column, one row without column for a table that has none, and one row without table if there is none.
/// No row: the schema does not exist. `$1` is the schema, `$2` the tables that are named, `$3` whether only they are
/// wanted (else all others). Partitions come with their root, unless named.
const QUESTION: &str = "\
SELECT c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
  a.attgenerated, pg_catalog.pg_get_expr(d.adbin, d.adrelid),
  a.attgenerated = '' AND (d.oid IS NOT NULL OR a.attidentity <> '' OR t.typdefault IS NOT NULL),
  ln.nspname, l.collname
FROM pg_catalog.pg_namespace n
  LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
    AND (c.relname = ANY ($2)) = $3 AND (NOT c.relispartition OR $3)
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation AND l.oid <> t.typcollation
  LEFT JOIN pg_catalog.pg_namespace ln ON ln.oid = l.collnamespace
WHERE n.nspname = $1
ORDER BY c.relname, a.attnum";

/// Which tables of a schema are wanted, by their names.
pub enum Selection {
    LimitTo(Vec<Vec<u8>>),
    /// None of them: all tables.
    Except(Vec<Vec<u8>>),
}

/// The commands that make the foreign tables, in the order of their names. Asks the shard, after everything that waits
/// to be sent. An error if there is no such schema (HV00Q).
pub fn commands(session: &Session, import: &Import, selection: &Selection) -> Result<Vec<Sql>> {
    let answer = ask(session, import.schema, selection)?;
    if answer.ntuples() == 0 {
        return Err(FdwError::local(
            SqlState::SCHEMA_NOT_FOUND,
            format!(
                "schema \"{}\" does not exist on server \"{}\"",
                text::from_bytes(import.schema),
                session.server().display_name()
            ),
        ));
    }
    let mut commands = Vec::new();
    let mut row = 0;
    while let Some(table) = answer.value(row, 0) {
        let mut columns = Vec::new();
        while answer.value(row, 0) == Some(table) {
            if answer.value(row, 1).is_some() {
                columns.push(column(&answer, row)?);
            }
            row += 1;
        }
        commands.push(import.create_table(table, &columns));
    }
    Ok(commands)
}

fn ask(session: &Session, schema: &[u8], selection: &Selection) -> Result<PgResult> {
    let (names, is_limit) = match selection {
        Selection::LimitTo(names) => (names, true),
        Selection::Except(names) => (names, false),
    };
    let mut array = ArrayBuilder::new(TEXT);
    for name in names {
        array.push(name);
    }
    let question = Statement {
        sql: Rc::new(Sql::from(QUESTION)),
        params: vec![
            Param::binary(TEXT, schema.to_vec()),
            Param::binary(TEXT_ARRAY, array.finish()),
            Param::binary(BOOL, vec![u8::from(is_limit)]),
        ],
        written_by: None,
        subject: Subject::question(None),
    };
    // Names in types and expressions are printed with their schema unless the search path finds them.
    let settings = &session.options().session_settings;
    let own_path = settings
        .iter()
        .find(|setting| setting.name.eq_ignore_ascii_case(SEARCH_PATH));
    let Some(own_path) = own_path else {
        return session.execute(&question);
    };
    let set = |value: &[u8]| {
        let mut sql = Sql::from("SELECT ");
        push_setting(&mut sql, SEARCH_PATH, value, "true");
        Statement::plain(sql)
    };
    session.execute_between(&set(b"pg_catalog"), &question, &set(&own_path.value))
}

fn column(answer: &PgResult, row: usize) -> Result<ImportedColumn> {
    let text = |column| answer.value(row, column).map(<[u8]>::to_vec);
    let is_true = |column| answer.value(row, column) == Some(b"t");
    Ok(ImportedColumn {
        name: text(1).ok_or_else(unexpected)?,
        type_name: text(2).ok_or_else(unexpected)?,
        not_null: is_true(3),
        generated: match answer.value(row, 4) {
            Some(b"s") => Some(Generated::Stored),
            Some(b"v") => Some(Generated::Virtual),
            Some(b"") => None,
            _ => return Err(unexpected()),
        },
        expression: text(5),
        has_default: is_true(6),
        collation: text(7).zip(text(8)),
    })
}

fn unexpected() -> FdwError {
    FdwError::Protocol {
        message: "unexpected answer to the question for tables to import".into(),
        detail: None,
    }
}
