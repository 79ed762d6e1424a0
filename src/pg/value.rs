//! Rows of a slot, and the wire forms of their values.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::wire::{self, append_words};
use crate::pg::catalog::Column;
use crate::pg::slot::Slot;
use crate::pg::typio::{Dependence, OutputFunction};
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};
use pgrx::varlena::{vardata_any, varsize_any_exhdr};
use std::ffi::{CStr, CString};
use std::marker::PhantomData;

/// The values of a slot, deformed.
pub struct Row<'a> {
    values: *const Datum,
    nulls: *const bool,
    count: usize,
    slot: PhantomData<&'a ()>,
}

impl Row<'_> {
    /// Deforms all attributes of what is in the slot.
    pub fn of(slot: &Slot) -> Row<'_> {
        let slot = slot.as_ptr();
        // SAFETY: the slot is valid, and keeps its row while it is borrowed; `slot_getallattrs` is this call behind a test.
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

    /// Is an attribute (from 0) NULL?
    pub fn is_null(&self, index: usize) -> bool {
        self.get(index).is_none()
    }

    /// The value of an attribute (from 0), None for NULL.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<Datum> {
        if index >= self.count {
            return None;
        }
        // SAFETY: the arrays have `count` entries.
        unsafe { (!self.nulls.add(index).read()).then(|| self.values.add(index).read()) }
    }
}

/// How the wire form of a value is made.
#[derive(Debug, Clone, Copy)]
enum Layout {
    /// Passed by value, this many bytes.
    Bool,
    Int1,
    Int2,
    Int4,
    Int8,
    /// A varlena whose contents are the wire form.
    Plain,
    /// A varlena from whose contents this makes the wire form.
    Contents(fn(&[u8], &mut Vec<u8>) -> Result<()>),
    /// Passed by reference: this many bytes in wire order.
    Bytes(usize),
    /// Passed by reference: this many words of eight bytes.
    Words(usize),
    Tid,
    TimeTz,
    Interval,
    /// The same for a shard that would take infinite ones for some long finite ones.
    FiniteInterval,
    Name,
    /// A version number, always 1, then what this output function makes.
    Versioned(u32),
    /// By this send function.
    Send(u32),
    /// In text form.
    Output,
}

