//! Rows of one foreign table that wait to be sent, and what is known of those that were.

use crate::model::error::Result;
use crate::model::tuples::Tuples;
use crate::remote::budget::Share;
use crate::remote::spare;
use crate::remote::statement::Subject;
use crate::remote::stats::{FlushCause, WriteStats};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Memory is counted in such steps, so that this is not done for each narrow row.
const GROWTH: usize = 4 << 10;

/// How much waits after a row was added.
pub struct Size {
    pub rows: usize,
    pub bytes: usize,
    /// It takes noticeably more memory than before.
    pub has_grown: bool,
}

/// The rows, in wire form, with their counters.
pub struct Waiting {
    /// Local name of the foreign table.
    table: Rc<[u8]>,
    /// Number of fields of a row.
    width: usize,
    rows: RefCell<Tuples>,
    share: Share,
    /// Rows taken so far.
    sent: Cell<u64>,
    /// Rows that the shard has answered for, and those of them not yet reported to the executor.
    answered: Cell<u64>,
    unreported: Cell<u64>,
    stats: Cell<WriteStats>,
}

impl Waiting {
    pub fn new(table: Rc<[u8]>, width: usize) -> Waiting {
        Waiting {
            table,
            width,
            rows: RefCell::new(Tuples::new(width)),
            share: Share::default(),
            sent: Cell::new(0),
            answered: Cell::new(0),
            unreported: Cell::new(0),
            stats: Cell::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.borrow().is_empty()
    }

    /// Size of the rows in wire form.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.rows.borrow().bytes()
    }

    /// Adds a row, as [`Tuples::push`] does.
    #[inline]
    pub fn push(
        &self,
        fields: impl Iterator<Item = impl FnOnce(&mut Vec<u8>) -> Result<bool>>,
    ) -> Result<Size> {
        let mut rows = self.rows.borrow_mut();
        rows.push(fields)?;
        let bytes = rows.bytes();
        let has_grown = bytes > self.share.get();
        if has_grown {
            self.share.set(bytes.next_multiple_of(GROWTH));
        }
        Ok(Size {
            rows: rows.count(),
            bytes,
            has_grown,
        })
    }

    /// Takes all rows.
    pub fn take(&self) -> Tuples {
        self.share.set(0);
        self.rows
            .replace(Tuples::reusing(self.width, spare::take()))
    }

    /// Counts rows as sent, and says which they are.
    pub fn subject(&self, count: usize) -> Subject {
        let first = self.sent.get() + 1;
        let last = self.sent.get() + count as u64;
        self.sent.set(last);
        Subject {
            table: Some(self.table.clone()),
            rows: Some((first, last)),
            ..Subject::default()
        }
    }

    /// The shard has answered a batch with this number of rows.
    pub fn answered(&self, rows: u64) {
        self.answered.set(self.answered.get() + rows);
        self.unreported.set(self.unreported.get() + rows);
    }

    /// Rows that the shard has answered for and that have not been reported before.
    pub fn take_unreported(&self) -> u64 {
        self.unreported.take()
    }

    /// Rows sent so far, and rows that the shard has answered for as far as it has answered.
    pub fn totals(&self) -> (u64, u64) {
        (self.sent.get(), self.answered.get())
    }

    pub fn stats(&self) -> WriteStats {
        self.stats.get()
    }

    /// Counts a statement that carries rows.
    pub fn note(&self, cause: FlushCause, count: usize, bytes: usize) {
        let mut stats = self.stats.get();
        stats.count(cause, count as u64, bytes as u64);
        self.stats.set(stats);
    }

    /// Counts rows that are added to a statement under way.
    pub fn note_more(&self, count: usize, bytes: usize) {
        let mut stats = self.stats.get();
        stats.count_more(count as u64, bytes as u64);
        self.stats.set(stats);
    }
}
