//! Rows of an answer as tuples, many at a time.

use crate::model::error::Result;
use crate::pg::memory::MemoryContext;
use crate::pg::slot::Slot;
use crate::pg::tuple::{Decoder, TextRows};
use pgrx::pg_sys;
use std::ffi::CStr;
use std::ops::Range;

/// The rows that were read last, and the slot in which a plan node shows one of them at a time.
///
/// The slot does not own what it shows here, and core may leave it in there: so it is emptied before the rows are freed.
/// After an error it may show a row until the memory of both is freed.
pub struct TupleBatch {
    decoder: Decoder,
    slot: Slot,
    tuples: Vec<pg_sys::HeapTuple>,
    /// Holds the tuples, and nothing else.
    context: MemoryContext,
}

impl TupleBatch {
    /// # Safety
    /// Decoder and slot are for the same relation, and the slot is one for tuples with a header. `parent` is valid, and not
    /// reset or deleted as long as the value is used.
    pub unsafe fn new(
        decoder: Decoder,
        slot: Slot,
        parent: pg_sys::MemoryContext,
        name: &'static CStr,
    ) -> TupleBatch {
        TupleBatch {
            decoder,
            slot,
            tuples: Vec::new(),
            // SAFETY: by the contract.
            context: unsafe { MemoryContext::child_of(parent, name) },
        }
    }

    /// Replaces the rows by some of others. A value that its type refuses is an error whose CONTEXT names the column; then
    /// there are none.
    pub fn fill(&mut self, rows: &dyn TextRows, range: Range<usize>) -> Result<()> {
        self.clear();
        // SAFETY: the context is valid.
        self.tuples = unsafe { self.decoder.decode(rows, range, self.context.as_ptr())? };
        Ok(())
    }

    /// Frees the rows.
    pub fn clear(&mut self) {
        self.slot.clear();
        self.tuples.clear();
        self.context.reset();
    }

    /// Shows a row, counted from 0, in the slot; nothing if there are not so many.
    pub fn show(&mut self, index: usize) {
        match self.tuples.get(index) {
            // SAFETY: the tuple is kept until `clear`, which empties the slot first.
            Some(&tuple) => unsafe { self.slot.lend(tuple) },
            None => self.slot.clear(),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Size of the rows in bytes.
    pub fn bytes(&self) -> usize {
        // SAFETY: the tuples are kept until `clear`.
        let size = |&tuple: &pg_sys::HeapTuple| unsafe { (*tuple).t_len as usize };
        self.tuples.iter().map(size).sum()
    }

    pub(super) fn tuples(&self) -> &[pg_sys::HeapTuple] {
        &self.tuples
    }

    /// For rows from elsewhere.
    pub(super) fn slot(&mut self) -> &mut Slot {
        &mut self.slot
    }
}
