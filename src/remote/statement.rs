//! One command for a shard, and what an error report says about it.

use crate::model::copy::Format;
use crate::model::error::{FdwError, SqlState};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pq;
use std::ffi::CString;
use std::rc::Rc;

/// The largest message that a server takes, in bytes (`PQ_LARGE_MESSAGE_LIMIT` of `libpq/libpq.h`).
pub const LARGEST_MESSAGE: usize = 0x3fff_fffe;

/// Longest piece of a statement's text in an error's CONTEXT, in bytes.
const CONTEXT_TEXT_LIMIT: usize = 480;

/// Value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    /// The text form, for a type that the shard infers or the statement names.
    Text(CString),
    /// The binary form of the parameter's type.
    Binary(Vec<u8>),
}

/// A parameter. Type 0 lets the shard infer the type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    pub type_oid: u32,
    pub value: Value,
}

impl Param {
    /// A value in text form whose type the shard infers.
    pub fn text(value: Option<CString>) -> Param {
        Param {
            type_oid: 0,
            value: value.map_or(Value::Null, Value::Text),
        }
    }

    /// NULL of the type with this OID on the shard.
    pub fn null(type_oid: u32) -> Param {
        Param {
            type_oid,
            value: Value::Null,
        }
    }

    /// A value in the binary form of a built-in type.
    pub fn binary(type_oid: u32, value: Vec<u8>) -> Param {
        Param {
            type_oid,
            value: Value::Binary(value),
        }
    }

    /// Size on the wire, without the message's framing.
    pub fn len(&self) -> usize {
        match &self.value {
            Value::Null => 0,
            Value::Text(text) => text.as_bytes().len(),
            Value::Binary(bytes) => bytes.len(),
        }
    }

    /// As libpq wants it.
    pub fn borrow(&self) -> pq::Param<'_> {
        match &self.value {
            Value::Null => pq::Param::null(self.type_oid),
            Value::Text(text) => pq::Param::text(self.type_oid, text),
            Value::Binary(bytes) => pq::Param::binary(self.type_oid, bytes),
        }
    }
}

/// What a command is about, for CONTEXT.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// Local name of the foreign table, if one is concerned.
    pub table: Option<Rc<[u8]>>,
    /// First and last row of a batch, counted from 1 within the statement over the rows that reached this table.
    pub rows: Option<(u64, u64)>,
    /// Text to show instead of the command's own: the query of a cursor that is declared or fetched from.
    pub query: Option<Rc<Sql>>,
    /// It only asks the shard's catalogs, which is no statement of the user's: a lost connection is not told with it.
    pub is_question: bool,
}

impl Subject {
    /// A command on a foreign table.
    pub fn table(name: &[u8]) -> Subject {
        Subject {
            table: Some(name.into()),
            ..Subject::default()
        }
    }

    /// A question about what is on the shard, for a foreign table if it is one.
    pub fn question(table: Option<Vec<u8>>) -> Subject {
        Subject {
            table: table.map(Rc::from),
            is_question: true,
            ..Subject::default()
        }
    }
}

/// One SQL command with its parameters.
#[derive(Debug, Clone)]
pub struct Statement {
    pub sql: Rc<Sql>,
    pub params: Vec<Param>,
    /// The command id that its changes of data carry, if it changes any.
    pub written_by: Option<u32>,
    pub subject: Subject,
}

impl Statement {
    /// A command without parameters that changes no data.
    pub fn plain(sql: impl Into<Sql>) -> Statement {
        Statement {
            subject: Subject::default(),
            ..Statement::own(sql)
        }
    }

    /// A command of our own, which no user has asked for.
    pub fn own(sql: impl Into<Sql>) -> Statement {
        Statement::kept(Rc::new(sql.into()))
    }

    /// The same for a text that is kept.
    pub fn kept(sql: Rc<Sql>) -> Statement {
        Statement {
            sql,
            params: Vec::new(),
            written_by: None,
            subject: Subject::question(None),
        }
    }

