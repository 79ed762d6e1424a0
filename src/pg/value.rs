//! Rows of a slot, and the wire forms of their values.

use crate::model::error::{FdwError, Result, SqlState};
use crate::pg::catalog::Column;
use crate::pg::raise::bytes;
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};
use pgrx::varlena::{vardata_any, varsize_any_exhdr};
use std::ffi::CString;
use std::marker::PhantomData;

/// The values of a slot, deformed.
pub struct Row<'a> {
    values: *const Datum,
    nulls: *const bool,
    count: usize,
    slot: PhantomData<&'a ()>,
}

impl Row<'_> {
    /// Deforms all attributes.
    ///
    /// # Safety
    /// The slot holds a row of the relation whose [`Encoder`]s will read it, and keeps it for the lifetime chosen.
    pub unsafe fn of<'a>(slot: *mut pg_sys::TupleTableSlot) -> Row<'a> {
        // SAFETY: by the contract; `slot_getallattrs` is this call behind a test.
        unsafe {
            let count = (*(*slot).tts_tupleDescriptor).natts;
            if i32::from((*slot).tts_nvalid) < count {
                pg_sys::slot_getsomeattrs_int(slot, count);
            }
            Row {
                values: (*slot).tts_values,
                nulls: (*slot).tts_isnull,
                count: count as usize,
                slot: PhantomData,
            }
        }
    }

    /// The value of an attribute (from 1), None for NULL.
    fn get(&self, attnum: i16) -> Option<Datum> {
        let index = usize::try_from(attnum - 1).ok()?;
        if index >= self.count {
            return None;
        }
        // SAFETY: the arrays have `count` entries.
        unsafe { (!self.nulls.add(index).read()).then(|| self.values.add(index).read()) }
    }
}

/// How the binary form of a type is made from a value in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Passed by value, this many bytes.
    Bool,
    Int2,
    Int4,
    Int8,
    /// Passed by reference: a fixed number of bytes in wire order.
    Uuid,
    Interval,
    /// The same for a shard that would take infinite ones for some long finite ones.
    FiniteInterval,
    Name,
    /// A varlena whose contents are the wire form.
    Plain,
    /// The version number of jsonb's wire form, then its text.
    Jsonb,
    /// The type's own send function, for types whose wire form is not text (which a send function would convert to
    /// the local client's encoding).
    Send(pg_sys::Oid),
}

/// Types that travel in binary form where the remote column has the same type: (OID, name in pg_catalog).
const BINARY_TYPES: [(Oid, &str); 22] = [
    (pg_sys::BOOLOID, "bool"),
    (pg_sys::BYTEAOID, "bytea"),
    (pg_sys::NAMEOID, "name"),
    (pg_sys::INT8OID, "int8"),
    (pg_sys::INT2OID, "int2"),
    (pg_sys::INT4OID, "int4"),
    (pg_sys::TEXTOID, "text"),
    (pg_sys::OIDOID, "oid"),
    (pg_sys::JSONOID, "json"),
    (pg_sys::FLOAT4OID, "float4"),
    (pg_sys::FLOAT8OID, "float8"),
    (pg_sys::INETOID, "inet"),
    (pg_sys::BPCHAROID, "bpchar"),
    (pg_sys::VARCHAROID, "varchar"),
    (pg_sys::DATEOID, "date"),
    (pg_sys::TIMEOID, "time"),
    (pg_sys::TIMESTAMPOID, "timestamp"),
    (pg_sys::TIMESTAMPTZOID, "timestamptz"),
    (pg_sys::INTERVALOID, "interval"),
    (pg_sys::NUMERICOID, "numeric"),
    (pg_sys::UUIDOID, "uuid"),
    (pg_sys::JSONBOID, "jsonb"),
];

/// Name in pg_catalog of a type that may travel in binary form; None for all others.
pub fn binary_type_name(type_oid: Oid) -> Option<&'static str> {
    BINARY_TYPES
        .iter()
        .find(|(oid, _)| *oid == type_oid)
        .map(|(_, name)| *name)
}

