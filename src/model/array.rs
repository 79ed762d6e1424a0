//! One-dimensional arrays in binary wire form, filled element by element (`array_recv` of PostgreSQL reads them).

/// Bytes before the first element: dimensions, null flag, element type, length, lower bound.
const HEADER: usize = 20;

/// An array under construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayBuilder {
    element_oid: u32,
    bytes: Vec<u8>,
    count: i32,
}

impl ArrayBuilder {
    /// An empty array of a built-in element type: its OID is the same on every server.
    pub fn new(element_oid: u32) -> ArrayBuilder {
        ArrayBuilder::with_capacity(element_oid, 0)
    }

    /// The same with room for elements of so many bytes.
    pub fn with_capacity(element_oid: u32, bytes: usize) -> ArrayBuilder {
        let mut buffer = Vec::with_capacity(HEADER + bytes);
        buffer.resize(HEADER, 0);
        ArrayBuilder {
            element_oid,
            bytes: buffer,
            count: 0,
        }
    }

    /// Adds an element.
    pub fn push(&mut self, element: &[u8]) {
        self.bytes
            .extend_from_slice(&(element.len() as u32).to_be_bytes());
        self.push_encoded(element);
    }

    /// Adds an element that has its length, -1 for NULL, before its bytes.
    pub fn push_encoded(&mut self, element: &[u8]) {
        self.bytes.extend_from_slice(element);
        self.count += 1;
    }

    /// The wire form.
    pub fn finish(mut self) -> Vec<u8> {
        let fields = [1, 1, self.element_oid as i32, self.count, 1];
        for (field, target) in fields.iter().zip(self.bytes.chunks_exact_mut(4)) {
            target.copy_from_slice(&field.to_be_bytes());
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_types::{FromSql, Type};

    #[test]
    fn an_independent_reader_understands_it() {
        let mut array = ArrayBuilder::new(25);
        array.push(b"a");
        array.push_encoded(&(-1_i32).to_be_bytes());
        array.push(b"");
        let read = Vec::<Option<String>>::from_sql(&Type::TEXT_ARRAY, &array.finish()).unwrap();
        assert_eq!(read, [Some("a".into()), None, Some(String::new())]);
    }
}
