//! The locale of the local database.

use crate::model::locale::{DatabaseLocale, Facts};
use crate::pg::raise::bytes;
use crate::pg::{backend, version};
use pgrx::pg_sys;
use pgrx::pg_sys::Datum;
use std::cell::OnceCell;
use std::ffi::{c_int, CString};
use std::rc::Rc;

thread_local! {
    static LOCALE: OnceCell<Option<Rc<DatabaseLocale>>> = const { OnceCell::new() };
}

/// The locale of this database, which cannot change while a backend is in it; None if it cannot be told.
pub fn of_database() -> Option<Rc<DatabaseLocale>> {
    let known = LOCALE.with(|locale| locale.get().cloned());
    known.unwrap_or_else(|| {
        let found = look_up().map(Rc::new);
        LOCALE.with(|locale| locale.get_or_init(|| found).clone())
    })
}

fn look_up() -> Option<DatabaseLocale> {
    // SAFETY: a syscache lookup; all is copied before the entry is released, and an error leaves that to the resource owner.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::DATABASEOID as c_int;
        let tuple = pg_sys::SearchSysCache1(cache, Datum::from(pg_sys::MyDatabaseId));
        if tuple.is_null() {
            return None;
        }
        let text = |attribute: u32| -> Option<Vec<u8>> {
            let mut is_null = false;
            let value = pg_sys::SysCacheGetAttr(cache, tuple, attribute as i16, &mut is_null);
            (!is_null).then(|| {
                let text = pg_sys::text_to_cstring(value.cast_mut_ptr());
                bytes(text)
            })
        };
        let provider =
            (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>()).datlocprovider as u8;
        let collate = text(pg_sys::Anum_pg_database_datcollate);
        let ctype = text(pg_sys::Anum_pg_database_datctype);
        let locale = text(version::DATABASE_LOCALE);
        let rules = version::DATABASE_RULES.and_then(text);
        pg_sys::ReleaseSysCache(tuple);

        let (collate, ctype) = (collate?, ctype?);
        let versioned = match provider {
            b'c' => &collate,
            _ => locale.as_ref()?,
        };
        let versioned = CString::new(versioned.clone()).ok()?;
        let actual = version::collation_version(provider, versioned.as_ptr());
        let actual = (!actual.is_null()).then(|| bytes(actual));
        Some(DatabaseLocale::new(&Facts {
            encoding: backend::encoding_name().to_bytes(),
            provider: &[provider],
            collate: &collate,
            ctype: &ctype,
            locale: locale.as_deref(),
            rules: rules.as_deref(),
            version: actual.as_deref(),
            server_version: version::server_version().ok()?,
        }))
    }
}