/// The first version whose intervals can be infinite: bit patterns that were finite intervals before.
const INFINITE_INTERVALS: i32 = 17_00_00;

/// Makes the wire form of one column's values.
#[derive(Debug, Clone, Copy)]
pub struct Encoder {
    attnum: i16,
    type_oid: Oid,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Binary(Layout),
    /// By the type's output function.
    Text(pg_sys::Oid),
}

impl Encoder {
    /// For the binary form. None: the type has no binary form that we rely on.
    /// `shard_version` as in server_version_num.
    pub fn binary(column: &Column, shard_version: i32) -> Option<Encoder> {
        binary_type_name(column.type_oid)?;
        Some(Encoder {
            attnum: column.attnum,
            type_oid: column.type_oid,
            kind: Kind::Binary(layout(column.type_oid, shard_version)),
        })
    }

    /// For the text form, under the settings in force when it is made.
    pub fn text(column: &Column) -> Encoder {
        Encoder::output(column.attnum, column.type_oid)
    }

    fn output(attnum: i16, type_oid: Oid) -> Encoder {
        let mut function = Oid::INVALID;
        let mut is_varlena = false;
        // SAFETY: a catalog lookup into two variables.
        unsafe { pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut is_varlena) };
        Encoder {
            attnum,
            type_oid,
            kind: Kind::Text(function),
        }
    }

    /// The same column in text form.
    pub fn as_text(&self) -> Encoder {
        Encoder::output(self.attnum, self.type_oid)
    }

    /// Does the wire form depend on settings that must be pinned meanwhile?
    pub fn depends_on_settings(&self) -> bool {
        matches!(self.kind, Kind::Text(_))
    }

    pub fn is_null(&self, row: &Row) -> bool {
        row.get(self.attnum).is_none()
    }

    /// Appends the column's value; false for NULL, which appends nothing. Leaves garbage in the current memory context.
    pub fn append(&self, row: &Row, out: &mut Vec<u8>) -> Result<bool> {
        let Some(value) = row.get(self.attnum) else {
            return Ok(false);
        };
        // SAFETY: the row's attribute has this encoder's type, by the contract of `Row::of`.
        unsafe {
            match self.kind {
                Kind::Binary(layout) => append_binary(layout, value, out)?,
                Kind::Text(function) => append_output(function, value, out),
            }
        }
        Ok(true)
    }

    /// The column's value in text form, None for NULL. Leaves garbage in the current memory context.
    pub fn text_value(&self, row: &Row) -> Result<Option<CString>> {
        let mut text = Vec::new();
        if !self.append(row, &mut text)? {
            return Ok(None);
        }
        CString::new(text)
            .map(Some)
            .map_err(|_| FdwError::internal("a value's text form holds a NUL character"))
    }
}

fn layout(type_oid: Oid, shard_version: i32) -> Layout {
    let has_infinite_intervals = cfg!(any(feature = "pg17", feature = "pg18"));
    match type_oid {
        pg_sys::INTERVALOID if has_infinite_intervals && shard_version < INFINITE_INTERVALS => {
            Layout::FiniteInterval
        }
        pg_sys::BOOLOID => Layout::Bool,
        pg_sys::INT2OID => Layout::Int2,
        pg_sys::INT4OID | pg_sys::OIDOID | pg_sys::FLOAT4OID | pg_sys::DATEOID => Layout::Int4,
        pg_sys::INT8OID
        | pg_sys::FLOAT8OID
        | pg_sys::TIMEOID
        | pg_sys::TIMESTAMPOID
        | pg_sys::TIMESTAMPTZOID => Layout::Int8,
        pg_sys::UUIDOID => Layout::Uuid,
        pg_sys::INTERVALOID => Layout::Interval,
        pg_sys::NAMEOID => Layout::Name,
        pg_sys::JSONBOID => Layout::Jsonb,
        pg_sys::NUMERICOID | pg_sys::INETOID => Layout::Send(send_function(type_oid)),
        _ => Layout::Plain,
    }
}

