//! What a session knows of the rows that wait in a relation buffer.

use crate::model::error::Result;
use crate::remote::copyable::CopyQuestion;
use crate::remote::statement::{CopyIn, Statement};
use crate::remote::stats::FlushCause;
use pgrx::pg_sys::Oid;
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

/// What the place of rows among those of other tables may matter to, on the shard. Free ones come first in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Order {
    /// Nothing.
    #[default]
    Free,
    /// Constraint triggers: a foreign key needs the rows that were written before.
    AfterOthers,
    /// Triggers somebody has made, which may read and write anything.
    Strict,
}

/// What is special about rows that may wait beyond the end of their statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub relation: Oid,
    pub order: Order,
    /// The shard has not been asked since the remote transaction began, and the order is the strictest for that.
    pub is_assumed: bool,
}

impl Kept {
    /// As long as it is not known what the order may matter to.
    pub fn assumed(relation: Oid) -> Kept {
        Kept {
            relation,
            order: Order::Strict,
            is_assumed: true,
        }
    }
}

/// Rows accepted and not yet sent. The write side implements it; the session calls it when the rows must go.
pub trait PendingRows {
    /// Nesting level of the statement that the rows belong to.
    fn level(&self) -> i32;

    /// Command id of that statement, or of the last one: scans with a greater one see all of the rows.
    fn command_id(&self) -> u32;

    /// Command id of the first statement whose rows wait: scans with a smaller one, or this, see none of the rows.
    fn oldest_command_id(&self) -> u32 {
        self.command_id()
    }

    /// May the rows wait beyond the end of their statement? They may be those of several then.
    fn kept(&self) -> Option<Kept> {
        None
    }

    /// It is known now, or not any more, what the order of such rows may matter to.
    fn set_kept(&self, _kept: Kept) {}

    /// All rows sent have been answered for: an error if that is not what had been counted on.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn is_empty(&self) -> bool;

    /// Size of the rows in wire form.
    fn bytes(&self) -> usize;

    /// Takes the rows as batches.
    fn take(&self, cause: FlushCause) -> Result<Vec<Batch>>;

    /// Takes the rows to add them to the COPY that is open for them.
    fn take_more(&self) -> Option<CopyIn>;

    /// A batch has been answered with this number of rows.
    fn answered(&self, rows: u64);

    /// Drops the rows, and takes no more: their (sub)transaction is over.
    fn discard(&self);
}
