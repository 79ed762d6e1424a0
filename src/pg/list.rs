//! Lists for core. Plan-private data are plain nodes: they survive copyObject, the plan cache and node output, and hold
//! no pointer of ours.

use crate::model::error::{FdwError, Result};
use crate::pg::catalog::c_string;
use crate::pg::raise::bytes;
use pgrx::pg_sys;

/// Version of the layout; a list with another one was not written by this library.
const VERSION: i32 = 1;

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Int(i32),
    Text(Vec<u8>),
    Ints(Vec<i32>),
}

/// Makes a list of the version and `items`, in the current memory context. Text with a NUL is an error.
pub fn encode(items: &[Item]) -> Result<*mut pg_sys::List> {
    let mut list = append(std::ptr::null_mut(), &Item::Int(VERSION))?;
    for item in items {
        list = append(list, item)?;
    }
    Ok(list)
}

/// Makes a list of C strings, in the current memory context. Text with a NUL is an error.
pub fn of_strings<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Result<*mut pg_sys::List> {
    let mut list = std::ptr::null_mut();
    for text in texts {
        let text = c_string(text)?;
        // SAFETY: list cells and the copy are palloc'd by core.
        list = unsafe { pg_sys::lappend(list, pg_sys::pstrdup(text.as_ptr()).cast()) };
    }
    Ok(list)
}

fn append(list: *mut pg_sys::List, item: &Item) -> Result<*mut pg_sys::List> {
    // SAFETY: nodes and list cells are palloc'd by core; an empty list of integers is a null pointer, which the node
    // functions take as a cell.
    unsafe {
        let cell = match item {
            Item::Int(value) => pg_sys::makeInteger(*value).cast(),
            Item::Text(text) => {
                let text = c_string(text)?;
                pg_sys::makeString(pg_sys::pstrdup(text.as_ptr())).cast()
            }
            Item::Ints(values) => values
                .iter()
                .fold(std::ptr::null_mut(), |list, value| {
                    pg_sys::lappend_int(list, *value)
                })
                .cast(),
        };
        Ok(pg_sys::lappend(list, cell))
    }
}

/// Reads back what [`encode`] made, without the version.
///
/// # Safety
/// `list` is null or a valid List node.
pub unsafe fn decode(list: *mut pg_sys::List) -> Result<Vec<Item>> {
    // SAFETY: by the contract; each cell is looked at by its own node tag.
    unsafe {
        let mut items = Vec::new();
        for position in 0..pg_sys::list_length(list) {
            items.push(item(pg_sys::list_nth(list, position).cast())?);
        }
        if items.first() != Some(&Item::Int(VERSION)) {
            return Err(malformed());
        }
        items.remove(0);
        Ok(items)
    }
}

/// # Safety
/// `node` is null or a valid node.
unsafe fn item(node: *mut pg_sys::Node) -> Result<Item> {
    if node.is_null() {
        return Ok(Item::Ints(Vec::new()));
    }
    // SAFETY: the tag says which struct the node is.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_Integer => Ok(Item::Int((*node.cast::<pg_sys::Integer>()).ival)),
            pg_sys::NodeTag::T_String => {
                Ok(Item::Text(bytes((*node.cast::<pg_sys::String>()).sval)))
            }
            pg_sys::NodeTag::T_IntList => {
                let list = node.cast::<pg_sys::List>();
                Ok(Item::Ints(
                    (0..pg_sys::list_length(list))
                        .map(|position| pg_sys::list_nth_int(list, position))
                        .collect(),
                ))
            }
            _ => Err(malformed()),
        }
    }
}

fn malformed() -> FdwError {
    FdwError::internal("plan-private data is malformed")
}

/// Takes the entries of a decoded list one by one, each with its kind checked.
pub struct Items(std::vec::IntoIter<Item>);

impl Items {
    pub fn new(items: Vec<Item>) -> Items {
        Items(items.into_iter())
    }

    pub fn int(&mut self) -> Result<i32> {
        match self.0.next() {
            Some(Item::Int(value)) => Ok(value),
            _ => Err(malformed()),
        }
    }

    pub fn text(&mut self) -> Result<Vec<u8>> {
        match self.0.next() {
            Some(Item::Text(text)) => Ok(text),
            _ => Err(malformed()),
        }
    }

    pub fn ints(&mut self) -> Result<Vec<i32>> {
        match self.0.next() {
            Some(Item::Ints(values)) => Ok(values),
            _ => Err(malformed()),
        }
    }

    /// Numbers of columns.
    pub fn columns(&mut self) -> Result<Vec<i16>> {
        self.ints()?
            .into_iter()
            .map(|attnum| i16::try_from(attnum).map_err(|_| malformed()))
            .collect()
    }

    /// The list must be at its end.
    pub fn finish(mut self) -> Result<()> {
        match self.0.next() {
            None => Ok(()),
            Some(_) => Err(malformed()),
        }
    }
}

#[cfg(feature = "pg_test")]
#[pgrx::pg_schema]
mod tests {
    use super::*;
    use pgrx::prelude::*;

    #[pg_test]
    fn lists_survive_copying_and_node_output() {
        let items = vec![
            Item::Int(-7),
            Item::Text(b"SELECT \"a b\" {(}\\ FROM t".to_vec()),
            Item::Ints(vec![1, -1, 3]),
            Item::Ints(vec![]),
            Item::Text(vec![]),
        ];
        let list = encode(&items).expect("no NUL");
        // SAFETY: the list is valid; copies and the read-back of node text are palloc'd.
        unsafe {
            let copy = pg_sys::copyObjectImpl(list.cast()).cast::<pg_sys::List>();
            assert_eq!(decode(copy).expect("a copy"), items);
            let text = pg_sys::nodeToString(list.cast());
            let read = pg_sys::stringToNode(text).cast::<pg_sys::List>();
            assert_eq!(decode(read).expect("read back"), items);
        }
    }

    #[pg_test]
    fn a_list_of_another_version_is_refused() {
        // SAFETY: makeInteger and lappend make valid nodes.
        let error = unsafe {
            let list = pg_sys::lappend(std::ptr::null_mut(), pg_sys::makeInteger(99).cast());
            decode(list).expect_err("version 99")
        };
        assert_eq!(error.to_string(), "plan-private data is malformed");
    }
}
