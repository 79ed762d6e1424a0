//! What a session knows of the rows that wait in a relation buffer.

use crate::model::error::Result;
use crate::remote::statement::Statement;
use crate::remote::stats::FlushCause;

/// Rows accepted and not yet sent. The write side implements it; the session calls it when the rows must go.
pub trait PendingRows {
    /// Nesting level of the statement that the rows belong to.
    fn level(&self) -> i32;

    /// Command id of that statement: scans with a greater one see the rows.
    fn command_id(&self) -> u32;

    fn is_empty(&self) -> bool;

    /// Takes the rows as statements, each of which carries one batch.
    fn take(&self, cause: FlushCause) -> Result<Vec<Statement>>;

    /// A batch has been answered with this number of rows.
    fn answered(&self, rows: u64);

    /// Drops the rows: their (sub)transaction is undone.
    fn discard(&self);
}
