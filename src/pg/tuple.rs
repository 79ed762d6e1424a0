//! Rows that arrive as text, as tuples of a foreign table.

use crate::model::error::{FdwError, Result};
use crate::model::sql::Sql;
use crate::model::table::{CTID, TABLEOID};
use crate::pg::catalog;
use crate::pg::caught::caught;
use crate::pg::memory::MemoryContext;
use crate::pg::typio::Transmission;
use crate::pg::version;
use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{Datum, Oid};
use std::cell::Cell;
use std::ffi::{c_char, CStr};

extern "C-unwind" {
    // Called many times inside one guard, instead of through the guard that pgrx puts around each call.
    fn InputFunctionCall(
        flinfo: *mut pg_sys::FmgrInfo,
        text: *mut c_char,
        typioparam: Oid,
        typmod: i32,
    ) -> Datum;
    fn heap_form_tuple(
        descriptor: pg_sys::TupleDesc,
        values: *mut Datum,
        isnull: *mut bool,
    ) -> pg_sys::HeapTuple;
    fn MemoryContextReset(context: pg_sys::MemoryContext);
}

/// Rows in text form.
pub trait TextRows {
    fn row_count(&self) -> usize;
    fn column_count(&self) -> usize;
    /// None for NULL.
    fn text(&self, row: usize, column: usize) -> Option<&CStr>;
}

/// A tuple in a memory context that the owner of the value keeps alive.
#[derive(Clone, Copy)]
pub struct Tuple(pub(super) pg_sys::HeapTuple);

impl Tuple {
    pub fn as_ptr(self) -> pg_sys::HeapTuple {
        self.0
    }

    /// Its size in bytes.
    pub fn bytes(self) -> usize {
        // SAFETY: the owner of the value keeps the tuple alive.
        unsafe { (*self.0).t_len as usize }
    }
}

/// A column that is read.
struct Input {
    attnum: i16,
    function: pg_sys::FmgrInfo,
    io_param: Oid,
    typmod: i32,
}

/// A row's place on its shard, as far as it was asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub ctid: Option<pg_sys::ItemPointerData>,
    /// OID of the table that holds the row; 0: not known.
    pub table: u32,
}

/// Turns rows into tuples of one relation. Columns that are not read are NULL.
pub struct Decoder {
    relid: Oid,
    descriptor: pg_sys::TupleDesc,
    inputs: Vec<Input>,
    values: Vec<Datum>,
    nulls: Vec<bool>,
    /// For what input functions leave behind; emptied after each row.
    scratch: MemoryContext,
}

impl Decoder {
    /// `columns`: what the columns of the rows are, by number; [`CTID`] and [`TABLEOID`] for the row's place on the
    /// shard.
    ///
    /// # Safety
    /// `relation` stays open, and `context` valid, as long as the decoder is used.
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
                } else if attnum >= 1 && attnum as usize <= natts {
                    let attribute = version::tupdesc_attribute(descriptor, attnum as usize - 1);
                    (attribute.atttypid, attribute.atttypmod)
                } else {
                    return Err(FdwError::internal(format!(
                        "invalid column number {attnum}"
                    )));
                };
                let mut function = Oid::INVALID;
                let mut io_param = Oid::INVALID;
                pg_sys::getTypeInputInfo(type_oid, &mut function, &mut io_param);
                let mut input = Input {
                    attnum,
                    function: pg_sys::FmgrInfo::default(),
                    io_param,
                    typmod,
                };
                pg_sys::fmgr_info_cxt(function, &mut input.function, context);
                inputs.push(input);
            }
            Ok(Decoder {
                relid: (*relation).rd_id,
                descriptor,
                inputs,
                values: vec![Datum::null(); natts],
                nulls: vec![true; natts],
                scratch: MemoryContext::child_of(context, c"shard_fdw row"),
            })
        }
    }

    /// All rows as tuples in `target`. A value that its type refuses is an error whose CONTEXT names the column.
    pub fn decode(&mut self, rows: &dyn TextRows, target: MemoryContext) -> Result<Vec<Tuple>> {
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
        let mut tuples = Vec::with_capacity(rows.row_count());
        let column = Cell::new(None);
        let outcome = {
            let _transmission = Transmission::begin();
            let _entered = target.enter();
            // SAFETY: the closure owns nothing with a destructor, and only the functions declared above can raise.
            caught(|| unsafe {
                pg_guard_ffi_boundary(|| {
                    for row in 0..rows.row_count() {
                        tuples.push(Tuple(self.decode_row(rows, row, target, &column)));
                    }
                })
            })
        };
        match outcome {
            Ok(()) => Ok(tuples),
            Err(error) => Err(self.add_context(error, column.get())),
        }
    }

    /// # Safety
    /// Must run inside a guard; `target` is the current memory context.
    unsafe fn decode_row(
        &mut self,
        rows: &dyn TextRows,
        row: usize,
        target: MemoryContext,
        column: &Cell<Option<i16>>,
    ) -> pg_sys::HeapTuple {
        let mut place = Place::default();
        // SAFETY: the functions were looked up for the types of the columns, `values` and `nulls` have one place for
        // each attribute, and the ctid is read before the scratch context is emptied.
        unsafe {
            pg_sys::CurrentMemoryContext = self.scratch.as_ptr();
            for (position, input) in self.inputs.iter_mut().enumerate() {
                column.set(Some(input.attnum));
                let text = rows.text(row, position);
                // Input functions get NULLs as well: a domain may refuse them.
                let value = InputFunctionCall(
                    &mut input.function,
                    text.map_or(std::ptr::null_mut(), |text| text.as_ptr().cast_mut()),
                    input.io_param,
                    input.typmod,
                );
                if input.attnum == CTID {
                    place.ctid = text.map(|_| *value.cast_mut_ptr::<pg_sys::ItemPointerData>());
                } else if input.attnum == TABLEOID {
                    place.table = value.value() as u32;
                } else {
                    self.values[input.attnum as usize - 1] = value;
                    self.nulls[input.attnum as usize - 1] = text.is_none();
                }
            }
            column.set(None);
            pg_sys::CurrentMemoryContext = target.as_ptr();
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

    fn add_context(&self, error: FdwError, column: Option<i16>) -> FdwError {
        let relation = catalog::relation(self.relid);
        let mut line = Sql::new();
        match (column, relation) {
            (Some(system @ (CTID | TABLEOID)), Ok(relation)) => {
                let name = if system == CTID { "ctid" } else { "tableoid" };
                line.push(&format!("column \"{name}\" of foreign table "))
                    .push_ident(&relation.name);
            }
            (Some(attnum), Ok(relation)) => {
                let name = relation.column(attnum).map(|column| column.name.clone());
                line.push("column ")
                    .push_ident(&name.unwrap_or_default())
                    .push(" of foreign table ")
                    .push_ident(&relation.name);
            }
            (None, Ok(relation)) => {
                line.push("foreign table ").push_ident(&relation.name);
            }
            (_, Err(_)) => return error,
        }
        error.with_context(line.into_bytes())
    }
}

/// A tuple in the current memory context, with the row's place on the shard if it is known. A header has no field for
/// the OID of the remote table (`tableoid` is that of the foreign table), so it stands where `xmin` is read from, by
/// which name a plan carries it to the target of UPDATE and DELETE. Other system columns read as zero.
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
        // A new tuple has its type's identity where a stored one has its transactions.
        header.t_choice.t_heap = pg_sys::HeapTupleFields {
            t_xmin: place.table.into(),
            ..Default::default()
        };
        tuple
    }
}
