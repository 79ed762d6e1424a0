//! Parameters of a statement, borrowed from where they were made.

use crate::pq::{PqError, Result};
use std::ffi::{c_char, c_int, CStr};
use std::marker::PhantomData;
use std::ptr;

/// Most parameters of one statement: the protocol counts them in 16 bits.
pub const MAX_PARAMS: usize = 65_535;

/// One parameter. libpq copies the value straight into its output buffer; nothing is copied before.
#[derive(Debug, Clone, Copy)]
pub struct Param<'a> {
    type_oid: u32,
    format: c_int,
    value: *const c_char,
    /// Bytes; libpq takes the length of a text parameter from its terminator.
    length: usize,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Param<'a> {
    /// A NULL. Type 0 lets the server infer the type.
    pub fn null(type_oid: u32) -> Param<'a> {
        Param {
            type_oid,
            format: 0,
            value: ptr::null(),
            length: 0,
            borrowed: PhantomData,
        }
    }

    /// A value in text form, which libpq wants with a terminator.
    pub fn text(type_oid: u32, value: &'a CStr) -> Param<'a> {
        Param {
            type_oid,
            format: 0,
            value: value.as_ptr(),
            length: value.count_bytes(),
            borrowed: PhantomData,
        }
    }

    /// A value in the binary form of its type.
    pub fn binary(type_oid: u32, value: &'a [u8]) -> Param<'a> {
        Param {
            type_oid,
            format: 1,
            value: value.as_ptr().cast(),
            length: value.len(),
            borrowed: PhantomData,
        }
    }
}

/// Parameters as the parallel arrays that libpq wants.
pub(super) struct ParamArrays {
    pub types: Vec<u32>,
    pub values: Vec<*const c_char>,
    pub lengths: Vec<c_int>,
    pub formats: Vec<c_int>,
}

impl ParamArrays {
    /// Fails when there are too many parameters, or one is longer than the protocol can say.
    pub fn new(params: &[Param]) -> Result<ParamArrays> {
        if params.len() > MAX_PARAMS {
            return Err(PqError::new(format!(
                "number of parameters must not exceed {MAX_PARAMS}"
            )));
        }
        let mut arrays = ParamArrays {
            types: Vec::with_capacity(params.len()),
            values: Vec::with_capacity(params.len()),
            lengths: Vec::with_capacity(params.len()),
            formats: Vec::with_capacity(params.len()),
        };
        for param in params {
            let length = c_int::try_from(param.length)
                .map_err(|_| PqError::new("a parameter is longer than the protocol allows"))?;
            arrays.types.push(param.type_oid);
            arrays.values.push(param.value);
            arrays.lengths.push(length);
            arrays.formats.push(param.format);
        }
        Ok(arrays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_follow_the_parameters() {
        let params = [
            Param::null(23),
            Param::text(0, c"abc"),
            Param::binary(17, b"\0\x01"),
            Param::binary(25, b""),
        ];
        let arrays = ParamArrays::new(&params).unwrap();
        assert_eq!(arrays.types, [23, 0, 17, 25]);
        assert_eq!(arrays.lengths, [0, 3, 2, 0]);
        assert_eq!(arrays.formats, [0, 0, 1, 1]);
        assert!(arrays.values[0].is_null());
        assert!(
            !arrays.values[3].is_null(),
            "an empty value must not become a NULL"
        );
    }

    #[test]
    fn too_many_parameters_are_refused() {
        let params = vec![Param::null(0); MAX_PARAMS + 1];
        assert!(ParamArrays::new(&params).is_err());
        assert!(ParamArrays::new(&params[1..]).is_ok());
    }
}