    /// Hands it over to libpq. An error says why it could not be.
    pub fn hand_over(&self, connection: &mut pq::Connection) -> Result<(), Vec<u8>> {
        let text = self.sql.to_c_string()?;
        let params: Vec<_> = self.params.iter().map(Param::borrow).collect();
        connection
            .send_query_params(&text, &params)
            .map_err(|error| error.message)
    }

    /// Size on the wire, without the messages' framing.
    pub fn len(&self) -> usize {
        self.sql.len() + self.params.iter().map(Param::len).sum::<usize>()
    }

    /// The error (54000) of a statement that needs a message of more than `limit` bytes: a shard would end the session.
    pub fn too_large(&self, server: &str, limit: usize) -> Option<FdwError> {
        // Bind has a length and a format for each parameter, and little else.
        let bytes = self.len() + 8 * self.params.len() + 64;
        if bytes <= limit {
            return None;
        }
        let table = self.subject.table.as_deref().map(text::from_bytes);
        let what = match (table, self.subject.rows) {
            (Some(table), Some((first, last))) if first == last => {
                format!("row {first} of foreign table \"{table}\" is")
            }
            (Some(table), Some((first, last))) => {
                format!("rows {first} to {last} of foreign table \"{table}\" are")
            }
            (Some(table), None) => format!("statement for foreign table \"{table}\" is"),
            (None, _) => "statement is".to_owned(),
        };
        Some(
            FdwError::local(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("{what} too large for a message to server \"{server}\""),
            )
            .with_detail(format!(
                "It would have {bytes} bytes. The limit is {limit} bytes."
            )),
        )
    }
}

/// Rows for a COPY … FROM STDIN.
pub struct CopyIn {
    pub sql: Rc<Sql>,
    pub format: Format,
    /// Remote name of the table, as its errors have it.
    pub table: Vec<u8>,
    /// May it stay open for rows that follow?
    pub stays_open: bool,
    /// In the format, without what comes before and after all rows.
    pub rows: Vec<u8>,
    pub subject: Subject,
}

/// Adds the CONTEXT line of a command: server, table, rows, and the text cut to a sane length.
pub fn add_context(error: FdwError, server: &[u8], sql: &Sql, subject: &Subject) -> FdwError {
    let is_hidden = subject.is_question && error.is_connection_loss();
    if is_hidden && subject.table.is_none() {
        return error;
    }
    let mut line = Sql::new();
    line.push("server ").push_ident(server);
    if let Some(table) = &subject.table {
        line.push(", foreign table ").push_ident(table);
    }
    if let Some((first, last)) = subject.rows {
        line.push(&if first == last {
            format!(", row {first}")
        } else {
            format!(", rows {first} to {last}")
        });
    }
    if !is_hidden {
        let shown = subject.query.as_deref().unwrap_or(sql);
        line.push("\nremote SQL command: ")
            .push_bytes(&shown.shortened(CONTEXT_TEXT_LIMIT));
    }
    error.with_context(line.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_a_message_is_refused_by_name() {
        let statement = |rows, bytes: usize| Statement {
            params: vec![Param::binary(17, vec![0; bytes])],
            subject: Subject {
                rows,
                ..Subject::table(b"t")
            },
            ..Statement::plain("x")
        };
        let error = |statement: Statement| {
            let error = statement.too_large("s", 1000)?;
            assert_eq!(error.sqlstate(), SqlState::PROGRAM_LIMIT_EXCEEDED);
            Some(text::from_bytes(&error.diag().message))
        };
        assert_eq!(error(statement(Some((7, 7)), 900)), None);
        assert_eq!(
            error(statement(Some((7, 7)), 1000)).as_deref(),
            Some(r#"row 7 of foreign table "t" is too large for a message to server "s""#)
        );
        assert_eq!(
            error(statement(Some((7, 9)), 1000)).as_deref(),
            Some(r#"rows 7 to 9 of foreign table "t" are too large for a message to server "s""#)
        );
        assert_eq!(
            error(statement(None, 1000)).as_deref(),
            Some(r#"statement for foreign table "t" is too large for a message to server "s""#)
        );
    }
}
