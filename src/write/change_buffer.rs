//! Rows to be changed or deleted that wait in wire form, like those of an INSERT in their relation buffer: of each what
//! identifies it, and the new values of the columns that change.

use crate::model::error::{FdwError, Result};
use crate::model::option::WriteOptions;
use crate::model::sql::Sql;
use crate::model::text;
use crate::model::tuples::Tuples;
use crate::pg::typio::{Dependence, Transmission};
use crate::pg::value::{Encoder, Row};
use crate::remote::pending::{Batch, PendingRows};
use crate::remote::spare;
use crate::remote::statement::{add_context, CopyIn, Param, Statement, Subject};
use crate::remote::stats::{FlushCause, WriteStats};
use crate::write::buffer::Appended;
use crate::write::rowwise::{excess, identity_bytes};
use crate::write::waiting::Waiting;
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// How rows become parameters of the statement that carries them.
pub struct ChangeForms {
    /// The same whatever the number of rows.
    pub sql: Sql,
    /// Of a DELETE by place, for rows that are all in one table: its second parameter is that table's OID.
    pub sql_of_one_table: Option<Rc<Sql>>,
    /// Of the arrays, those of the identity first.
    pub element_oids: Vec<u32>,
    /// Of the parameters that follow on the arrays.
    pub checked_types: Vec<u32>,
    /// What identifies a row, from the rows of the plan below.
    pub identity: Vec<Encoder>,
    /// New values, from the row as it is to be.
    pub values: Vec<Encoder>,
}

/// The statement that the rows belong to.
pub struct ChangeOwner {
    /// Local name of the foreign table.
    pub table: Rc<[u8]>,
    pub server: Vec<u8>,
    /// Nesting level of the statement.
    pub level: i32,
    /// Its command id.
    pub command_id: u32,
}

/// The buffer of one target of UPDATE or DELETE.
pub struct ChangeBuffer {
    owner: ChangeOwner,
    sql: Rc<Sql>,
    forms: ChangeForms,
    dependence: Dependence,
    options: WriteOptions,
    waiting: Waiting,
    /// Identities of the rows that wait, if one could come again: a statement changes a row once.
    seen: Option<RefCell<HashSet<Vec<u8>>>>,
    /// Batches under way, first in, first out.
    under_way: RefCell<VecDeque<Subject>>,
    /// A batch has hit more rows than it held.
    excess: RefCell<Option<FdwError>>,
    /// The first batch that has hit fewer.
    missed: RefCell<Option<Subject>>,
}

impl ChangeBuffer {
    /// `can_repeat`: a row, or its key, may come more than once.
    pub fn new(
        owner: ChangeOwner,
        forms: ChangeForms,
        options: WriteOptions,
        can_repeat: bool,
    ) -> ChangeBuffer {
        let encoders = forms.identity.iter().chain(&forms.values);
        ChangeBuffer {
            waiting: Waiting::new(owner.table.clone(), forms.element_oids.len()),
            dependence: Dependence::of_all(encoders.map(Encoder::dependence)),
            sql: Rc::new(forms.sql.clone()),
            owner,
            forms,
            options,
            seen: can_repeat.then(RefCell::default),
            under_way: RefCell::default(),
            excess: RefCell::default(),
            missed: RefCell::default(),
        }
    }

    /// Encodes a row and adds it; None if it is there already. `old` is the row of the plan below, `new` the row as it is
    /// to be.
    pub fn append(&self, old: &Row, new: &Row) -> Result<Option<Appended>> {
        let _pinned = Transmission::begin_for(self.dependence);
        if let Some(seen) = &self.seen {
            if !seen
                .borrow_mut()
                .insert(identity_bytes(&self.forms.identity, old)?)
            {
                return Ok(None);
            }
        }
        let identity = self.forms.identity.iter().map(|encoder| (encoder, old));
        let values = self.forms.values.iter().map(|encoder| (encoder, new));
        let fields = identity.chain(values);
        let size = self
            .waiting
            .push(fields.map(|(encoder, row)| move |out: &mut Vec<u8>| encoder.append(row, out)))?;
        let full = if size.rows >= self.options.batch_size {
            Some(FlushCause::Full)
        } else if size.bytes >= self.options.batch_bytes {
            Some(FlushCause::Bytes)
        } else {
            None
        };
        Ok(Some(Appended {
            full,
            has_grown: size.has_grown,
        }))
    }

