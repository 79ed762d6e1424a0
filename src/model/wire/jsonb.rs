//! jsonb: a tree of containers, each with an array of entries that say what and where its children are. On the wire it
//! is text.

use super::{malformed, numeric, split};
use crate::model::error::{FdwError, Result, SqlState};

/// Version of the wire form.
const VERSION: u8 = 1;

/// Parts of a container's header.
const COUNT: u32 = 0x0FFF_FFFF;
const IS_SCALAR: u32 = 0x1000_0000;
const IS_OBJECT: u32 = 0x2000_0000;
const IS_ARRAY: u32 = 0x4000_0000;

/// Parts of an entry: the child's length, or, if so marked, where it ends in the container's data; and its kind.
const LENGTH: u32 = 0x0FFF_FFFF;
const KIND: u32 = 0x7000_0000;
const IS_END: u32 = 0x8000_0000;
/// Kinds of children.
const STRING: u32 = 0x0000_0000;
const NUMERIC: u32 = 0x1000_0000;
const FALSE: u32 = 0x2000_0000;
const TRUE: u32 = 0x3000_0000;
const NULL: u32 = 0x4000_0000;
const CONTAINER: u32 = 0x5000_0000;

/// Bytes of a header and of an entry; numerics and containers begin at a multiple of it.
const WORD: usize = 4;

/// No server takes more in one value.
const MAX_TEXT: usize = 0x3FFF_FFFF;

/// Children of a container that come one after another.
struct Children<'a> {
    entries: &'a [u8],
    data: &'a [u8],
    /// Where the next child begins in the data, before padding.
    offset: usize,
}

impl<'a> Children<'a> {
    /// Kind and bytes of the next child.
    #[inline]
    fn next(&mut self) -> Result<Option<(u32, &'a [u8])>> {
        let Some((entry, rest)) = self.entries.split_first_chunk::<WORD>() else {
            return Ok(None);
        };
        let entry = u32::from_ne_bytes(*entry);
        let kind = entry & KIND;
        let begin = match kind {
            NUMERIC | CONTAINER => self.offset.next_multiple_of(WORD),
            _ => self.offset,
        };
        let end = end_of(entry, self.offset);
        // Where entries contradict each other, the range is reversed or too long.
        let child = self.data.get(begin..end).ok_or_else(malformed)?;
        self.entries = rest;
        self.offset = end;
        Ok(Some((kind, child)))
    }
}

/// Where the child of this entry ends that begins at `offset`.
#[inline]
fn end_of(entry: u32, offset: usize) -> usize {
    let length = (entry & LENGTH) as usize;
    if entry & IS_END == 0 {
        offset + length
    } else {
        length
    }
}

/// A container that is being written.
struct Container<'a> {
    /// Of an object; empty for an array.
    keys: Children<'a>,
    values: Children<'a>,
    is_object: bool,
    /// An array that only holds a scalar at the root.
    is_scalar: bool,
    is_first: bool,
}

impl<'a> Container<'a> {
    fn read(bytes: &'a [u8]) -> Result<Container<'a>> {
        let (header, rest) = split::<WORD>(bytes)?;
        let header = u32::from_ne_bytes(header);
        let is_object = match header & (IS_OBJECT | IS_ARRAY) {
            IS_OBJECT => true,
            IS_ARRAY => false,
            _ => return Err(malformed()),
        };
        let size = (header & COUNT) as usize * WORD;
        let keys = if is_object { size } else { 0 };
        let (entries, data) = rest.split_at_checked(keys + size).ok_or_else(malformed)?;
        let (keys, values) = entries.split_at(keys);
        let values_begin = keys.chunks_exact(WORD).fold(0, |offset, entry| {
            end_of(
                u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]),
                offset,
            )
        });
        let children = |entries, offset| Children {
            entries,
            data,
            offset,
        };
        Ok(Container {
            keys: children(keys, 0),
            values: children(values, values_begin),
            is_object,
            is_scalar: header & IS_SCALAR != 0,
            is_first: true,
        })
    }

    fn open(&self, out: &mut Vec<u8>) {
        if !self.is_scalar {
            out.push(if self.is_object { b'{' } else { b'[' });
        }
    }

    fn close(&self, out: &mut Vec<u8>) {
        if !self.is_scalar {
            out.push(if self.is_object { b'}' } else { b']' });
        }
    }

    /// Appends what stands before the next value, and returns the value; None at the end.
    #[inline]
    fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<(u32, &'a [u8])>> {
        let Some(value) = self.values.next()? else {
            return Ok(None);
        };
        if !std::mem::take(&mut self.is_first) {
            out.extend_from_slice(b", ");
        }
        if self.is_object {
            match self.keys.next()? {
                Some((STRING, key)) => append_string(key, out),
                _ => return Err(malformed()),
            }
            out.extend_from_slice(b": ");
        }
        Ok(Some(value))
    }
}

