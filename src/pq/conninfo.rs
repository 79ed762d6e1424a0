//! The connection options that the libpq in use knows.

use crate::model::option::LibpqOption;
use crate::pq::result::bytes;
use crate::pq::{sys, PqError, Result};
use once_cell::sync::OnceCell;
use std::ffi::c_char;

static OPTIONS: OnceCell<Vec<LibpqOption>> = OnceCell::new();

/// All connection options of libpq, asked for once in the life of the process.
pub fn options() -> Result<&'static [LibpqOption]> {
    OPTIONS.get_or_try_init(collect).map(Vec::as_slice)
}

fn collect() -> Result<Vec<LibpqOption>> {
    // SAFETY: takes nothing; the result is ours to free.
    let list = unsafe { sys::PQconndefaults() };
    if list.is_null() {
        return Err(PqError::new(
            "out of memory while listing the connection options of libpq",
        ));
    }
    let mut options = Vec::new();
    let mut next = list;
    // SAFETY: `next` stays within the array, which ends with an entry without keyword.
    while let Some(option) = unsafe { next.as_ref() }.filter(|option| !option.keyword.is_null()) {
        // SAFETY: the strings of an entry live as long as the array.
        let keyword = unsafe { owned(option.keyword) };
        // SAFETY: as above.
        let marks = unsafe { owned(option.dispchar) };
        options.push(LibpqOption {
            keyword,
            secret: marks.contains('*'),
            debug: marks.contains('D'),
        });
        // SAFETY: the entry had a keyword, so another one follows.
        next = unsafe { next.add(1) };
    }
    // SAFETY: from PQconndefaults, and nothing points into it any more.
    unsafe { sys::PQconninfoFree(list) };
    Ok(options)
}

/// # Safety
/// `text` is null or a NUL-terminated string.
unsafe fn owned(text: *const c_char) -> String {
    // SAFETY: by the contract; the copy is made at once.
    String::from_utf8_lossy(unsafe { bytes(text) }.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libpq_tells_its_options() {
        let find = |keyword: &str| {
            options()
                .expect("libpq has options")
                .iter()
                .find(|option| option.keyword == keyword)
        };
        let marks = |keyword| find(keyword).map(|option| (option.secret, option.debug));
        assert_eq!(marks("host"), Some((false, false)));
        assert_eq!(marks("user"), Some((false, false)));
        assert_eq!(marks("password"), Some((true, false)));
        assert_eq!(marks("sslpassword"), Some((true, false)));
        assert_eq!(marks("replication"), Some((false, true)));
        assert_eq!(marks("batch_size"), None);
    }
}
