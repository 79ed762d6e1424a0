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

/// The extension that a function belongs to, 0 if to none.
pub fn of_function(function: Oid) -> Oid {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, function) }
}

#[cfg(feature = "pg_test")]
#[pgrx::pg_schema]
mod tests {
    use super::*;
    use pgrx::pg_test;
    use pgrx::spi::Spi;

    #[pg_test]
    fn extensions_are_found_by_name() {
        let expected =
            Spi::get_one::<Oid>("SELECT oid FROM pg_extension WHERE extname = 'plpgsql'")
                .expect("the query works");
        assert!(expected.is_some());
        assert_eq!(oid(b"plpgsql").expect("no error"), expected);
        assert_eq!(oid(b"no such extension").expect("no error"), None);
        assert!(oid(b"nul\0").is_err());
    }
}