/// Types that travel in binary form where the remote column has the same type: OID, name in pg_catalog, layout.
///
/// All have the same OID, binary form and meaning on all versions, and an array type. None is sent by a function that
/// would convert text to the encoding of the local client. Not among them, so sent as text:
/// - money: what it counts depends on lc_monetary;
/// - regclass and its kin, aclitem: they name objects, whose OIDs are other ones on the shard;
/// - int2vector, oidvector, tsquery: an empty one cannot be read back;
/// - xml: its binary form names an encoding, that of the local client;
/// - pg_node_tree and others that cannot be read at all;
/// - arrays: unnest would flatten them.
#[rustfmt::skip]
const BINARY_TYPES: [(Oid, &str, Layout); 58] = [
    (pg_sys::BOOLOID, "bool", Layout::Bool),
    (pg_sys::CHAROID, "\"char\"", Layout::Int1),
    (pg_sys::INT2OID, "int2", Layout::Int2),
    (pg_sys::INT4OID, "int4", Layout::Int4),
    (pg_sys::INT8OID, "int8", Layout::Int8),
    (pg_sys::FLOAT4OID, "float4", Layout::Int4),
    (pg_sys::FLOAT8OID, "float8", Layout::Int8),
    (pg_sys::NUMERICOID, "numeric", Layout::Contents(wire::numeric::append)),
    (pg_sys::OIDOID, "oid", Layout::Int4),
    (pg_sys::TIDOID, "tid", Layout::Tid),
    (pg_sys::XIDOID, "xid", Layout::Int4),
    (pg_sys::CIDOID, "cid", Layout::Int4),
    (pg_sys::XID8OID, "xid8", Layout::Int8),
    (pg_sys::PG_LSNOID, "pg_lsn", Layout::Int8),
    (pg_sys::PG_SNAPSHOTOID, "pg_snapshot", Layout::Send(pg_sys::F_PG_SNAPSHOT_SEND)),
    (pg_sys::TXID_SNAPSHOTOID, "txid_snapshot", Layout::Send(pg_sys::F_TXID_SNAPSHOT_SEND)),
    (pg_sys::DATEOID, "date", Layout::Int4),
    (pg_sys::TIMEOID, "time", Layout::Int8),
    (pg_sys::TIMETZOID, "timetz", Layout::TimeTz),
    (pg_sys::TIMESTAMPOID, "timestamp", Layout::Int8),
    (pg_sys::TIMESTAMPTZOID, "timestamptz", Layout::Int8),
    (pg_sys::INTERVALOID, "interval", Layout::Interval),
    (pg_sys::TEXTOID, "text", Layout::Plain),
    (pg_sys::VARCHAROID, "varchar", Layout::Plain),
    (pg_sys::BPCHAROID, "bpchar", Layout::Plain),
    (pg_sys::NAMEOID, "name", Layout::Name),
    (pg_sys::REFCURSOROID, "refcursor", Layout::Plain),
    (pg_sys::BYTEAOID, "bytea", Layout::Plain),
    (pg_sys::BITOID, "bit", Layout::Contents(wire::bits::append)),
    (pg_sys::VARBITOID, "varbit", Layout::Contents(wire::bits::append)),
    (pg_sys::UUIDOID, "uuid", Layout::Bytes(16)),
    (pg_sys::JSONOID, "json", Layout::Plain),
    (pg_sys::JSONBOID, "jsonb", Layout::Contents(wire::jsonb::append)),
    (pg_sys::JSONPATHOID, "jsonpath", Layout::Versioned(pg_sys::F_JSONPATH_OUT)),
    (pg_sys::TSVECTOROID, "tsvector", Layout::Contents(wire::tsvector::append)),
    (pg_sys::INETOID, "inet", Layout::Contents(wire::inet::append_inet)),
    (pg_sys::CIDROID, "cidr", Layout::Contents(wire::inet::append_cidr)),
    (pg_sys::MACADDROID, "macaddr", Layout::Bytes(6)),
    (pg_sys::MACADDR8OID, "macaddr8", Layout::Bytes(8)),
    (pg_sys::POINTOID, "point", Layout::Words(2)),
    (pg_sys::LSEGOID, "lseg", Layout::Words(4)),
    (pg_sys::BOXOID, "box", Layout::Words(4)),
    (pg_sys::LINEOID, "line", Layout::Words(3)),
    (pg_sys::CIRCLEOID, "circle", Layout::Words(3)),
    (pg_sys::PATHOID, "path", Layout::Contents(wire::geometry::append_path)),
    (pg_sys::POLYGONOID, "polygon", Layout::Contents(wire::geometry::append_polygon)),
    (pg_sys::INT4RANGEOID, "int4range", Layout::Contents(wire::range::append::<4>)),
    (pg_sys::INT8RANGEOID, "int8range", Layout::Contents(wire::range::append::<8>)),
    (pg_sys::DATERANGEOID, "daterange", Layout::Contents(wire::range::append::<4>)),
    (pg_sys::TSRANGEOID, "tsrange", Layout::Contents(wire::range::append::<8>)),
    (pg_sys::TSTZRANGEOID, "tstzrange", Layout::Contents(wire::range::append::<8>)),
    (pg_sys::NUMRANGEOID, "numrange", Layout::Send(pg_sys::F_RANGE_SEND)),
    (pg_sys::INT4MULTIRANGEOID, "int4multirange", MULTIRANGE),
    (pg_sys::INT8MULTIRANGEOID, "int8multirange", MULTIRANGE),
    (pg_sys::DATEMULTIRANGEOID, "datemultirange", MULTIRANGE),
    (pg_sys::TSMULTIRANGEOID, "tsmultirange", MULTIRANGE),
    (pg_sys::TSTZMULTIRANGEOID, "tstzmultirange", MULTIRANGE),
    (pg_sys::NUMMULTIRANGEOID, "nummultirange", MULTIRANGE),
];

const MULTIRANGE: Layout = Layout::Send(pg_sys::F_MULTIRANGE_SEND);

fn binary_type(type_oid: Oid) -> Option<(&'static str, Layout)> {
    BINARY_TYPES
        .iter()
        .find(|(oid, _, _)| *oid == type_oid)
        .map(|(_, name, layout)| (*name, *layout))
}

