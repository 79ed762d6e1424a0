//! Tuples kept for another pass, in memory up to `work_mem` and in temporary files beyond.

use crate::pg::batch::TupleBatch;
use crate::pg::memory::MemoryContext;
use crate::pg::slot::Slot;
use crate::pg::tuple::{form, Place};
use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::Datum;
use std::ffi::c_int;

/// Further columns for what stands in the header of a tuple.
const PLACE_COLUMNS: usize = 3;

/// A tuplestore of a relation's tuples, each with its place and version on the shard in further columns, because stored tuples
/// have no header.
///
/// Freed by [`Store::end`]; after an error with the memory context and resource owner that it was made in.
pub struct Store {
    state: *mut pg_sys::Tuplestorestate,
    /// Of the relation.
    descriptor: pg_sys::TupleDesc,
    /// With the place.
    stored: pg_sys::TupleDesc,
    /// Empty but while a tuple is read.
    slot: Slot,
    values: Vec<Datum>,
    nulls: Vec<bool>,
}

impl Store {
    /// # Safety
    /// `relation` stays open, and `context` valid, as long as the store is used, which is with batches of that relation only.
    pub unsafe fn new(relation: pg_sys::Relation, context: pg_sys::MemoryContext) -> Store {
        // SAFETY: by the contract; all of it is allocated in `context`.
        unsafe {
            let entered = MemoryContext::of_core(context).enter();
            let descriptor = (*relation).rd_att;
            let natts = (*descriptor).natts;
            let place = [
                (c"ctid", pg_sys::TIDOID),
                (c"tableoid", pg_sys::OIDOID),
                (c"xmin", pg_sys::XIDOID),
            ];
            let stored = pg_sys::CreateTemplateTupleDesc(natts + PLACE_COLUMNS as c_int);
            for attnum in 1..=natts {
                pg_sys::TupleDescCopyEntry(
                    stored,
                    attnum as pg_sys::AttrNumber,
                    descriptor,
                    attnum as pg_sys::AttrNumber,
                );
            }
            for ((name, type_oid), attnum) in place.into_iter().zip(natts + 1..) {
                pg_sys::TupleDescInitEntry(
                    stored,
                    attnum as pg_sys::AttrNumber,
                    name.as_ptr(),
                    type_oid,
                    -1,
                    0,
                );
            }
            let state = pg_sys::tuplestore_begin_heap(true, false, pg_sys::work_mem);
            let slot = pg_sys::MakeSingleTupleTableSlot(stored, &pg_sys::TTSOpsMinimalTuple);
            drop(entered);
            Store {
                state,
                descriptor,
                stored,
                slot: Slot::new(slot),
                values: vec![Datum::null(); natts as usize + PLACE_COLUMNS],
                nulls: vec![true; natts as usize + PLACE_COLUMNS],
            }
        }
    }

    /// Forgets all tuples.
    pub fn clear(&mut self) {
        // SAFETY: the store is valid.
        unsafe { pg_sys::tuplestore_clear(self.state) }
    }

    /// Adds the rows of a batch at the end.
    pub fn put(&mut self, batch: &TupleBatch) {
        let natts = self.values.len() - PLACE_COLUMNS;
        for &tuple in batch.tuples() {
            // SAFETY: the tuples are of the relation, the arrays have an entry for each attribute and for the place.
            // Everything is copied, the ctid too, which is passed by reference.
            unsafe {
                let place = Place::of(tuple);
                let mut ctid = (*tuple).t_self;
                pg_sys::heap_deform_tuple(
                    tuple,
                    self.descriptor,
                    self.values.as_mut_ptr(),
                    self.nulls.as_mut_ptr(),
                );
                self.values[natts] = Datum::from(&raw mut ctid);
                self.values[natts + 1] = Datum::from(place.table);
                self.values[natts + 2] = Datum::from(place.xmin);
                self.nulls[natts..].fill(false);
                pg_sys::tuplestore_putvalues(
                    self.state,
                    self.stored,
                    self.values.as_mut_ptr(),
                    self.nulls.as_mut_ptr(),
                );
            }
        }
    }

    /// Reads from the first tuple again.
    pub fn rewind(&mut self) {
        // SAFETY: the store is valid.
        unsafe { pg_sys::tuplestore_rescan(self.state) }
    }

    /// Shows the next row in the slot of a batch, which then owns it; false at the end.
    pub fn show_next(&mut self, batch: &mut TupleBatch) -> bool {
        let to = batch.slot();
        let natts = self.values.len() - PLACE_COLUMNS;
        let slot = self.slot.as_ptr();
        // SAFETY: the slot has the store's descriptor. A tuple that is read from a file becomes its own, so it is allocated in
        // its context; all values are copied into that of `to` before the slot is emptied.
        unsafe {
            let entered = MemoryContext::of_core(self.slot.context()).enter();
            if !pg_sys::tuplestore_gettupleslot(self.state, true, false, slot) {
                return false;
            }
            drop(entered);
            pg_sys::slot_getallattrs(slot);
            let (values, nulls) = ((*slot).tts_values, (*slot).tts_isnull);
            let place = Place {
                ctid: Some(*(*values.add(natts)).cast_mut_ptr::<pg_sys::ItemPointerData>()),
                table: (*values.add(natts + 1)).value() as u32,
                xmin: (*values.add(natts + 2)).value() as u32,
            };
            let _entered = MemoryContext::of_core(to.context()).enter();
            to.give(pg_guard_ffi_boundary(|| {
                form(self.descriptor, values, nulls, place)
            }));
        }
        self.slot.clear();
        true
    }

    /// Frees memory and files.
    pub fn end(self) {
        // SAFETY: both are valid and not used afterwards.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot.as_ptr());
            pg_sys::tuplestore_end(self.state);
        }
    }
}
