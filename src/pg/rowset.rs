//! Rows of a SQL function that returns a set.

use crate::model::error::{FdwError, Result};
use pgrx::pg_sys;
use pgrx::pg_sys::Datum;
use pgrx::IntoDatum;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    Null,
    Bool(bool),
    Int4(i32),
    Int8(i64),
    Float8(f64),
    /// Text in the encoding of the database.
    Text(Vec<u8>),
}

impl Field {
    /// A counter; one beyond the type's range becomes its largest value.
    pub fn counter(value: u64) -> Field {
        Field::Int8(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// Text, or null.
    pub fn text(text: Option<Vec<u8>>) -> Field {
        text.map_or(Field::Null, Field::Text)
    }

    fn datum(&self) -> Option<Datum> {
        match self {
            Field::Null => None,
            Field::Bool(value) => value.into_datum(),
            Field::Int4(value) => value.into_datum(),
            Field::Int8(value) => value.into_datum(),
            Field::Float8(value) => value.into_datum(),
            Field::Text(text) => {
                let length = i32::try_from(text.len()).unwrap_or(i32::MAX);
                // SAFETY: so many bytes are there; they are copied into the current memory context.
                let text =
                    unsafe { pg_sys::cstring_to_text_with_len(text.as_ptr().cast(), length) };
                Some(Datum::from(text))
            }
        }
    }
}

/// Returns `rows` as the whole result of the function. Each has as many fields as the function has columns, of their
/// types.
///
/// # Safety
/// The call is one of a function declared to return a set of rows.
pub unsafe fn return_rows(fcinfo: pg_sys::FunctionCallInfo, rows: &[Vec<Field>]) -> Result<Datum> {
    // SAFETY: core checks that the caller takes a set, and makes store and descriptor, which live as long as the
    // query; the arrays are as long as the descriptor.
    unsafe {
        pg_sys::InitMaterializedSRF(fcinfo, 0);
        let info = (*fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
        for row in rows {
            if usize::try_from((*(*info).setDesc).natts) != Ok(row.len()) {
                return Err(FdwError::internal(
                    "a function returns another number of columns than it was declared with",
                ));
            }
            let datums: Vec<Option<Datum>> = row.iter().map(Field::datum).collect();
            let mut values: Vec<Datum> = datums
                .iter()
                .map(|datum| datum.unwrap_or(Datum::null()))
                .collect();
            let mut nulls: Vec<bool> = datums.iter().map(Option::is_none).collect();
            pg_sys::tuplestore_putvalues(
                (*info).setResult,
                (*info).setDesc,
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
        }
    }
    Ok(Datum::null())
}
