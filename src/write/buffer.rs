//! The relation buffer: rows accepted for one foreign table and not yet sent, already in wire form.

use crate::model::array::ArrayBuilder;
use crate::model::error::Result;
use crate::model::insert::{from_arrays, from_values, Clauses, Form, Target as Column};
use crate::model::option::WriteLimits;
use crate::model::sql::Sql;
use crate::model::table::RemoteTable;
use crate::pg::typio::Transmission;
use crate::pg::value::{Encoder, Row};
use crate::pq::MAX_PARAMS;
use crate::remote::pending::PendingRows;
use crate::remote::statement::{Param, Statement, Subject};
use crate::remote::stats::{FlushCause, WriteStats};
use crate::write::columns::Encoding;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// OID of type `text`, the element type of columns that travel as text.
const TEXT: u32 = 25;
/// OID of type `int8`, for the number of rows of a table without columns.
const INT8: u32 = 20;

/// The statement and the place that a buffer's rows belong to.
pub struct Owner {
    /// Local name of the foreign table.
    pub table: Rc<[u8]>,
    pub remote: RemoteTable,
    pub clauses: Clauses,
    /// Nesting level of the statement.
    pub level: i32,
    /// Its command id.
    pub command_id: u32,
}

/// Rows in wire form.
enum Rows {
    /// One array for each column.
    Arrays(Vec<ArrayBuilder>),
    /// One parameter for each value.
    Values(Vec<Param>),
}

/// A relation buffer.
pub struct RelationBuffer {
    owner: Owner,
    encoding: Encoding,
    /// Text of a statement with arrays: the same whatever the number of rows.
    array_sql: Rc<Sql>,
    limits: WriteLimits,
    pins_settings: bool,
    rows: RefCell<Rows>,
    count: Cell<usize>,
    bytes: Cell<usize>,
    last_row_bytes: Cell<usize>,
    /// Rows taken so far.
    sent: Cell<u64>,
    /// Rows that the shard has answered for, and those of them not yet reported to the executor.
    answered: Cell<u64>,
    unreported: Cell<u64>,
    stats: Cell<WriteStats>,
}

impl RelationBuffer {
    pub fn new(owner: Owner, encoding: Encoding, mut limits: WriteLimits) -> RelationBuffer {
        let per_row = encoding.needs_parameters_per_row();
        if per_row {
            limits.batch_size = limits
                .batch_size
                .min(MAX_PARAMS / encoding.columns.len().max(1));
        }
        let rows = if per_row {
            Rows::Values(Vec::new())
        } else {
            Rows::Arrays(encoding.columns.iter().map(array_for).collect())
        };
        let remote = &owner.remote;
        let array_sql = from_arrays(
            &remote.schema,
            &remote.name,
            &encoding.columns,
            &owner.clauses,
        );
        RelationBuffer {
            array_sql: Rc::new(array_sql),
            pins_settings: encoding.encoders.iter().any(Encoder::depends_on_settings),
            owner,
            encoding,
            limits,
            rows: RefCell::new(rows),
            count: Cell::new(0),
            bytes: Cell::new(0),
            last_row_bytes: Cell::new(0),
            sent: Cell::new(0),
            answered: Cell::new(0),
            unreported: Cell::new(0),
            stats: Cell::default(),
        }
    }

    /// Encodes a row and adds it. Some: the batch is full and must go.
    pub fn append(&self, row: &Row) -> Result<Option<FlushCause>> {
        let _pinned = self.pins_settings.then(Transmission::begin);
        let count = self.count.get();
        let added = self.encode(row, count);
        let bytes = match added {
            Ok(bytes) => bytes,
            Err(error) => {
                self.take_back(count);
                return Err(error);
            }
        };
        self.count.set(count + 1);
        self.last_row_bytes.set(bytes);
        self.bytes.set(self.bytes.get() + bytes);
        Ok(if count + 1 >= self.limits.batch_size {
            Some(FlushCause::Full)
        } else if self.bytes.get() >= self.limits.batch_bytes {
            Some(FlushCause::Bytes)
        } else {
            None
        })
    }

    /// Returns the bytes of the encoded row.
    fn encode(&self, row: &Row, count: usize) -> Result<usize> {
        let mut bytes = 0;
        match &mut *self.rows.borrow_mut() {
            Rows::Arrays(arrays) => {
                // An error may have left a row half added, if an interrupt came in between.
                for array in arrays.iter_mut() {
                    array.truncate(count);
                }
                for (encoder, array) in self.encoding.encoders.iter().zip(arrays) {
                    let before = array.len();
                    if encoder.is_null(row) {
                        array.push_null();
                    } else {
                        array.push_with(|out| encoder.append(row, out).map(|_| ()))?;
                    }
                    bytes += array.len() - before;
                }
            }
            Rows::Values(params) => {
                params.truncate(count * self.encoding.columns.len());
                for encoder in &self.encoding.encoders {
                    let param = Param::text(encoder.text_value(row)?);
                    bytes += param.len();
                    params.push(param);
                }
            }
        }
        Ok(bytes)
    }

