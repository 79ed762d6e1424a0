//! Answers of a shard as rows of text.

use crate::pg::tuple::TextRows;
use crate::pq::PgResult;
use std::ffi::CStr;

impl TextRows for PgResult {
    fn row_count(&self) -> usize {
        self.ntuples()
    }

    fn column_count(&self) -> usize {
        self.nfields()
    }

    fn text(&self, row: usize, column: usize) -> Option<&CStr> {
        PgResult::text(self, row, column)
    }
}
