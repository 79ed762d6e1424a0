//! What a session knows of the rows that wait in a relation buffer.

use crate::remote::copyable::CopyQuestion;
use crate::remote::statement::{CopyIn, Statement};
use crate::remote::stats::FlushCause;
use std::rc::Rc;

/// What a buffer has to send.
pub enum Batch {
    Insert(Statement),
    Copy(CopyIn),
    /// Not rows, but whether COPY can be used for them.
    Question(Vec<Statement>, Rc<CopyQuestion>),
}

/// Are both the same buffer? Only addresses tell, and those of the objects alone.
pub fn is_same(one: &Rc<dyn PendingRows>, other: &Rc<dyn PendingRows>) -> bool {
    std::ptr::addr_eq(Rc::as_ptr(one), Rc::as_ptr(other))
}

/// Rows accepted and not yet sent. The write side implements it; the session calls it when the rows must go.
pub trait PendingRows {
    /// Nesting level of the statement that the rows belong to.
    fn level(&self) -> i32;

    /// Command id of that statement: scans with a greater one see the rows.
    fn command_id(&self) -> u32;

    fn is_empty(&self) -> bool;

    /// Size of the rows in wire form.
    fn bytes(&self) -> usize;

    /// Takes the rows as batches.
    fn take(&self, cause: FlushCause) -> Vec<Batch>;

    /// Takes the rows to add them to the COPY that is open for them.
    fn take_more(&self) -> Option<CopyIn>;

    /// A batch has been answered with this number of rows.
    fn answered(&self, rows: u64);

    /// Drops the rows: their (sub)transaction is undone.
    fn discard(&self);
}
