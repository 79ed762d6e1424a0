//! Tuples kept for another pass, in memory up to `work_mem` and in temporary files beyond.

use crate::model::error::Result;
use crate::pg::caught::caught;
use crate::pg::memory::MemoryContext;
use crate::pg::tuple::{form, Place, Tuple};
use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::Datum;

/// A tuplestore of a relation's tuples, each with its place on the shard in two further columns, because stored tuples
/// have no header.
///
/// Freed by [`Store::end`]; after an error with the memory context and resource owner that it was made in.
pub struct Store {
    state: *mut pg_sys::Tuplestorestate,
    /// Of the relation.
    descriptor: pg_sys::TupleDesc,
    /// With the place.
    stored: pg_sys::TupleDesc,
    slot: *mut pg_sys::TupleTableSlot,
    values: Vec<Datum>,
    nulls: Vec<bool>,
    /// Holds the tuple that was read last.
    row: MemoryContext,
}

impl Store {
    /// # Safety
    /// `relation` stays open, and `context` valid, as long as the store is used.
    pub unsafe fn new(relation: pg_sys::Relation, context: pg_sys::MemoryContext) -> Store {
        // SAFETY: by the contract; all of it is allocated in `context`.
        unsafe {
            let entered = MemoryContext::of_core(context).enter();
            let descriptor = (*relation).rd_att;
            let natts = (*descriptor).natts;
            let stored = pg_sys::CreateTemplateTupleDesc(natts + 2);
            for attnum in 1..=natts {
                pg_sys::TupleDescCopyEntry(
                    stored,
                    attnum as pg_sys::AttrNumber,
                    descriptor,
                    attnum as pg_sys::AttrNumber,
                );
            }
            let place = [(c"ctid", pg_sys::TIDOID), (c"tableoid", pg_sys::OIDOID)];
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
                slot,
                values: vec![Datum::null(); natts as usize + 2],
                nulls: vec![true; natts as usize + 2],
                row: MemoryContext::child_of(context, c"shard_fdw stored row"),
            }
        }
    }

    /// Forgets all tuples.
    pub fn clear(&mut self) {
        // SAFETY: the store is valid.
        unsafe { pg_sys::tuplestore_clear(self.state) }
    }

    /// Adds a tuple at the end.
    pub fn put(&mut self, tuple: Tuple) {
        let natts = self.values.len() - 2;
        // SAFETY: the tuple is of the relation, the arrays have an entry for each attribute and two for the place; the
        // ctid is passed by reference and copied.
        unsafe {
            let mut ctid = (*tuple.as_ptr()).t_self;
            pg_sys::heap_deform_tuple(
                tuple.as_ptr(),
                self.descriptor,
                self.values.as_mut_ptr(),
                self.nulls.as_mut_ptr(),
            );
            self.values[natts] = Datum::from(&raw mut ctid);
            self.nulls[natts] = false;
            let table = (*(*tuple.as_ptr()).t_data).t_choice.t_heap.t_xmin;
            self.values[natts + 1] = Datum::from(table);
            self.nulls[natts + 1] = false;
            pg_sys::tuplestore_putvalues(
                self.state,
                self.stored,
                self.values.as_mut_ptr(),
                self.nulls.as_mut_ptr(),
            );
        }
    }

    /// Reads from the first tuple again.
    pub fn rewind(&mut self) {
        // SAFETY: the store is valid.
        unsafe { pg_sys::tuplestore_rescan(self.state) }
    }

    /// The next tuple, None at the end. It is valid until the next call.
    pub fn next(&mut self) -> Result<Option<Tuple>> {
        let natts = self.values.len() - 2;
        self.row.reset();
        let _entered = self.row.enter();
        // SAFETY: the slot has the store's descriptor; its values stay valid until it is filled again, and are copied.
        unsafe {
            if !pg_sys::tuplestore_gettupleslot(self.state, true, false, self.slot) {
                return Ok(None);
            }
            pg_sys::slot_getallattrs(self.slot);
            let values = (*self.slot).tts_values;
            let nulls = (*self.slot).tts_isnull;
            let ctid = *(*values.add(natts)).cast_mut_ptr::<pg_sys::ItemPointerData>();
            let place = Place {
                ctid: Some(ctid),
                table: (*values.add(natts + 1)).value() as u32,
            };
            let tuple =
                caught(|| pg_guard_ffi_boundary(|| form(self.descriptor, values, nulls, place)))?;
            Ok(Some(Tuple(tuple)))
        }
    }

    /// Frees memory and files.
    pub fn end(self) {
        // SAFETY: both are valid and not used afterwards.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::tuplestore_end(self.state);
        }
    }
}