/// Appends the wire form: its version, then the text as the output function of jsonb makes it.
pub fn append(contents: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.push(VERSION);
    let start = out.len();
    let mut container = Container::read(contents)?;
    container.open(out);
    // Not the call stack: values may be nested as deep as max_stack_depth let them be.
    let mut outer = Vec::new();
    loop {
        match container.next(out)? {
            Some((CONTAINER, child)) => {
                outer.push(std::mem::replace(&mut container, Container::read(child)?));
                container.open(out);
            }
            Some((kind, child)) => append_scalar(kind, child, out)?,
            None => {
                container.close(out);
                match outer.pop() {
                    Some(parent) => container = parent,
                    None => return Ok(()),
                }
            }
        }
        if out.len() - start > MAX_TEXT {
            return Err(too_long());
        }
    }
}

#[inline]
fn append_scalar(kind: u32, child: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match kind {
        STRING => append_string(child, out),
        // A whole value, with its length word.
        NUMERIC => numeric::append_text(split::<WORD>(child)?.1, out)?,
        FALSE => out.extend_from_slice(b"false"),
        TRUE => out.extend_from_slice(b"true"),
        NULL => out.extend_from_slice(b"null"),
        _ => return Err(malformed()),
    }
    Ok(())
}

/// Appends a string in quotes. Bytes suffice: no encoding of a server has ASCII bytes within longer characters.
fn append_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in text.chunks(32) {
        // Without a branch for each byte.
        if chunk
            .iter()
            .fold(false, |any, byte| any | needs_escape(*byte))
        {
            chunk.iter().for_each(|byte| append_byte(*byte, out));
        } else {
            out.extend_from_slice(chunk);
        }
    }
    out.push(b'"');
}

#[inline]
fn needs_escape(byte: u8) -> bool {
    (byte < b' ') | (byte == b'"') | (byte == b'\\')
}

