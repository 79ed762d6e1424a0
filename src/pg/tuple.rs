//! Rows that arrive as text, as tuples of a foreign table.

use crate::model::error::{FdwError, Result};
use crate::model::table::{CTID, TABLEOID, XMIN};
use crate::pg::input::Input;
use crate::pg::memory::MemoryContext;
use crate::pg::slot::Slot;
use crate::pg::typio::{Dependence, Transmission};
use crate::pg::version;
use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::Datum;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ops::Range;

extern "C-unwind" {
    // Called many times inside one guard, instead of through the guard that pgrx puts around each call.
    fn heap_form_tuple(
        descriptor: pg_sys::TupleDesc,
        values: *mut Datum,
        isnull: *mut bool,
    ) -> pg_sys::HeapTuple;
    fn MemoryContextReset(context: pg_sys::MemoryContext);
    fn errcontext_msg(format: *const c_char, ...) -> c_int;
}

/// How many rows are read under other settings before they become tuples under those of the user.
const ROWS_AT_A_TIME: usize = 100;

/// Rows in text form.
pub trait TextRows {
    fn row_count(&self) -> usize;
    fn column_count(&self) -> usize;
    /// None for NULL.
    fn text(&self, row: usize, column: usize) -> Option<&CStr>;
}

/// A column that is read.
struct InputColumn {
    attnum: i16,
    input: Input,
}

/// A row's place on its shard and its version there, as far as they were asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub ctid: Option<pg_sys::ItemPointerData>,
    /// OID of the table that holds the row; 0: not known.
    pub table: u32,
    /// Its `xmin`; 0: not known.
    pub xmin: u32,
}

impl Place {
    /// What [`form`] has put into a tuple.
    ///
    /// # Safety
    /// `tuple` was made by [`form`].
    pub unsafe fn of(tuple: pg_sys::HeapTuple) -> Place {
        // SAFETY: by the contract; the header was written as that of a stored tuple.
        unsafe {
            let fields = (*(*tuple).t_data).t_choice.t_heap;
            Place {
                ctid: Some((*tuple).t_self),
                table: fields.t_field3.t_cid,
                xmin: fields.t_xmin.into(),
            }
        }
    }
}

/// The text form of a ctid.
///
/// # Safety
/// `ctid` is a value of type `tid`.
pub unsafe fn ctid_text(ctid: Datum) -> CString {
    // SAFETY: by the contract.
    let place = unsafe { *ctid.cast_mut_ptr::<pg_sys::ItemPointerData>() };
    let block = u32::from(place.ip_blkid.bi_hi) << 16 | u32::from(place.ip_blkid.bi_lo);
    CString::new(format!("({block},{})", place.ip_posid)).unwrap_or_default()
}

/// Turns rows into tuples of one relation. Columns that are not read are NULL.
pub struct Decoder {
    relation: pg_sys::Relation,
    descriptor: pg_sys::TupleDesc,
    inputs: Vec<InputColumn>,
    /// How many of them depend on settings.
    dependent: usize,
    /// The values of those, read before the others: for each row so many.
    early: Vec<Datum>,
    /// Holds them.
    early_context: MemoryContext,
    values: Vec<Datum>,
    nulls: Vec<bool>,
    /// For what input functions leave behind; emptied after each row.
    scratch: MemoryContext,
}

impl Decoder {
    /// `columns`: what the columns of the rows are, by number; [`CTID`] and [`TABLEOID`] for the row's place on the
    /// shard, [`XMIN`] for its version.
    ///
    /// # Safety
    /// `relation` stays open, and `context` valid, as long as the decoder is used, which is for slots of that relation only.
    pub unsafe fn new(
        relation: pg_sys::Relation,
        columns: &[i16],
        context: pg_sys::MemoryContext,
    ) -> Result<Decoder> {
        // SAFETY: by the contract; attribute numbers are checked against the descriptor.
        unsafe {
            let descriptor = (*relation).rd_att;
            let natts = (*descriptor).natts as usize;
            let mut inputs = Vec::with_capacity(columns.len());
            for &attnum in columns {
                let (type_oid, typmod) = if attnum == CTID {
                    (pg_sys::TIDOID, -1)
                } else if attnum == TABLEOID {
                    (pg_sys::OIDOID, -1)
                } else if attnum == XMIN {
                    (pg_sys::XIDOID, -1)
                } else if attnum >= 1 && attnum as usize <= natts {
                    let attribute = version::tupdesc_attribute(descriptor, attnum as usize - 1);
                    (attribute.atttypid, attribute.atttypmod)
                } else {
                    return Err(FdwError::internal(format!(
                        "invalid column number {attnum}"
                    )));
                };
                let input = Input::of(type_oid, typmod, context);
                inputs.push(InputColumn { attnum, input });
            }
            let is_dependent =
                |column: &&InputColumn| column.input.dependence() != Dependence::Nothing;
            Ok(Decoder {
                relation,
                descriptor,
                dependent: inputs.iter().filter(is_dependent).count(),
                inputs,
                early: Vec::new(),
                early_context: MemoryContext::child_of(context, c"shard_fdw values read early"),
                values: vec![Datum::null(); natts],
                nulls: vec![true; natts],
                scratch: MemoryContext::child_of(context, c"shard_fdw row"),
            })
        }
    }

