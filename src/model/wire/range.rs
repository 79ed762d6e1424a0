//! Ranges whose bounds have a fixed size: int4range, int8range, daterange, tsrange, tstzrange.

use super::{append_words, malformed, split};
use crate::model::error::Result;

/// Flags of `utils/rangetypes.h`.
const EMPTY: u8 = 0x01;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;
const LOWER_NULL: u8 = 0x20;
const UPPER_NULL: u8 = 0x40;

/// Appends the wire form of a range whose bounds have `N` bytes: the flags, then each bound that there is, with its
/// length. In memory the type's OID comes first and the flags last.
pub fn append<const N: usize>(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (_type, rest) = split::<4>(contents)?;
    let (flags, bounds) = rest.split_last().ok_or_else(malformed)?;
    out.push(*flags);
    let mut bounds = bounds.chunks_exact(N);
    for without in [LOWER_INFINITE | LOWER_NULL, UPPER_INFINITE | UPPER_NULL] {
        if flags & (EMPTY | without) == 0 {
            let bound = bounds.next().ok_or_else(malformed)?;
            out.extend_from_slice(&(N as u32).to_be_bytes());
            append_words::<N>(bound, out);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOWER_INCLUSIVE: u8 = 0x02;

    fn value(bounds: &[i32], flags: u8) -> Vec<u8> {
        let mut value = 3904_u32.to_ne_bytes().to_vec();
        value.extend(bounds.iter().flat_map(|bound| bound.to_ne_bytes()));
        value.push(flags);
        value
    }

    fn wire(bounds: &[i32], flags: u8) -> Vec<u8> {
        let mut out = Vec::new();
        append::<4>(&value(bounds, flags), &mut out).unwrap();
        out
    }

    #[test]
    fn only_bounds_that_exist_are_sent() {
        assert_eq!(wire(&[], EMPTY), [EMPTY]);
        assert_eq!(wire(&[], LOWER_INFINITE | UPPER_INFINITE), [0x18]);
        assert_eq!(wire(&[258], LOWER_INFINITE), [8, 0, 0, 0, 4, 0, 0, 1, 2]);
        assert_eq!(
            wire(&[1, 2], LOWER_INCLUSIVE),
            [2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2]
        );
    }

    #[test]
    fn a_missing_bound_is_refused() {
        for bad in [value(&[1], 0), value(&[], 0), vec![0; 4], vec![0; 3]] {
            append::<4>(&bad, &mut Vec::new()).unwrap_err();
        }
    }
}
