//! The answer to one statement.

use crate::model::error::{Diag, SqlState};
use crate::pq::{sys, Severity};
use std::ffi::{c_char, c_int, CStr};
use std::ptr::NonNull;

/// What kind of answer it is: `ExecStatusType`, less the kinds that are never asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultStatus {
    EmptyQuery,
    CommandOk,
    TuplesOk,
    CopyOut,
    CopyIn,
    BadResponse,
    NonfatalError,
    FatalError,
    PipelineSync,
    /// Not run, because an earlier statement of the pipeline failed.
    PipelineAborted,
    /// A status that is unknown here, or for a feature that is not used.
    Unknown(i32),
}

impl ResultStatus {
    fn new(value: c_int) -> ResultStatus {
        match value {
            sys::PGRES_EMPTY_QUERY => ResultStatus::EmptyQuery,
            sys::PGRES_COMMAND_OK => ResultStatus::CommandOk,
            sys::PGRES_TUPLES_OK => ResultStatus::TuplesOk,
            sys::PGRES_COPY_OUT => ResultStatus::CopyOut,
            sys::PGRES_COPY_IN => ResultStatus::CopyIn,
            sys::PGRES_BAD_RESPONSE => ResultStatus::BadResponse,
            sys::PGRES_NONFATAL_ERROR => ResultStatus::NonfatalError,
            sys::PGRES_FATAL_ERROR => ResultStatus::FatalError,
            sys::PGRES_PIPELINE_SYNC => ResultStatus::PipelineSync,
            sys::PGRES_PIPELINE_ABORTED => ResultStatus::PipelineAborted,
            other => ResultStatus::Unknown(other),
        }
    }

    /// Did the statement run to its end?
    pub fn is_success(self) -> bool {
        matches!(
            self,
            ResultStatus::CommandOk | ResultStatus::TuplesOk | ResultStatus::EmptyQuery
        )
    }
}

/// A `PGresult`, freed when dropped, on success and on unwind alike. It stays valid after its connection is closed.
///
/// A result remembers the notice receiver of its connection and libpq reports misuse of a result there, so every
/// row and column number is checked before libpq sees it.
pub struct PgResult {
    raw: NonNull<sys::PGresult>,
}

impl PgResult {
    /// Takes over a result; None for a null pointer.
    pub(super) fn new(raw: *mut sys::PGresult) -> Option<PgResult> {
        NonNull::new(raw).map(|raw| PgResult { raw })
    }

    fn as_ptr(&self) -> *mut sys::PGresult {
        self.raw.as_ptr()
    }

    pub fn status(&self) -> ResultStatus {
        // SAFETY: the result is valid.
        ResultStatus::new(unsafe { sys::PQresultStatus(self.as_ptr()) })
    }

    /// Number of rows.
    pub fn ntuples(&self) -> usize {
        // SAFETY: the result is valid.
        let rows = unsafe { sys::PQntuples(self.as_ptr()) };
        usize::try_from(rows).unwrap_or(0)
    }

    /// Number of columns.
    pub fn nfields(&self) -> usize {
        // SAFETY: the result is valid.
        let columns = unsafe { sys::PQnfields(self.as_ptr()) };
        usize::try_from(columns).unwrap_or(0)
    }

    /// OIDs of the columns' types, as the server has them.
    pub fn column_types(&self) -> impl Iterator<Item = u32> + '_ {
        // SAFETY: the result is valid; a column outside of it would have type 0.
        (0..self.nfields()).map(|column| unsafe { sys::PQftype(self.as_ptr(), column as c_int) })
    }

    /// The value of a column, None for NULL and for a place outside the result.
    pub fn value(&self, row: usize, column: usize) -> Option<&[u8]> {
        if row >= self.ntuples() || column >= self.nfields() {
            return None;
        }
        let row = c_int::try_from(row).ok()?;
        let column = c_int::try_from(column).ok()?;
        // SAFETY: the result is valid and the place is inside it.
        if unsafe { sys::PQgetisnull(self.as_ptr(), row, column) } != 0 {
            return None;
        }
        // SAFETY: as above.
        let value = unsafe { sys::PQgetvalue(self.as_ptr(), row, column) };
        // SAFETY: as above.
        let length = unsafe { sys::PQgetlength(self.as_ptr(), row, column) };
        let length = usize::try_from(length).ok()?;
        // SAFETY: the value has `length` bytes and lives as long as the result, which cannot change.
        (!value.is_null()).then(|| unsafe { std::slice::from_raw_parts(value.cast(), length) })
    }

    /// A value in text form, None for NULL and for a place outside the result.
    pub fn text(&self, row: usize, column: usize) -> Option<&CStr> {
        let value = self.value(row, column)?;
        // SAFETY: libpq puts a NUL after each value; a text value has none inside, and if it had, it would end there.
        Some(unsafe { CStr::from_ptr(value.as_ptr().cast()) })
    }

    /// The command tag (`INSERT 0 5`); empty for an answer without one.
    pub fn command_tag(&self) -> &[u8] {
        // SAFETY: the result is valid; the tag is part of it.
        let tag = unsafe { sys::PQcmdStatus(self.as_ptr()) };
        // SAFETY: null or NUL-terminated, and lives as long as the result.
        unsafe { bytes(tag) }.unwrap_or_default()
    }

    /// Rows that the command affected or returned; None for a command whose tag has no count.
    pub fn affected_rows(&self) -> Option<u64> {
        rows_of_tag(self.command_tag())
    }

    /// Is it the error with which the server ends the session?
    pub fn is_farewell(&self) -> bool {
        // SAFETY: the result is valid.
        unsafe { Severity::of(self.as_ptr()) == Severity::Fatal }
    }

    /// The fields of an error or notice. A failure that libpq itself found has a message only, and no SQLSTATE.
    pub fn diag(&self) -> Diag {
        // SAFETY: the pointer is valid as long as `self` is borrowed.
        unsafe { diag(self.as_ptr()) }
    }

    /// Name of the function in PostgreSQL's source that has raised an error: never translated.
    pub fn source_function(&self) -> Option<&[u8]> {
        // SAFETY: the pointer is valid as long as `self` is borrowed.
        let text = unsafe {
            sys::PQresultErrorField(self.as_ptr(), c_int::from(sys::field::SOURCE_FUNCTION))
        };
        // SAFETY: null or NUL-terminated text that lives as long as the result.
        unsafe { bytes(text) }
    }
}