    /// Gives the last row to a slot; false if there is none. Errors as for [`TupleBatch::fill`].
    ///
    /// [`TupleBatch::fill`]: crate::pg::batch::TupleBatch::fill
    pub fn give_last(&mut self, rows: &dyn TextRows, slot: &mut Slot) -> Result<bool> {
        let count = rows.row_count();
        let last = count.saturating_sub(1)..count;
        // SAFETY: the tuple is of the slot's relation and made for it.
        unsafe {
            let tuples = self.decode(rows, last, slot.context())?;
            tuples.iter().for_each(|&tuple| slot.give(tuple));
            Ok(!tuples.is_empty())
        }
    }

    /// Some of the rows as tuples, each allocated by itself in `target`. They are the caller's.
    ///
    /// # Safety
    /// `target` is a valid memory context.
    pub(super) unsafe fn decode(
        &mut self,
        rows: &dyn TextRows,
        range: Range<usize>,
        target: pg_sys::MemoryContext,
    ) -> Result<Vec<pg_sys::HeapTuple>> {
        // A table without needed columns is asked for one NULL.
        let expected = self.inputs.len().max(1);
        if rows.column_count() != expected {
            return Err(FdwError::Protocol {
                message: "remote query result does not match the foreign table".into(),
                detail: Some(
                    format!(
                        "It has {} columns instead of {expected}.",
                        rows.column_count()
                    )
                    .into_bytes(),
                ),
            });
        }
        let mut tuples = Vec::with_capacity(range.len());
        let mut rest = range;
        let _with_nulls = Transmission::begin_for_arrays();
        while !rest.is_empty() {
            let end = match self.dependent {
                0 => rest.end,
                _ => rest.end.min(rest.start + ROWS_AT_A_TIME),
            };
            let part = rest.start..end;
            rest.start = end;
            for dependence in [Dependence::Names, Dependence::Money, Dependence::Settings] {
                self.read_early(rows, part.clone(), dependence);
            }
            // SAFETY: by the contract.
            let _entered = unsafe { MemoryContext::of_core(target) }.enter();
            // SAFETY: the closure owns nothing with a destructor, and only functions that are not pgrx's can raise.
            unsafe {
                pg_guard_ffi_boundary(|| {
                    let place = ReadingAt::new(self.relation);
                    let mut entry = place.entry();
                    pg_sys::error_context_stack = &raw mut entry;
                    let mut early = self.early.as_ptr();
                    for row in part {
                        tuples.push(self.decode_row(rows, row, early, target, &place));
                        early = early.add(self.dependent);
                    }
                });
            }
            if self.dependent > 0 {
                self.early_context.reset();
            }
        }
        Ok(tuples)
    }

    /// Reads the values that depend so much on settings.
    fn read_early(&mut self, rows: &dyn TextRows, part: Range<usize>, dependence: Dependence) {
        let depends = |column: &InputColumn| column.input.dependence() == dependence;
        if !self.inputs.iter().any(depends) {
            return;
        }
        self.early
            .resize(part.len() * self.dependent, Datum::null());
        let _transmission = Transmission::begin_for(dependence);
        let _entered = self.early_context.enter();
        // SAFETY: the closure owns nothing with a destructor, and only functions that are not pgrx's can raise. There is a
        // place for each value.
        unsafe {
            pg_guard_ffi_boundary(|| {
                let place = ReadingAt::new(self.relation);
                let mut entry = place.entry();
                pg_sys::error_context_stack = &raw mut entry;
                let mut early = self.early.as_mut_ptr();
                for row in part {
                    for (position, column) in self.inputs.iter_mut().enumerate() {
                        let own = column.input.dependence();
                        if own == dependence {
                            place.column.set(Some(column.attnum));
                            early.write(column.input.read(rows.text(row, position)));
                        }
                        if own != Dependence::Nothing {
                            early = early.add(1);
                        }
                    }
                }
            });
        }
    }

