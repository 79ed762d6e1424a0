//! What a session knows of the rows that wait in a relation buffer.

use crate::remote::statement::Statement;
use crate::remote::stats::FlushCause;

/// Rows accepted and not yet sent. The write side implements it; the session calls it when the rows must go.
pub trait PendingRows {
    /// Nesting level of the statement that the rows belong to.
    fn level(&self) -> i32;

    /// Command id of that statement: scans with a greater one see the rows.
    fn command_id(&self) -> u32;

    fn is_empty(&self) -> bool;

    /// Size of the rows in wire form.
    fn bytes(&self) -> usize;

    /// Takes the rows as statements, each of which carries one batch.
    fn take(&self, cause: FlushCause) -> Vec<Statement>;

    /// A batch has been answered with this number of rows.
    fn answered(&self, rows: u64);

    /// Drops the rows: their (sub)transaction is undone.
    fn discard(&self);
}
