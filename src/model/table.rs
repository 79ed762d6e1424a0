//! A foreign table as its shard knows it.

/// Column numbers of `ctid` and `xmin`.
pub use crate::model::expr::{CTID, XMIN};

/// Column number of `tableoid`, the table that holds a row: of the shard's OIDs.
pub const TABLEOID: i16 = -6;

/// A column that is not dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteColumn {
    /// Number of the local column, from 1.
    pub attnum: i16,
    /// Name on the shard.
    pub name: Vec<u8>,
    /// Does the foreign table declare it as generated? Then it is never sent.
    pub generated: bool,
}

/// Names on the shard, with the options `schema_name`, `table_name` and `column_name` applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteTable {
    pub schema: Vec<u8>,
    pub name: Vec<u8>,
    pub columns: Vec<RemoteColumn>,
}

impl RemoteTable {
    /// The column with this local number.
    pub fn column(&self, attnum: i16) -> Option<&RemoteColumn> {
        self.columns.iter().find(|column| column.attnum == attnum)
    }

    /// Is the column generated?
    pub fn is_generated(&self, attnum: i16) -> bool {
        self.column(attnum).is_some_and(|column| column.generated)
    }
}
