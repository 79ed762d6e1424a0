//! Hashes of keys: equal keys have equal ones.

use crate::pg::catalog::Column;
use crate::pg::value::{binary_type_name, index, Row};
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};

/// What a NULL counts as: all of them are equal, as with NULLS NOT DISTINCT.
const OF_NULL: u64 = 0;

/// Hashes the values of some columns, by the equality of their types' default operators. Of strings all bytes count, as
/// under every deterministic collation.
pub struct KeyHash {
    /// Place in the row, and the type's entry in core's type cache, which is never freed.
    columns: Vec<(usize, *mut pg_sys::TypeCacheEntry)>,
}

impl KeyHash {
    /// None: a column's type has no hash function, or is none whose values look the same on every server.
    pub fn new<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Option<KeyHash> {
        let columns = columns.into_iter().map(|column| {
            is_exact(column.type_oid).then_some(())?;
            // SAFETY: a catalog lookup of a type that exists.
            let entry = unsafe {
                pg_sys::lookup_type_cache(
                    column.type_oid,
                    pg_sys::TYPECACHE_HASH_EXTENDED_PROC_FINFO as i32,
                )
            };
            // SAFETY: the entry is valid.
            let function = unsafe { (*entry).hash_extended_proc_finfo.fn_oid };
            (function != Oid::INVALID).then_some((index(column), entry))
        });
        Some(KeyHash {
            columns: columns.collect::<Option<Vec<_>>>()?,
        })
    }

    /// The hash of a row's key. Leaves garbage in the current memory context.
    pub fn of(&self, row: &Row) -> u64 {
        self.columns.iter().fold(0, |hash: u64, (place, entry)| {
            let value = row.get(*place).map_or(OF_NULL, |value| {
                // SAFETY: by the contract of `Slot::new` the value is of the column's type, whose function this is.
                let hash = unsafe {
                    pg_sys::FunctionCall2Coll(
                        &raw mut (**entry).hash_extended_proc_finfo,
                        pg_sys::DEFAULT_COLLATION_OID,
                        value,
                        Datum::from(0_u64),
                    )
                };
                hash.value() as u64
            });
            hash.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ value
        })
    }
}

/// Does a value of the type mean the same on every server, whichever form it travels in? An array does if its elements do.
fn is_exact(type_oid: Oid) -> bool {
    // SAFETY: a catalog lookup.
    let element = unsafe { pg_sys::get_element_type(type_oid) };
    let built_in = type_oid.to_u32() < pg_sys::FirstNormalObjectId;
    binary_type_name(type_oid).is_some()
        || built_in && element != Oid::INVALID && binary_type_name(element).is_some()
}

/// Is a collation deterministic, or none at all?
pub fn is_deterministic(collation: Oid) -> bool {
    // SAFETY: a catalog lookup of a collation that a column has.
    collation == Oid::INVALID || unsafe { pg_sys::get_collation_isdeterministic(collation) }
}
