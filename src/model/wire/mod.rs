//! Binary wire forms of variable-length values, made from their contents in memory: byte for byte what the send
//! functions of their types make, without calling one.
//!
//! Contents are what follows the length word of a value that is neither compressed nor stored elsewhere. Numbers in it
//! are in the byte order of this machine and need not be aligned; on the wire they are big-endian.

pub mod bits;
pub mod geometry;
pub mod inet;
pub mod jsonb;
pub mod numeric;
pub mod range;
pub mod tsvector;

use crate::model::error::{FdwError, Result};

/// Appends words of `N` bytes each, in wire order.
#[inline]
pub fn append_words<const N: usize>(words: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(words);
    if cfg!(target_endian = "little") {
        for word in out[start..].chunks_exact_mut(N) {
            word.reverse();
        }
    }
}

/// The first `N` bytes and the rest.
fn split<const N: usize>(contents: &[u8]) -> Result<([u8; N], &[u8])> {
    contents
        .split_first_chunk()
        .map(|(first, rest)| (*first, rest))
        .ok_or_else(malformed)
}

/// A value that its own type would not have made.
#[cold]
fn malformed() -> FdwError {
    FdwError::internal("a value in memory is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_change_their_byte_order() {
        let mut out = vec![7];
        let words: Vec<u8> = [1_u16, 0xABCD]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        append_words::<2>(&words, &mut out);
        assert_eq!(out, [7, 0, 1, 0xAB, 0xCD]);
    }
}
