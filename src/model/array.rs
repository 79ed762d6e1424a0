//! One-dimensional arrays in binary wire form, filled element by element (`array_recv` of PostgreSQL reads them).

/// Bytes before the first element: dimensions, null flag, element type, length, lower bound.
const HEADER: usize = 20;

/// The length that stands for a NULL element.
const NULL_LENGTH: i32 = -1;

/// An array under construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayBuilder {
    element_oid: u32,
    bytes: Vec<u8>,
    count: i32,
    /// Start of the last element, for [`ArrayBuilder::split_last`].
    last: usize,
}

impl ArrayBuilder {
    /// An empty array of a built-in element type: its OID is the same on every server.
    pub fn new(element_oid: u32) -> ArrayBuilder {
        ArrayBuilder {
            element_oid,
            bytes: vec![0; HEADER],
            count: 0,
            last: HEADER,
        }
    }

    /// Size in bytes, header included, so never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn push_null(&mut self) {
        self.last = self.bytes.len();
        self.bytes.extend_from_slice(&NULL_LENGTH.to_be_bytes());
        self.count += 1;
    }

    /// Adds an element whose bytes `write` appends.
    pub fn push_with<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        if let Err(error) = write(&mut self.bytes) {
            self.bytes.truncate(start);
            return Err(error);
        }
        let length = (self.bytes.len() - start - 4) as i32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
        self.last = start;
        self.count += 1;
        Ok(())
    }

    /// Takes the elements back that were added after there were `count`: at most the last one.
    pub fn truncate(&mut self, count: usize) {
        if self.count as usize > count {
            self.bytes.truncate(self.last);
            self.count -= 1;
        }
    }

    /// Takes the last element away and returns it as an array of its own.
    pub fn split_last(&mut self) -> ArrayBuilder {
        let mut tail = ArrayBuilder::new(self.element_oid);
        tail.bytes.extend_from_slice(&self.bytes[self.last..]);
        tail.count = 1;
        self.bytes.truncate(self.last);
        self.count -= 1;
        tail
    }

    /// An empty array of the same type that has room for as much again.
    pub fn successor(&self) -> ArrayBuilder {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        bytes.resize(HEADER, 0);
        ArrayBuilder {
            element_oid: self.element_oid,
            bytes,
            count: 0,
            last: HEADER,
        }
    }

    /// The wire form.
    pub fn finish(mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let fields = [1, 1, self.element_oid as i32, self.count, 1];
        for (field, target) in fields.iter().zip(bytes.chunks_exact_mut(4)) {
            target.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_types::{FromSql, Type};

    fn push(array: &mut ArrayBuilder, value: &str) {
        let written: Result<(), ()> = array.push_with(|bytes| {
            bytes.extend_from_slice(value.as_bytes());
            Ok(())
        });
        written.unwrap();
    }

    fn read(bytes: &[u8]) -> Vec<Option<String>> {
        Vec::<Option<String>>::from_sql(&Type::TEXT_ARRAY, bytes).unwrap()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.into())
    }

    #[test]
    fn an_independent_reader_understands_it() {
        let mut array = ArrayBuilder::new(25);
        push(&mut array, "a");
        array.push_null();
        push(&mut array, "");
        let mut next = array.successor();
        assert_eq!(read(&array.finish()), [some("a"), None, some("")]);
        push(&mut next, "next");
        assert_eq!(read(&next.finish()), [some("next")]);
    }

    #[test]
    fn the_last_element_can_go_alone() {
        let mut array = ArrayBuilder::new(25);
        push(&mut array, "first");
        push(&mut array, "second");
        let tail = array.split_last();
        assert_eq!(read(&array.finish()), [some("first")]);
        assert_eq!(read(&tail.finish()), [some("second")]);
    }

    #[test]
    fn a_failed_element_leaves_nothing() {
        let mut array = ArrayBuilder::new(25);
        push(&mut array, "kept");
        let failed = array.push_with(|bytes| {
            bytes.push(b'x');
            Err("no")
        });
        assert_eq!(failed, Err("no"));
        array.truncate(1);
        assert_eq!(read(&array.finish()), [some("kept")]);
    }

    #[test]
    fn truncating_takes_back_a_half_added_row() {
        let mut array = ArrayBuilder::new(25);
        push(&mut array, "kept");
        push(&mut array, "half");
        array.truncate(1);
        assert_eq!(read(&array.finish()), [some("kept")]);
    }
}