fn send_function(type_oid: Oid) -> Oid {
    let mut function = Oid::INVALID;
    let mut is_varlena = false;
    // SAFETY: a catalog lookup into two variables.
    unsafe { pg_sys::getTypeBinaryOutputInfo(type_oid, &mut function, &mut is_varlena) };
    function
}

/// # Safety
/// `value` is not null and of the type that has this layout.
unsafe fn append_binary(layout: Layout, value: Datum, out: &mut Vec<u8>) -> Result<()> {
    // SAFETY: by the contract; sizes are those of the types' C declarations (`Interval` is int64, int32, int32).
    unsafe {
        match layout {
            Layout::Bool => out.push(u8::from(value.value() as u8 != 0)),
            Layout::Int2 => out.extend_from_slice(&(value.value() as u16).to_be_bytes()),
            Layout::Int4 => out.extend_from_slice(&(value.value() as u32).to_be_bytes()),
            Layout::Int8 => out.extend_from_slice(&(value.value() as u64).to_be_bytes()),
            Layout::Uuid => {
                out.extend_from_slice(std::slice::from_raw_parts(value.cast_mut_ptr::<u8>(), 16));
            }
            Layout::Interval | Layout::FiniteInterval => {
                let interval = &*value.cast_mut_ptr::<pg_sys::Interval>();
                if layout == Layout::FiniteInterval && is_infinite(interval) {
                    return Err(FdwError::local(
                        SqlState::DATETIME_OUT_OF_RANGE,
                        "cannot send an infinite interval to the server",
                    )
                    .with_detail("PostgreSQL has infinite intervals from version 17 on."));
                }
                out.extend_from_slice(&interval.time.to_be_bytes());
                out.extend_from_slice(&interval.day.to_be_bytes());
                out.extend_from_slice(&interval.month.to_be_bytes());
            }
            Layout::Name => out.extend_from_slice(&bytes(value.cast_mut_ptr())),
            Layout::Plain => append_varlena(value, out),
            Layout::Jsonb => {
                out.push(1);
                append_output(pg_sys::Oid::from(pg_sys::F_JSONB_OUT), value, out);
            }
            Layout::Send(function) => {
                let sent = pg_sys::OidSendFunctionCall(function, value);
                append_varlena(Datum::from(sent), out);
            }
        }
    }
    Ok(())
}

/// `INTERVAL_NOT_FINITE` of `datatype/timestamp.h`.
fn is_infinite(interval: &pg_sys::Interval) -> bool {
    let fields = (interval.month, interval.day, interval.time);
    fields == (i32::MIN, i32::MIN, i64::MIN) || fields == (i32::MAX, i32::MAX, i64::MAX)
}

/// # Safety
/// `value` is a varlena, possibly toasted.
unsafe fn append_varlena(value: Datum, out: &mut Vec<u8>) {
    // SAFETY: by the contract; a plain varlena comes back as it is.
    unsafe {
        let raw = value.cast_mut_ptr::<pg_sys::varlena>();
        let first = raw.cast::<u8>().read();
        // Short and aligned plain headers need no function call; 0x01 is a pointer to toast, 0b10 compressed.
        let is_plain = (first & 0x01 == 0x01 && first != 0x01) || first & 0x03 == 0;
        let plain = if is_plain && cfg!(target_endian = "little") {
            raw
        } else {
            pg_sys::pg_detoast_datum_packed(raw)
        };
        let length = varsize_any_exhdr(plain);
        let data = vardata_any(plain).cast::<u8>();
        out.extend_from_slice(std::slice::from_raw_parts(data, length));
    }
}

/// # Safety
/// `function` is the output function of the type of `value`, which is not null.
unsafe fn append_output(function: Oid, value: Datum, out: &mut Vec<u8>) {
    // SAFETY: by the contract; the text is NUL-terminated.
    unsafe {
        let text = pg_sys::OidOutputFunctionCall(function, value);
        out.extend_from_slice(std::ffi::CStr::from_ptr(text).to_bytes());
    }
}
