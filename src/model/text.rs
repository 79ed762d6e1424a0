//! Bytes in the encoding of the local database inside of Rust strings, without loss.
//!
//! Messages are put together as strings, but a name in a LATIN1 database is no UTF-8. A byte that is none travels as
//! one of the last 128 characters of Unicode's last private plane, and becomes itself again when the error is raised.

/// The character for byte 0x80; those for higher bytes follow.
const FIRST: u32 = 0x0010_FF80;

/// The text for messages. [`to_bytes`] gives the same bytes back.
pub fn from_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if u32::from(character) < FIRST {
                text.push(character);
            } else {
                let mut buffer = [0; 4];
                let encoded = character.encode_utf8(&mut buffer);
                text.extend(encoded.bytes().map(stand_in));
            }
        }
        text.extend(chunk.invalid().iter().copied().map(stand_in));
    }
    text
}

/// A number of rows, for messages.
pub fn rows(count: u64) -> String {
    match count {
        1 => "1 row".to_owned(),
        _ => format!("{count} rows"),
    }
}

/// The bytes of a message, in which names have been put by [`from_bytes`].
pub fn to_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match u32::from(character).checked_sub(FIRST) {
            // At most 0x7F: there are no characters beyond.
            Some(place) => bytes.push(0x80 | place as u8),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// Bytes that need one are above 0x7F: ASCII is valid UTF-8.
fn stand_in(byte: u8) -> char {
    char::from_u32(FIRST + u32::from(byte & 0x7F)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        let latin1: Vec<u8> = (0..=255).collect();
        let last = "\u{10FF7F}\u{10FF80}\u{10FFFF}".as_bytes();
        for bytes in [
            b"plain",
            "südlich €".as_bytes(),
            b"s\xfcdlich\xff",
            &latin1,
            last,
        ] {
            assert_eq!(to_bytes(&from_bytes(bytes)), bytes);
        }
        assert_eq!(from_bytes("südlich".as_bytes()), "südlich");
        let message = format!("server \"{}\"", from_bytes(b"s\xfcd"));
        assert_eq!(to_bytes(&message), b"server \"s\xfcd\"");
    }
}
