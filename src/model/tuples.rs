//! Rows in wire form, one after the other: the tuples of COPY in binary format. From them multi-row statements are made
//! too, since a field has the same form (its length, then its bytes) in a tuple and in an array.

use crate::model::array::ArrayBuilder;

/// Up to this size memory is doubled when it is full, as usual; then it grows by a quarter, so that less of it is unused.
const DOUBLED_BELOW: usize = 64 << 10;
/// Less room than this is taken as full: rows seldom are larger.
const SLACK: usize = 1 << 10;
/// The length that stands for NULL.
const NULL_LENGTH: i32 = -1;

/// Rows that all have the same number of fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuples {
    /// Number of fields of a row.
    width: usize,
    bytes: Vec<u8>,
    /// End of the last row that is whole: an error may leave a part of one behind it.
    end: usize,
    /// Where that row begins.
    last: usize,
    count: usize,
}

impl Tuples {
    /// No rows yet. `width`: the number of fields, at most 1600 as a table has.
    pub fn new(width: usize) -> Tuples {
        Tuples::reusing(width, Vec::new())
    }

    /// The same, in memory that is there.
    pub fn reusing(width: usize, mut bytes: Vec<u8>) -> Tuples {
        bytes.clear();
        Tuples {
            width,
            bytes,
            end: 0,
            last: 0,
            count: 0,
        }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Size of the rows in bytes.
    pub fn bytes(&self) -> usize {
        self.end
    }

    /// Size of the last row in bytes.
    pub fn last_row_bytes(&self) -> usize {
        self.end - self.last
    }

    /// Adds a row. `fields` yields, for each field, what appends its bytes and says whether it is not NULL. After an
    /// error, or a panic, the row is not there.
    #[inline]
    pub fn push<E>(
        &mut self,
        fields: impl Iterator<Item = impl FnOnce(&mut Vec<u8>) -> Result<bool, E>>,
    ) -> Result<(), E> {
        self.bytes.truncate(self.end);
        if self.bytes.capacity() - self.end < SLACK && self.end >= DOUBLED_BELOW {
            self.bytes.reserve_exact(self.end / 4);
        }
        self.bytes
            .extend_from_slice(&(self.width as u16).to_be_bytes());
        for field in fields {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&NULL_LENGTH.to_be_bytes());
            if field(&mut self.bytes)? {
                let length = (self.bytes.len() - start - 4) as u32;
                self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
        self.last = self.end;
        self.end = self.bytes.len();
        self.count += 1;
        Ok(())
    }

    /// Takes the last row away and returns it alone. There must be one.
    pub fn split_last(&mut self) -> Tuples {
        let mut tail = Tuples::new(self.width);
        tail.bytes
            .extend_from_slice(&self.bytes[self.last..self.end]);
        tail.end = tail.bytes.len();
        tail.count = 1;
        self.end = self.last;
        self.bytes.truncate(self.end);
        self.count -= 1;
        tail
    }

    /// The rows as COPY in binary format has them, without its header and trailer.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes
    }

    /// The rows in order.
    pub fn rows(&self) -> Rows<'_> {
        Rows {
            width: self.width,
            rest: &self.bytes[..self.end],
        }
    }
}

/// Reads rows.
pub struct Rows<'a> {
    width: usize,
    rest: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Moves up to `limit` rows into arrays, one for each column in the order of their element types.
    pub fn arrays(&mut self, element_oids: &[u32], limit: usize) -> Vec<Vec<u8>> {
        let estimate = self.rest.len() / self.width.max(1);
        let mut arrays: Vec<ArrayBuilder> = element_oids
            .iter()
            .map(|oid| ArrayBuilder::with_capacity(*oid, estimate))
            .collect();
        for row in self.by_ref().take(limit) {
            for (field, array) in row.zip(&mut arrays) {
                array.push_encoded(field);
            }
        }
        arrays.into_iter().map(ArrayBuilder::finish).collect()
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Fields<'a>;

    fn next(&mut self) -> Option<Fields<'a>> {
        let fields = self.rest.get(2..)?;
        let mut end = fields;
        for _ in 0..self.width {
            end = Fields::split(end)?.1;
        }
        self.rest = end;
        Some(Fields {
            left: self.width,
            rest: fields,
        })
    }
}

