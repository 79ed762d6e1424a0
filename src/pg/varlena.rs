//! Values of type `text`, and arrays of them, where they lie.

use pgrx::pg_sys;
use pgrx::pg_sys::Datum;
use pgrx::varlena;
use std::ffi::{c_char, c_int};
use std::ptr;

/// The characters of a text. Nothing is copied unless the value is compressed or stored elsewhere.
///
/// # Safety
/// `datum` is a text that is not null. It, and the current memory context, outlive the slice.
#[inline]
pub unsafe fn text<'a>(datum: Datum) -> &'a [u8] {
    // SAFETY: by the contract the pointer is valid; the size is that of the value's own header.
    unsafe {
        let mut value: *const pg_sys::varlena = datum.cast_mut_ptr();
        if varlena::varatt_is_1b_e(value) || varlena::varatt_is_4b_c(value) {
            value = pg_sys::pg_detoast_datum_packed(value.cast_mut());
        }
        let length = varlena::varsize_any_exhdr(value);
        std::slice::from_raw_parts(varlena::vardata_any(value).cast(), length)
    }
}

/// The elements of an array of texts, in order; None for a null.
///
/// # Safety
/// `datum` is an array of type `text[]` that is not null. It, and the current memory context, outlive the slices.
pub unsafe fn texts<'a>(datum: Datum) -> Vec<Option<&'a [u8]>> {
    let mut values: *mut Datum = ptr::null_mut();
    let mut nulls: *mut bool = ptr::null_mut();
    let mut count: c_int = 0;
    // SAFETY: by the contract; length and alignment are those of the type text. The results are palloc'd and have `count` elements.
    unsafe {
        let array: *mut pg_sys::ArrayType = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast();
        let (length, alignment) = (-1, pg_sys::TYPALIGN_INT as c_char);
        pg_sys::deconstruct_array(
            array,
            pg_sys::TEXTOID,
            length,
            false,
            alignment,
            &raw mut values,
            &raw mut nulls,
            &raw mut count,
        );
        (0..usize::try_from(count).unwrap_or_default())
            .map(|place| (!*nulls.add(place)).then(|| text(*values.add(place))))
            .collect()
    }
}
