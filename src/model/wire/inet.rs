//! Network addresses: inet and cidr.

use super::{malformed, split};
use crate::model::error::Result;

/// Families of addresses as `utils/inet.h` numbers them.
const V4: u8 = 2;
const V6: u8 = 3;

/// Appends an inet.
pub fn append_inet(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    append(contents, false, out)
}

/// Appends a cidr.
pub fn append_cidr(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    append(contents, true, out)
}

/// Family, length of the prefix in bits, kind, length of the address, address.
fn append(contents: &[u8], is_cidr: bool, out: &mut Vec<u8>) -> Result<()> {
    let ([family, bits], address) = split::<2>(contents)?;
    let length: u8 = match family {
        V4 => 4,
        V6 => 16,
        _ => return Err(malformed()),
    };
    let address = address
        .get(..usize::from(length))
        .filter(|_| bits <= length * 8)
        .ok_or_else(malformed)?;
    out.extend_from_slice(&[family, bits, u8::from(is_cidr), length]);
    out.extend_from_slice(address);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_have_their_length() {
        let mut out = Vec::new();
        append_inet(&[V4, 24, 10, 0, 0, 1], &mut out).unwrap();
        assert_eq!(out, [V4, 24, 0, 4, 10, 0, 0, 1]);
        let mut v6 = vec![V6, 128];
        v6.extend(0..16);
        out.clear();
        append_cidr(&v6, &mut out).unwrap();
        assert_eq!(out[..4], [V6, 128, 1, 16]);
        assert_eq!(out[4..], v6[2..]);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let mut v6 = vec![V6, 129];
        v6.extend(0..16);
        for bad in [
            &[][..],
            &[V4],
            &[V4, 24],
            &[V4, 24, 1, 2, 3],
            &[V4, 33, 1, 2, 3, 4],
            &[V6, 24, 1, 2, 3, 4],
            &[9, 24, 1, 2, 3, 4],
            &v6,
        ] {
            append_inet(bad, &mut Vec::new()).unwrap_err();
        }
    }
}