    /// `early`: the values of the row that have been read before.
    ///
    /// # Safety
    /// Must run inside a guard; `target` is the current memory context.
    unsafe fn decode_row(
        &mut self,
        rows: &dyn TextRows,
        row: usize,
        mut early: *const Datum,
        target: pg_sys::MemoryContext,
        at: &ReadingAt,
    ) -> pg_sys::HeapTuple {
        let mut place = Place::default();
        // SAFETY: the functions were looked up for the types of the columns, `values` and `nulls` have one place for
        // each attribute, and the ctid is read before the scratch context is emptied.
        unsafe {
            pg_sys::CurrentMemoryContext = self.scratch.as_ptr();
            for (position, InputColumn { attnum, input }) in self.inputs.iter_mut().enumerate() {
                at.column.set(Some(*attnum));
                let text = rows.text(row, position);
                let value = match input.dependence() {
                    Dependence::Nothing => input.read(text),
                    _ => {
                        let value = early.read();
                        early = early.add(1);
                        input.check(value, text.is_none());
                        value
                    }
                };
                if *attnum == CTID {
                    place.ctid = text.map(|_| *value.cast_mut_ptr::<pg_sys::ItemPointerData>());
                } else if *attnum == TABLEOID {
                    place.table = value.value() as u32;
                } else if *attnum == XMIN {
                    place.xmin = value.value() as u32;
                } else {
                    self.values[*attnum as usize - 1] = value;
                    self.nulls[*attnum as usize - 1] = text.is_none();
                }
            }
            at.column.set(None);
            pg_sys::CurrentMemoryContext = target;
            let tuple = form(
                self.descriptor,
                self.values.as_mut_ptr(),
                self.nulls.as_mut_ptr(),
                place,
            );
            MemoryContextReset(self.scratch.as_ptr());
            tuple
        }
    }
}

/// What is being read, for the CONTEXT of errors.
struct ReadingAt {
    relation: pg_sys::Relation,
    column: Cell<Option<i16>>,
}

impl ReadingAt {
    fn new(relation: pg_sys::Relation) -> ReadingAt {
        ReadingAt {
            relation,
            column: Cell::new(None),
        }
    }

    /// An entry for the stack of those who add to the CONTEXT, which holds a pointer to the value. The guard that it is put
    /// there in takes it off.
    fn entry(&self) -> pg_sys::ErrorContextCallback {
        pg_sys::ErrorContextCallback {
            // SAFETY: a plain variable of the backend.
            previous: unsafe { pg_sys::error_context_stack },
            callback: Some(name_column),
            arg: std::ptr::from_ref(self).cast_mut().cast(),
        }
    }
}

/// # Safety
/// `argument` is a [`ReadingAt`] whose relation is open. An error may leave this frame.
unsafe extern "C-unwind" fn name_column(argument: *mut c_void) {
    // SAFETY: by the contract; names are NUL-terminated, and core copies them.
    unsafe {
        let at = &*argument.cast::<ReadingAt>();
        let table = (*(*at.relation).rd_rel).relname.data.as_ptr();
        let column = match at.column.get() {
            None => {
                errcontext_msg(c"foreign table \"%s\"".as_ptr(), table);
                return;
            }
            Some(CTID) => c"ctid".as_ptr(),
            Some(TABLEOID) => c"tableoid".as_ptr(),
            Some(XMIN) => c"xmin".as_ptr(),
            Some(attnum) => {
                let descriptor = (*at.relation).rd_att;
                let attribute = version::tupdesc_attribute(descriptor, attnum as usize - 1);
                attribute.attname.data.as_ptr()
            }
        };
        let format = c"column \"%s\" of foreign table \"%s\"";
        errcontext_msg(format.as_ptr(), column, table);
    }
}

/// A tuple in the current memory context, with the row's place on the shard if it is known. A header has no field for
/// the OID of the remote table (`tableoid` is that of the foreign table), so it stands where `cmin` is read from, by
/// which name a plan carries it to the target of UPDATE and DELETE. Nobody else reads `cmin`, `cmax` or `xmax`: see
/// `fdw/system_columns.rs`.
///
/// # Safety
/// Must run inside a guard. `values` and `nulls` have a place for each attribute of `descriptor`.
pub(super) unsafe fn form(
    descriptor: pg_sys::TupleDesc,
    values: *mut Datum,
    nulls: *mut bool,
    place: Place,
) -> pg_sys::HeapTuple {
    // SAFETY: by the contract; the header belongs to the new tuple.
    unsafe {
        let tuple = heap_form_tuple(descriptor, values, nulls);
        let header = &mut *(*tuple).t_data;
        if let Some(ctid) = place.ctid {
            (*tuple).t_self = ctid;
            header.t_ctid = ctid;
        }
        // A new tuple has its type's identity where a stored one has its transactions, and in newer minor releases says so
        // (HEAP_IS_DATUM), by two bits that no stored one has both.
        header.t_infomask &= !(pg_sys::HEAP_XMAX_COMMITTED | pg_sys::HEAP_XMAX_INVALID) as u16;
        header.t_choice.t_heap = pg_sys::HeapTupleFields {
            t_xmin: place.xmin.into(),
            t_xmax: pg_sys::InvalidTransactionId,
            t_field3: pg_sys::HeapTupleFields__bindgen_ty_1 { t_cid: place.table },
        };
        tuple
    }
}
