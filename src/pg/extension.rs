//! Extensions of the local database.

use crate::model::error::Result;
use crate::pg::catalog::c_string;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

/// The OID of the extension of this name, or None if it is not installed here.
pub fn oid(name: &[u8]) -> Result<Option<Oid>> {
    let name = c_string(name)?;
    // SAFETY: the name is NUL-terminated; with missing_ok nothing is raised for an unknown one.
    let oid = unsafe { pg_sys::get_extension_oid(name.as_ptr(), true) };
    Ok((oid != Oid::INVALID).then_some(oid))
}
