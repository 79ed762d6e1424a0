//! Bit strings: bit and varbit.

use super::{append_words, malformed, split};
use crate::model::error::Result;

/// Appends the wire form: the number of bits, then the bytes.
pub fn append(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (count, bytes) = split::<4>(contents)?;
    if u32::from_ne_bytes(count).div_ceil(8) as usize != bytes.len() {
        return Err(malformed());
    }
    append_words::<4>(&count, out);
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bits: u32, bytes: &[u8]) -> Vec<u8> {
        [&bits.to_ne_bytes(), bytes].concat()
    }

    #[test]
    fn the_count_goes_first() {
        let mut out = Vec::new();
        append(&value(9, &[0xFF, 0x80]), &mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 9, 0xFF, 0x80]);
    }

    #[test]
    fn a_wrong_length_is_refused() {
        for bad in [value(9, &[1]), value(0, &[1]), vec![0, 0, 0]] {
            let mut out = Vec::new();
            append(&bad, &mut out).unwrap_err();
        }
    }
}