fn append_byte(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\x08' => b'b',
        b'\x0C' => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        ..b' ' => {
            let hex = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 0x0F)]);
            return;
        }
        _ => return out.push(byte),
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cold]
fn too_long() -> FdwError {
    FdwError::local(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        "text form of a jsonb value is too long",
    )
    .with_detail(format!("It has more than {MAX_TEXT} bytes."))
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Json {
        Null,
        Bool(bool),
        /// A short numeric of one digit.
        Digit(u16),
        Text(&'static str),
        Array(Vec<Json>),
        Object(Vec<(&'static str, Json)>),
    }
    use Json::*;

    /// Entries before one that says where it ends, as `JB_OFFSET_STRIDE` of PostgreSQL.
    const STRIDE: usize = 32;

    impl Json {
        fn kind(&self) -> u32 {
            match self {
                Null => NULL,
                Bool(false) => FALSE,
                Bool(true) => TRUE,
                Digit(_) => NUMERIC,
                Text(_) => STRING,
                Array(_) | Object(_) => CONTAINER,
            }
        }

        fn bytes(&self) -> Vec<u8> {
            match self {
                Null | Bool(_) => vec![],
                Digit(digit) => {
                    let mut bytes = (8_u32 << 2).to_ne_bytes().to_vec();
                    bytes.extend(0x8000_u16.to_ne_bytes());
                    bytes.extend(digit.to_ne_bytes());
                    bytes
                }
                Text(text) => text.as_bytes().to_vec(),
                Array(items) => {
                    let items: Vec<&Json> = items.iter().collect();
                    container(IS_ARRAY | items.len() as u32, &items)
                }
                Object(pairs) => {
                    let keys: Vec<Json> = pairs.iter().map(|(key, _)| Text(key)).collect();
                    let values = pairs.iter().map(|(_, value)| value);
                    let children: Vec<&Json> = keys.iter().chain(values).collect();
                    container(IS_OBJECT | pairs.len() as u32, &children)
                }
            }
        }
    }

    fn container(header: u32, children: &[&Json]) -> Vec<u8> {
        let mut entries = header.to_ne_bytes().to_vec();
        let mut data: Vec<u8> = Vec::new();
        for (index, child) in children.iter().enumerate() {
            let begin = data.len();
            if matches!(child, Digit(_) | Array(_) | Object(_)) {
                data.resize(begin.next_multiple_of(WORD), 0);
            }
            data.extend(child.bytes());
            let entry = if index % STRIDE == 0 {
                IS_END | data.len() as u32
            } else {
                (data.len() - begin) as u32
            };
            entries.extend((entry | child.kind()).to_ne_bytes());
        }
        entries.extend(data);
        entries
    }

    fn scalar(child: &Json) -> Vec<u8> {
        container(IS_ARRAY | IS_SCALAR | 1, &[child])
    }

    #[track_caller]
    fn text(contents: &[u8]) -> String {
        let mut out = Vec::new();
        append(contents, &mut out).unwrap();
        assert_eq!(out.remove(0), VERSION);
        String::from_utf8(out).unwrap()
    }

    fn document() -> Json {
        let many = (0..100)
            .map(|n| match n % 3 {
                0 => Digit(n),
                1 => Text("abc"),
                _ => Array(vec![Digit(n)]),
            })
            .collect();
        Object(vec![
            ("", Null),
            ("k", Array(vec![Bool(true), Bool(false)])),
            ("many", Array(many)),
            (
                "object",
                Object(vec![("x", Object(vec![])), ("yy", Array(vec![]))]),
            ),
        ])
    }

    #[test]
    fn scalars_stand_alone() {
        assert_eq!(text(&scalar(&Null)), "null");
        assert_eq!(text(&scalar(&Digit(42))), "42");
        assert_eq!(text(&scalar(&Text("a\"b"))), r#""a\"b""#);
    }

    #[test]
    fn containers_nest() {
        assert_eq!(text(&Array(vec![]).bytes()), "[]");
        let text = text(&document().bytes());
        let begin = r#"{"": null, "k": [true, false], "many": [0, "abc", [2], 3, "abc", [5], "#;
        assert_eq!(text[..begin.len()], *begin);
        let end = r#", [98], 99], "object": {"x": {}, "yy": []}}"#;
        assert_eq!(text[text.len() - end.len()..], *end);
    }

    #[test]
    fn many_keys_have_offsets_too() {
        let pairs = (0..200).map(|n| ("key", Digit(n))).collect();
        let expected: Vec<String> = (0..200).map(|n| format!("\"key\": {n}")).collect();
        assert_eq!(
            text(&Object(pairs).bytes()),
            format!("{{{}}}", expected.join(", "))
        );
    }

    #[test]
    fn only_what_must_be_is_escaped() {
        let odd = "\u{1}\u{8}\u{c}\n\r\t\u{1f}\"\\/\u{7f}é\u{2028}";
        assert_eq!(
            text(&scalar(&Text(odd))),
            "\"\\u0001\\b\\f\\n\\r\\t\\u001f\\\"\\\\/\u{7f}é\u{2028}\""
        );
    }

    #[test]
    fn depth_does_not_matter() {
        let mut bytes = Vec::new();
        for inner in (0..100_000_u32).rev() {
            bytes.extend((IS_ARRAY | 1).to_ne_bytes());
            bytes.extend((CONTAINER | (4 + 8 * inner)).to_ne_bytes());
        }
        bytes.extend(IS_ARRAY.to_ne_bytes());
        assert_eq!(text(&bytes).len(), 2 * 100_001);
    }

    #[test]
    fn malformed_values_are_refused_or_harmless() {
        for bad in [
            vec![],
            vec![0; 3],
            0_u32.to_ne_bytes().to_vec(),
            (IS_ARRAY | IS_OBJECT).to_ne_bytes().to_vec(),
            (IS_ARRAY | COUNT).to_ne_bytes().to_vec(),
            container(IS_OBJECT | 1, &[&Null, &Null]),
            container(IS_ARRAY | 2, &[&Null]),
        ] {
            append(&bad, &mut Vec::new()).unwrap_err();
        }
        let good = document().bytes();
        for length in 0..good.len() {
            append(&good[..length], &mut Vec::new()).unwrap_err();
        }
        let mut refused = 0;
        for place in 0..good.len() {
            for flipped in [0x01, 0x10, 0x40, 0x80, 0xFF] {
                let mut bad = good.clone();
                bad[place] ^= flipped;
                refused += usize::from(append(&bad, &mut Vec::new()).is_err());
            }
        }
        assert!(refused > good.len());
    }
}
