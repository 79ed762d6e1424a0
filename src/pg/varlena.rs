//! Values of type `text` where they lie.

use pgrx::pg_sys;
use pgrx::pg_sys::Datum;
use pgrx::varlena;

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
