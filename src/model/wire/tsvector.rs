//! tsvector: sorted lexemes with their positions.

use super::{append_words, malformed, split};
use crate::model::error::Result;

/// Bytes of an entry, and of a position.
const ENTRY: usize = 4;
const POSITION: usize = 2;

/// Where the lexeme of an entry is, and whether positions follow it: C bit-fields, whose order is the machine's.
struct Entry {
    begin: usize,
    length: usize,
    has_positions: bool,
}

impl Entry {
    fn read(bytes: [u8; ENTRY]) -> Entry {
        let bits = u32::from_ne_bytes(bytes) as usize;
        if cfg!(target_endian = "little") {
            Entry {
                begin: bits >> 12,
                length: bits >> 1 & 0x7FF,
                has_positions: bits & 1 != 0,
            }
        } else {
            Entry {
                begin: bits & 0xF_FFFF,
                length: bits >> 20 & 0x7FF,
                has_positions: bits >> 31 != 0,
            }
        }
    }
}

/// Appends the wire form: the number of lexemes, and for each its text, a zero byte, the number of its positions, and these.
pub fn append(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let (count, rest) = split::<ENTRY>(contents)?;
    let size = u32::from_ne_bytes(count) as usize * ENTRY;
    let (entries, data) = rest.split_at_checked(size).ok_or_else(malformed)?;
    append_words::<4>(&count, out);
    for entry in entries.chunks_exact(ENTRY) {
        let entry = Entry::read(split(entry)?.0);
        let end = entry.begin + entry.length;
        out.extend_from_slice(data.get(entry.begin..end).ok_or_else(malformed)?);
        out.push(0);
        let positions = if entry.has_positions {
            let begin = end.next_multiple_of(POSITION);
            let (count, positions) = split::<2>(data.get(begin..).ok_or_else(malformed)?)?;
            let size = usize::from(u16::from_ne_bytes(count)) * POSITION;
            positions.get(..size).ok_or_else(malformed)?
        } else {
            &[]
        };
        out.extend_from_slice(&((positions.len() / POSITION) as u16).to_be_bytes());
        append_words::<POSITION>(positions, out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(begin: u32, length: u32, has_positions: bool) -> [u8; ENTRY] {
        if cfg!(target_endian = "little") {
            begin << 12 | length << 1 | u32::from(has_positions)
        } else {
            u32::from(has_positions) << 31 | length << 20 | begin
        }
        .to_ne_bytes()
    }

    /// `'abc':258 'd'`.
    fn value() -> Vec<u8> {
        let mut value = 2_u32.to_ne_bytes().to_vec();
        value.extend(entry(0, 3, true));
        value.extend(entry(8, 1, false));
        value.extend(b"abc\0");
        value.extend([1_u16, 258].iter().flat_map(|word| word.to_ne_bytes()));
        value.push(b'd');
        value
    }

    #[test]
    fn positions_follow_their_lexeme() {
        let mut out = Vec::new();
        append(&value(), &mut out).unwrap();
        assert_eq!(out, *b"\0\0\0\x02abc\0\0\x01\x01\x02d\0\0\0");
        out.clear();
        append(&[0; 4], &mut out).unwrap();
        assert_eq!(out, [0; 4]);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let value = value();
        for length in 0..value.len() {
            append(&value[..length], &mut Vec::new()).unwrap_err();
        }
    }
}