    pub fn identity(&self) -> &[Encoder] {
        &self.forms.identity
    }

    pub fn sql(&self) -> &Sql {
        &self.sql
    }

    pub fn stats(&self) -> WriteStats {
        self.waiting.stats()
    }

    /// Rows that the shard has changed and that have not been reported before.
    pub fn take_unreported(&self) -> u64 {
        self.waiting.take_unreported()
    }

    /// An error if a batch has hit more rows than it held: what identified them did not.
    pub fn check(&self) -> Result<()> {
        match &*self.excess.borrow() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The first batch that has hit fewer rows than it held, told once.
    pub fn take_missed(&self) -> Option<Subject> {
        self.missed.take()
    }

    fn statement(&self, rows: Tuples, cause: FlushCause) -> Statement {
        let count = rows.count();
        let table = self.forms.sql_of_one_table.as_ref().zip(one_table(&rows));
        let mut arrays = rows.rows().arrays(&self.forms.element_oids, count);
        let sql = match table {
            Some((sql, oid)) => {
                arrays[1] = oid;
                sql
            }
            None => &self.sql,
        };
        spare::put(rows.into_bytes());
        let subject = self.waiting.subject(count);
        self.under_way.borrow_mut().push_back(subject.clone());
        let statement = Statement {
            sql: sql.clone(),
            // The casts of the statement name the types.
            params: arrays
                .into_iter()
                .map(|array| Param::binary(0, array))
                .chain(self.forms.checked_types.iter().copied().map(Param::null))
                .collect(),
            written_by: Some(self.owner.command_id),
            subject,
        };
        self.waiting.note(cause, count, statement.len());
        statement
    }
}

impl PendingRows for ChangeBuffer {
    fn level(&self) -> i32 {
        self.owner.level
    }

    fn command_id(&self) -> u32 {
        self.owner.command_id
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn bytes(&self) -> usize {
        self.waiting.bytes()
    }

    fn take(&self, cause: FlushCause) -> Result<Vec<Batch>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(seen) = &self.seen {
            seen.borrow_mut().clear();
        }
        let mut rows = self.waiting.take();
        let huge = rows.last_row_bytes() > self.options.batch_bytes && rows.count() > 1;
        let alone = huge.then(|| rows.split_last());
        let parts = std::iter::once(rows).chain(alone);
        let batches = parts.map(|rows| Batch::Insert(self.statement(rows, cause)));
        Ok(batches.collect())
    }

    fn take_more(&self) -> Option<CopyIn> {
        None
    }

    fn answered(&self, rows: u64) {
        self.waiting.answered(rows);
        let Some(subject) = self.under_way.borrow_mut().pop_front() else {
            return;
        };
        let sent = subject.rows.map_or(0, |(first, last)| last - first + 1);
        if rows > sent {
            let error = excess(&text::from_bytes(&self.owner.table), rows, sent);
            let error = add_context(error, &self.owner.server, &self.sql, &subject);
            self.excess.borrow_mut().get_or_insert(error);
        } else if rows < sent {
            self.missed.borrow_mut().get_or_insert(subject);
        }
    }

    fn discard(&self) {
        drop(self.waiting.take());
    }
}

/// The second field of all rows (the OID of the table that holds them), if it is the same.
fn one_table(rows: &Tuples) -> Option<Vec<u8>> {
    let mut oids = rows.rows().map(|row| row.values().nth(1).flatten());
    let first = oids.next()??;
    oids.all(|oid| oid == Some(first)).then(|| first.to_vec())
}