/// Name in pg_catalog, quoted where SQL needs that, of a type that may travel in binary form; None for all others.
pub fn binary_type_name(type_oid: Oid) -> Option<&'static str> {
    binary_type(type_oid).map(|(name, _)| name)
}

/// The first version whose intervals can be infinite: bit patterns that were finite intervals before.
const INFINITE_INTERVALS: i32 = 17_00_00;

/// Makes the wire form of one column's values.
#[derive(Debug)]
pub struct Encoder {
    /// Of the attribute, from 0.
    index: usize,
    type_oid: Oid,
    layout: Layout,
    /// For the text form.
    output: Option<OutputFunction>,
}

impl Encoder {
    /// For the binary form. None: the type has no binary form that we rely on.
    /// `shard_version` as in server_version_num.
    pub fn binary(column: &Column, shard_version: i32) -> Option<Encoder> {
        let has_infinite_intervals = cfg!(any(feature = "pg17", feature = "pg18"));
        let layout = match binary_type(column.type_oid)?.1 {
            Layout::Interval if has_infinite_intervals && shard_version < INFINITE_INTERVALS => {
                Layout::FiniteInterval
            }
            layout => layout,
        };
        Some(Encoder {
            index: index(column),
            type_oid: column.type_oid,
            layout,
            output: None,
        })
    }

    /// For the text form, under the settings in force when it is made.
    pub fn text(column: &Column) -> Encoder {
        Encoder::output(index(column), column.type_oid)
    }

    fn output(index: usize, type_oid: Oid) -> Encoder {
        Encoder {
            index,
            type_oid,
            layout: Layout::Output,
            output: Some(OutputFunction::of(type_oid)),
        }
    }

    /// For a value that is no column of a relation, at an index from 0: in binary form where its type has one.
    pub fn plain(index: usize, type_oid: Oid) -> Encoder {
        match binary_type(type_oid) {
            Some((_, layout)) => Encoder {
                index,
                type_oid,
                layout,
                output: None,
            },
            None => Encoder::output(index, type_oid),
        }
    }

    /// The same for a value at another index, from 0.
    pub fn at(self, index: usize) -> Encoder {
        Encoder { index, ..self }
    }

    /// The same column in text form.
    pub fn as_text(&self) -> Encoder {
        Encoder::output(self.index, self.type_oid)
    }

    /// Is the column's value NULL?
    #[inline]
    pub fn is_null(&self, row: &Row) -> bool {
        row.get(self.index).is_none()
    }

    /// What must be pinned while a wire form is made.
    pub fn dependence(&self) -> Dependence {
        match self.layout {
            Layout::Output => Dependence::of_text(self.type_oid),
            _ => Dependence::Nothing,
        }
    }

    /// Appends the column's value; false for NULL, which appends nothing. Leaves garbage in the current memory context.
    #[inline]
    pub fn append(&self, row: &Row, out: &mut Vec<u8>) -> Result<bool> {
        let Some(value) = row.get(self.index) else {
            return Ok(false);
        };
        // The most frequent types inline, all others by a call.
        match self.layout {
            Layout::Bool => out.push(u8::from(value.value() as u8 != 0)),
            Layout::Int4 => out.extend_from_slice(&(value.value() as u32).to_be_bytes()),
            Layout::Int8 => out.extend_from_slice(&(value.value() as u64).to_be_bytes()),
            // SAFETY: the row's attribute has this encoder's type, by the contract of `Slot::new`.
            Layout::Plain => out.extend_from_slice(unsafe { contents(value) }),
            // SAFETY: likewise.
            layout => unsafe { self.append_other(layout, value, out)? },
        }
        Ok(true)
    }

