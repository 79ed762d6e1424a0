//! Slots of the executor, each of which shows one row at a time.
//!
//! Who owns the row? Either the slot, which frees it when it is emptied or takes another one; or a [`TupleBatch`], which
//! empties the slot before it frees the row.
//!
//! [`TupleBatch`]: crate::pg::batch::TupleBatch

use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

/// A slot of rows of one relation.
pub struct Slot(*mut pg_sys::TupleTableSlot);

impl Slot {
    /// # Safety
    /// `slot` is valid as long as the value is used, and nobody else changes what is in it while a
    /// [`Row`](crate::pg::value::Row) of it is in use. Its rows are those of the relation that it is read or filled for.
    pub unsafe fn new(slot: *mut pg_sys::TupleTableSlot) -> Slot {
        Slot(slot)
    }

    pub(super) fn as_ptr(&self) -> *mut pg_sys::TupleTableSlot {
        self.0
    }

    /// Takes the row out: `ExecClearTuple`, which is an inline function.
    pub fn clear(&mut self) {
        // SAFETY: the slot is valid; every kind of slot has this method, which frees at most what the slot owns.
        unsafe {
            if let Some(clear) = (*(*self.0).tts_ops).clear {
                pg_guard_ffi_boundary(|| clear(self.0));
            }
        }
    }

    /// The memory for what the slot owns.
    pub(super) fn context(&self) -> pg_sys::MemoryContext {
        // SAFETY: the slot is valid, and so is the context as long.
        unsafe { (*self.0).tts_mcxt }
    }

    /// Gives a row to the slot.
    ///
    /// # Safety
    /// The tuple is one of the slot's relation, allocated by itself in [`Slot::context`], and nobody else's.
    pub(super) unsafe fn give(&mut self, tuple: pg_sys::HeapTuple) {
        // SAFETY: by the contract. A slot without a header, as that of a partitioned table whose row a leaf takes, has a place for
        // the ctid alone, and the tuple is gone when it has taken the values.
        unsafe {
            let ctid = (*tuple).t_self;
            pg_sys::ExecForceStoreHeapTuple(tuple, self.0, true);
            (*self.0).tts_tid = ctid;
        }
    }

    /// Shows a row that stays its owner's.
    ///
    /// # Safety
    /// The tuple is one of the slot's relation, and its owner keeps it until the slot has been emptied or has taken another
    /// row. The slot is one for tuples with a header.
    pub(super) unsafe fn lend(&mut self, tuple: pg_sys::HeapTuple) {
        // SAFETY: by the contract.
        unsafe {
            pg_sys::ExecStoreHeapTuple(tuple, self.0, false);
        }
    }
}