    fn take_back(&self, count: usize) {
        match &mut *self.rows.borrow_mut() {
            Rows::Arrays(arrays) => arrays.iter_mut().for_each(|array| array.truncate(count)),
            Rows::Values(params) => params.truncate(count * self.encoding.columns.len()),
        }
    }

    /// Rows that the shard stored and that have not been reported before.
    pub fn take_unreported(&self) -> u64 {
        self.unreported.take()
    }

    /// Rows sent so far, and rows that the shard stored of them as far as it has answered.
    pub fn totals(&self) -> (u64, u64) {
        (self.sent.get(), self.answered.get())
    }

    /// Most rows of a batch.
    pub fn batch_size(&self) -> usize {
        self.limits.batch_size
    }

    pub fn stats(&self) -> WriteStats {
        self.stats.get()
    }

    /// The statement that carries the rows, for EXPLAIN.
    pub fn sql(&self) -> Sql {
        if self.encoding.needs_parameters_per_row() {
            let remote = &self.owner.remote;
            from_values(
                &remote.schema,
                &remote.name,
                &self.encoding.columns,
                &self.owner.clauses,
                1,
            )
        } else {
            (*self.array_sql).clone()
        }
    }

    fn statement(&self, rows: Rows, count: usize, cause: FlushCause) -> Statement {
        let first = self.sent.get() + 1;
        let last = self.sent.get() + count as u64;
        self.sent.set(last);
        let (sql, params) = match rows {
            Rows::Arrays(arrays) if arrays.is_empty() => {
                let count = (count as i64).to_be_bytes().to_vec();
                (self.array_sql.clone(), vec![Param::binary(INT8, count)])
            }
            Rows::Arrays(arrays) => {
                // The casts of the statement name the types.
                let params = arrays
                    .into_iter()
                    .map(|array| Param::binary(0, array.finish()))
                    .collect();
                (self.array_sql.clone(), params)
            }
            Rows::Values(params) => {
                let remote = &self.owner.remote;
                let columns = &self.encoding.columns;
                let clauses = &self.owner.clauses;
                let sql = from_values(&remote.schema, &remote.name, columns, clauses, count);
                (Rc::new(sql), params)
            }
        };
        let statement = Statement {
            sql,
            params,
            written_by: Some(self.owner.command_id),
            subject: Subject {
                table: Some(self.owner.table.clone()),
                rows: Some((first, last)),
                query: None,
            },
        };
        let mut stats = self.stats.get();
        stats.count(cause, count as u64, statement.len() as u64);
        self.stats.set(stats);
        statement
    }

    fn take_rows(&self) -> Rows {
        match &mut *self.rows.borrow_mut() {
            Rows::Arrays(arrays) => Rows::Arrays(
                arrays
                    .iter_mut()
                    .map(|array| std::mem::replace(array, array.successor()))
                    .collect(),
            ),
            Rows::Values(params) => Rows::Values(std::mem::take(params)),
        }
    }

    fn take_last_row(&self) -> Rows {
        match &mut *self.rows.borrow_mut() {
            Rows::Arrays(arrays) => {
                Rows::Arrays(arrays.iter_mut().map(ArrayBuilder::split_last).collect())
            }
            Rows::Values(params) => {
                Rows::Values(params.split_off(params.len() - self.encoding.columns.len()))
            }
        }
    }
}

fn array_for(column: &Column) -> ArrayBuilder {
    ArrayBuilder::new(match &column.form {
        Form::Binary { element_oid, .. } => *element_oid,
        Form::Cast { .. } | Form::Inferred => TEXT,
    })
}

impl PendingRows for RelationBuffer {
    fn level(&self) -> i32 {
        self.owner.level
    }

    fn command_id(&self) -> u32 {
        self.owner.command_id
    }

    fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    fn bytes(&self) -> usize {
        self.bytes.get()
    }

    fn take(&self, cause: FlushCause) -> Vec<Statement> {
        let count = self.count.replace(0);
        self.bytes.set(0);
        if count == 0 {
            return Vec::new();
        }
        let alone = self.last_row_bytes.get() > self.limits.batch_bytes;
        if alone && count > 1 {
            let last = self.take_last_row();
            let others = self.take_rows();
            return vec![
                self.statement(others, count - 1, cause),
                self.statement(last, 1, cause),
            ];
        }
        let rows = self.take_rows();
        vec![self.statement(rows, count, cause)]
    }

    fn answered(&self, rows: u64) {
        self.answered.set(self.answered.get() + rows);
        self.unreported.set(self.unreported.get() + rows);
    }

    fn discard(&self) {
        self.count.set(0);
        self.bytes.set(0);
        drop(self.take_rows());
    }
}