impl Drop for PgResult {
    fn drop(&mut self) {
        // SAFETY: the result is owned and not used afterwards. PQclear cannot fail.
        unsafe { sys::PQclear(self.as_ptr()) }
    }
}

/// The fields of an error or notice.
///
/// # Safety
/// `result` is valid.
pub(super) unsafe fn diag(result: *const sys::PGresult) -> Diag {
    let field = |letter: u8| -> Option<Vec<u8>> {
        // SAFETY: by the contract.
        let text = unsafe { sys::PQresultErrorField(result, c_int::from(letter)) };
        // SAFETY: null or NUL-terminated text that lives as long as the result.
        unsafe { bytes(text) }.map(<[u8]>::to_vec)
    };
    let message = field(sys::field::MESSAGE_PRIMARY).unwrap_or_else(|| {
        // SAFETY: by the contract.
        let text = unsafe { sys::PQresultErrorMessage(result) };
        // SAFETY: null or NUL-terminated text that lives as long as the result.
        trimmed(unsafe { bytes(text) }.unwrap_or_default())
    });
    Diag {
        sqlstate: field(sys::field::SQLSTATE).and_then(|code| SqlState::parse(&code)),
        message,
        detail: field(sys::field::MESSAGE_DETAIL),
        hint: field(sys::field::MESSAGE_HINT),
        context: field(sys::field::CONTEXT),
        schema: field(sys::field::SCHEMA_NAME),
        table: field(sys::field::TABLE_NAME),
        column: field(sys::field::COLUMN_NAME),
        datatype: field(sys::field::DATATYPE_NAME),
        constraint: field(sys::field::CONSTRAINT_NAME),
    }
}

/// The bytes of a C string, None for a null pointer.
///
/// # Safety
/// `text` is null, or a NUL-terminated string that lives and stays unchanged for `'a`.
pub(super) unsafe fn bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: by the contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// libpq's messages end in a line end; errors of PostgreSQL do not.
pub(super) fn trimmed(message: &[u8]) -> Vec<u8> {
    message.trim_ascii_end().to_vec()
}

/// The row count at the end of a command tag. Read here, because `PQcmdTuples` reports a strange tag to the notice
/// receiver, which may be gone.
fn rows_of_tag(tag: &[u8]) -> Option<u64> {
    let (command, count) = match tag.iter().rposition(|&byte| byte == b' ') {
        Some(space) => (&tag[..space], &tag[space + 1..]),
        None => return None,
    };
    let command = command.split(|&byte| byte == b' ').next()?;
    let counted = matches!(
        command,
        b"INSERT" | b"UPDATE" | b"DELETE" | b"MERGE" | b"SELECT" | b"COPY" | b"FETCH" | b"MOVE"
    );
    if !counted || count.is_empty() || !count.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(count).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_counts_come_from_the_tag() {
        assert_eq!(rows_of_tag(b"INSERT 0 5"), Some(5));
        assert_eq!(rows_of_tag(b"UPDATE 0"), Some(0));
        assert_eq!(rows_of_tag(b"COPY 18446744073709551615"), Some(u64::MAX));
        assert_eq!(rows_of_tag(b"COPY 18446744073709551616"), None);
        assert_eq!(rows_of_tag(b"CREATE TABLE"), None);
        assert_eq!(rows_of_tag(b"COMMIT"), None);
        assert_eq!(rows_of_tag(b"UPDATE x"), None);
        assert_eq!(rows_of_tag(b"SET 3"), None);
        assert_eq!(rows_of_tag(b""), None);
    }

    #[test]
    fn unknown_statuses_are_kept_apart() {
        assert_eq!(
            ResultStatus::new(sys::PGRES_TUPLES_OK),
            ResultStatus::TuplesOk
        );
        assert_eq!(ResultStatus::new(12), ResultStatus::Unknown(12));
        assert_eq!(ResultStatus::new(-1), ResultStatus::Unknown(-1));
        assert!(!ResultStatus::Unknown(12).is_success());
    }

    #[test]
    fn messages_lose_their_line_end() {
        assert_eq!(trimmed(b"no route\n"), b"no route");
        assert_eq!(trimmed(b"\n"), b"");
    }
}