/// The fields of a row, each with its length before its bytes.
pub struct Fields<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn split(bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let length = i32::from_be_bytes(*bytes.first_chunk()?);
        bytes.split_at_checked(4 + usize::try_from(length).unwrap_or(0))
    }

    /// The fields without their lengths; None is NULL.
    pub fn values(self) -> impl Iterator<Item = Option<&'a [u8]>> {
        self.map(|field| (field[..4] != NULL_LENGTH.to_be_bytes()).then(|| &field[4..]))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (field, rest) = Fields::split(self.rest)?;
        self.rest = rest;
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres_types::{FromSql, Type};

    type Row<'a> = Vec<Option<&'a str>>;

    fn push(tuples: &mut Tuples, row: &[Option<&str>]) {
        let fields = row.iter().map(|field| {
            move |out: &mut Vec<u8>| -> Result<bool, ()> {
                out.extend_from_slice(field.unwrap_or_default().as_bytes());
                Ok(field.is_some())
            }
        });
        tuples.push(fields).unwrap();
    }

    fn read(tuples: &Tuples) -> Vec<Row<'_>> {
        tuples
            .rows()
            .map(|row| {
                row.values()
                    .map(|value| value.map(|text| std::str::from_utf8(text).unwrap()))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let mut tuples = Tuples::new(2);
        push(&mut tuples, &[Some("a"), None]);
        push(&mut tuples, &[Some(""), Some("bc")]);
        assert_eq!(tuples.count(), 2);
        assert_eq!(
            read(&tuples),
            [vec![Some("a"), None], vec![Some(""), Some("bc")]]
        );
        assert_eq!(tuples.last_row_bytes(), 2 + 4 + 4 + 2);
    }

    #[test]
    fn tuples_are_those_of_the_documentation() {
        let mut tuples = Tuples::new(2);
        push(&mut tuples, &[Some("x"), None]);
        assert_eq!(tuples.into_bytes(), b"\0\x02\0\0\0\x01x\xff\xff\xff\xff");
    }

    #[test]
    fn rows_without_columns_are_rows() {
        let mut tuples = Tuples::new(0);
        push(&mut tuples, &[]);
        push(&mut tuples, &[]);
        assert_eq!(read(&tuples).len(), 2);
        assert!(tuples.rows().arrays(&[], 2).is_empty());
    }

    #[test]
    fn a_failed_row_leaves_nothing() {
        let mut tuples = Tuples::new(2);
        push(&mut tuples, &[Some("kept"), Some("too")]);
        let size = tuples.bytes();
        let mut first = true;
        let fields = [(), ()].map(|()| {
            let fails = !std::mem::take(&mut first);
            move |out: &mut Vec<u8>| {
                out.push(b'x');
                if fails {
                    Err("no")
                } else {
                    Ok(true)
                }
            }
        });
        assert_eq!(tuples.push(fields.into_iter()), Err("no"));
        assert_eq!((tuples.count(), tuples.bytes()), (1, size));
        push(&mut tuples, &[None, Some("next")]);
        assert_eq!(
            read(&tuples),
            [vec![Some("kept"), Some("too")], vec![None, Some("next")]]
        );
    }

    #[test]
    fn arrays_take_rows_in_slices() {
        let mut tuples = Tuples::new(2);
        for text in ["a", "b", "c"] {
            push(&mut tuples, &[Some(text), None]);
        }
        let mut rows = tuples.rows();
        let strings =
            |bytes: &[u8]| Vec::<Option<String>>::from_sql(&Type::TEXT_ARRAY, bytes).unwrap();
        let some = |text: &str| Some(text.to_string());
        let first = rows.arrays(&[25, 25], 2);
        assert_eq!(strings(&first[0]), [some("a"), some("b")]);
        assert_eq!(strings(&first[1]), [None, None]);
        let second = rows.arrays(&[25, 25], 2);
        assert_eq!(strings(&second[0]), [some("c")]);
        assert!(rows.next().is_none());
    }

    #[test]
    fn the_last_row_can_go_alone() {
        let mut tuples = Tuples::new(1);
        push(&mut tuples, &[Some("first")]);
        push(&mut tuples, &[Some("second")]);
        let tail = tuples.split_last();
        assert_eq!(read(&tuples), [vec![Some("first")]]);
        assert_eq!(read(&tail), [vec![Some("second")]]);
        push(&mut tuples, &[Some("third")]);
        assert_eq!(read(&tuples), [vec![Some("first")], vec![Some("third")]]);
    }
}