    /// # Safety
    /// `value` is not null and of the column's type.
    unsafe fn append_other(&self, layout: Layout, value: Datum, out: &mut Vec<u8>) -> Result<()> {
        // SAFETY: by the contract.
        unsafe {
            match &self.output {
                Some(output) => output.append(value, out),
                None => append_other(layout, value, out)?,
            }
        }
        Ok(())
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

pub(super) fn index(column: &Column) -> usize {
    // Of a system column, which no row has, it is past the end.
    usize::try_from(column.attnum - 1).unwrap_or(usize::MAX)
}

/// # Safety
/// `value` is not null and of a type that has this layout.
unsafe fn append_other(layout: Layout, value: Datum, out: &mut Vec<u8>) -> Result<()> {
    // SAFETY: by the contract; sizes are those of the types' C declarations.
    unsafe {
        match layout {
            Layout::Bool => out.push(u8::from(value.value() as u8 != 0)),
            Layout::Int1 => out.push(value.value() as u8),
            Layout::Int2 => out.extend_from_slice(&(value.value() as u16).to_be_bytes()),
            Layout::Int4 => out.extend_from_slice(&(value.value() as u32).to_be_bytes()),
            Layout::Int8 => out.extend_from_slice(&(value.value() as u64).to_be_bytes()),
            Layout::Plain => out.extend_from_slice(contents(value)),
            Layout::Contents(append) => append(contents(value), out)?,
            Layout::Bytes(size) => out.extend_from_slice(fixed(value, size)),
            Layout::Words(count) => append_words::<8>(fixed(value, 8 * count), out),
            Layout::Tid => append_words::<2>(fixed(value, 6), out),
            Layout::TimeTz => {
                let time = &*value.cast_mut_ptr::<pg_sys::TimeTzADT>();
                out.extend_from_slice(&time.time.to_be_bytes());
                out.extend_from_slice(&time.zone.to_be_bytes());
            }
            Layout::Interval | Layout::FiniteInterval => {
                let interval = &*value.cast_mut_ptr::<pg_sys::Interval>();
                if matches!(layout, Layout::FiniteInterval) && is_infinite(interval) {
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
            Layout::Name => {
                out.extend_from_slice(CStr::from_ptr(value.cast_mut_ptr()).to_bytes());
            }
            Layout::Versioned(function) => {
                out.push(1);
                append_output(Oid::from_u32(function), value, out);
            }
            Layout::Send(function) => {
                let sent = pg_sys::OidSendFunctionCall(Oid::from_u32(function), value);
                out.extend_from_slice(contents(Datum::from(sent)));
            }
            Layout::Output => {}
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
/// `value` is of a type that is passed by reference and has `size` bytes; it lives as long as the slice.
unsafe fn fixed<'a>(value: Datum, size: usize) -> &'a [u8] {
    // SAFETY: by the contract.
    unsafe { std::slice::from_raw_parts(value.cast_mut_ptr(), size) }
}

/// What follows the header of a varlena.
///
/// # Safety
/// `value` is a varlena, possibly toasted. It, and the current memory context, live as long as the slice.
#[inline]
unsafe fn contents<'a>(value: Datum) -> &'a [u8] {
    let raw = value.cast_mut_ptr::<u8>();
    // SAFETY: by the contract. The lowest bits of the first byte tell the headers apart: 1 alone is a pointer to toast,
    // 0b10 is compressed.
    unsafe {
        let first = raw.read();
        if !cfg!(target_endian = "little") {
            detoasted(value)
        } else if first & 0x03 == 0 {
            let size = raw.cast::<u32>().read_unaligned() >> 2;
            std::slice::from_raw_parts(raw.add(4), (size as usize).saturating_sub(4))
        } else if first & 0x01 == 0x01 && first != 0x01 {
            std::slice::from_raw_parts(raw.add(1), usize::from(first >> 1) - 1)
        } else {
            detoasted(value)
        }
    }
}

/// # Safety
/// As for [`contents`].
#[cold]
unsafe fn detoasted<'a>(value: Datum) -> &'a [u8] {
    // SAFETY: by the contract; what comes back is plain, with a long or a short header.
    unsafe {
        let plain = pg_sys::pg_detoast_datum_packed(value.cast_mut_ptr());
        std::slice::from_raw_parts(vardata_any(plain).cast(), varsize_any_exhdr(plain))
    }
}

/// # Safety
/// `function` is the output function of the type of `value`, which is not null.
unsafe fn append_output(function: Oid, value: Datum, out: &mut Vec<u8>) {
    // SAFETY: by the contract; the text is NUL-terminated.
    unsafe {
        let text = pg_sys::OidOutputFunctionCall(function, value);
        out.extend_from_slice(CStr::from_ptr(text).to_bytes());
    }
}

#[cfg(feature = "pg_test")]
mod against_send;
