//! The relation buffer: rows accepted for one foreign table and not yet sent, already in wire form.

use crate::model::copy::{append_text, Format};
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::insert::from_values;
use crate::model::option::WriteOptions;
use crate::model::sql::Sql;
use crate::model::table::RemoteTable;
use crate::model::text;
use crate::model::tuples::{Rows, Tuples};
use crate::pg::typio::Transmission;
use crate::pg::value::Row;
use crate::pq::MAX_PARAMS;
use crate::remote::copyable::CopyQuestion;
use crate::remote::pending::{Batch, Kept, PendingRows};
use crate::remote::spare;
use crate::remote::statement::{CopyIn, Param, Statement};
use crate::remote::stats::{FlushCause, WriteStats};
use crate::write::shape::{Forms, Shape};
use crate::write::transport::Stream;
use crate::write::upsert::Keys;
use crate::write::waiting::Waiting;
use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::rc::Rc;

/// How many bytes are handed to an open COPY at a time: so few that they are still near the processor when they are sent.
const STREAM_BYTES: usize = 64 << 10;
/// Of a row up to this size both forms are made where it may go alone in another form than with others.
const MOST_IN_TWO_FORMS: usize = 16 << 10;
/// OID of type `int8`, for the number of rows of a table without columns.
const INT8: u32 = 20;

/// The place that a buffer's rows belong to.
pub struct Owner {
    pub shape: Rc<Shape>,
    /// Nesting level of the statement.
    pub level: i32,
    /// Rows may wait beyond its end.
    pub kept: Option<Kept>,
}

/// What a row has made of its buffer.
pub struct Appended {
    /// The batch is full and must go.
    pub full: Option<FlushCause>,
    /// The buffer takes noticeably more memory than before.
    pub has_grown: bool,
}

/// A relation buffer.
pub struct RelationBuffer {
    owner: Owner,
    forms: RefCell<Rc<Forms>>,
    /// In which format of COPY the rows can go, once it is known whether they can at all.
    copy: RefCell<Option<(Format, Rc<Sql>)>>,
    options: WriteOptions,
    stream: Stream,
    waiting: Waiting,
    /// Their keys, where a batch may hold none twice.
    keys: Option<Keys>,
    /// Of a row that waits alone, the values that its [`RowForm`] wants as text, NULLs as None.
    ///
    /// [`RowForm`]: crate::write::shape::RowForm
    texts: RefCell<Option<Vec<Option<CString>>>>,
    has_copied: Cell<bool>,
    /// Command ids of the rows that wait, or waited last: the smallest and the greatest.
    command_ids: Cell<(u32, u32)>,
    /// Rows may wait beyond the end of their statement.
    kept: Cell<Option<Kept>>,
    /// It takes no more rows.
    is_closed: Cell<bool>,
}

impl RelationBuffer {
    pub fn new(
        owner: Owner,
        mut options: WriteOptions,
        stream: Stream,
        keys: Option<Keys>,
    ) -> RelationBuffer {
        let forms = owner.shape.forms.clone();
        let width = forms.encoding.columns.len();
        if forms.encoding.needs_parameters_per_row() {
            options.batch_size = options.batch_size.min(MAX_PARAMS / width.max(1));
        }
        let buffer = RelationBuffer {
            waiting: Waiting::new(owner.shape.table.clone(), width),
            forms: RefCell::new(forms),
            copy: RefCell::default(),
            kept: Cell::new(owner.kept),
            owner,
            options,
            stream,
            keys,
            texts: RefCell::default(),
            has_copied: Cell::new(false),
            command_ids: Cell::default(),
            is_closed: Cell::new(false),
        };
        buffer.follow_stream();
        buffer
    }

    /// Notes the key of a row that is to be added. False: the rows that wait have to be sent before, and then its key noted.
    pub fn note_key(&self, row: &Row) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.add(row))
    }

    /// Encodes a row and adds it. `command_id`: that of its statement.
    pub fn append(&self, row: &Row, command_id: u32) -> Result<Appended> {
        let (oldest, newest) = match self.is_empty() {
            true => (command_id, command_id),
            false => self.command_ids.get(),
        };
        self.command_ids
            .set((oldest.min(command_id), newest.max(command_id)));
        let forms = self.forms.borrow();
        let _pinned = Transmission::begin_for(forms.dependence);
        let encoders = forms.encoding.encoders.iter();
        let size = self
            .waiting
            .push(encoders.map(|encoder| move |out: &mut Vec<u8>| encoder.append(row, out)))?;
        if size.rows == 1 {
            self.note_texts(&forms, row, size.bytes)?;
        }
        let is_ready = self.copy.borrow().is_some();
        let mut full = self.stream.is_full(size.rows, size.bytes, is_ready);
        if full.is_some() && !is_ready {
            drop(forms);
            // The shard may have answered that these rows can be copied as they are.
            self.look_for_format();
            if self.copy.borrow().is_some() {
                full = self.stream.is_full(size.rows, size.bytes, true);
            }
        }
        Ok(Appended {
            full,
            has_grown: size.has_grown,
        })
    }

    /// Notes what the only row needs should it go alone. Nothing, if it is large: then it goes as many do.
    fn note_texts(&self, forms: &Forms, row: &Row, bytes: usize) -> Result<()> {
        let form = forms.row.as_ref().filter(|_| bytes <= MOST_IN_TWO_FORMS);
        let texts = match form {
            Some(form) if !form.texts.is_empty() => {
                let _pinned = Transmission::begin_for(form.dependence);
                let texts = form.texts.iter();
                Some(
                    texts
                        .map(|(_, encoder)| encoder.text_value(row))
                        .collect::<Result<_>>()?,
                )
            }
            _ => None,
        };
        *self.texts.borrow_mut() = texts;
        Ok(())
    }

    /// Once COPY is in use: notes the format in which the present form of rows can go, if it can.
    fn look_for_format(&self) {
        if let Some(types) = self.stream.copy_types() {
            *self.copy.borrow_mut() = self.forms.borrow().copy(&self.owner.shape, &types);
        }
    }

    /// The question about COPY that is not answered yet, if there is one.
    pub fn unanswered(&self) -> Option<&Rc<CopyQuestion>> {
        self.stream.unanswered()
    }

    /// Are there enough rows to hand them to a COPY that is open for them?
    #[inline]
    pub fn can_stream(&self) -> bool {
        self.waiting.bytes() >= STREAM_BYTES && self.copy.borrow().is_some()
    }

    /// Is it that of a (sub)transaction that is over?
    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Rows that the shard stored and that have not been reported before.
    pub fn take_unreported(&self) -> u64 {
        self.waiting.take_unreported()
    }

    /// Rows sent so far, and rows that the shard stored of them as far as it has answered.
    pub fn totals(&self) -> (u64, u64) {
        self.waiting.totals()
    }

    /// Most rows of a multi-row INSERT.
    pub fn batch_size(&self) -> usize {
        self.options.batch_size
    }

    pub fn stats(&self) -> WriteStats {
        self.waiting.stats()
    }

    /// The statement that carries the rows, for EXPLAIN, and whether that is COPY.
    pub fn sql(&self) -> (Sql, bool) {
        let forms = self.forms.borrow();
        let copy = self.copy.borrow();
        let copied = copy.as_ref().filter(|_| self.has_copied.get());
        let Shape {
            remote: RemoteTable { schema, name, .. },
            clauses,
            ..
        } = &*self.owner.shape;
        let columns = &forms.encoding.columns;
        match copied {
            Some((_, sql)) => ((**sql).clone(), true),
            None if forms.encoding.needs_parameters_per_row() => {
                (from_values(schema, name, columns, clauses, 1), false)
            }
            None => ((*forms.array_sql).clone(), false),
        }
    }

    /// Between two batches: once COPY is in use, rows take a form for it.
    fn follow_stream(&self) {
        let Some(types) = self.stream.copy_types() else {
            self.copy.take();
            return;
        };
        if self.copy.borrow().is_none() {
            self.look_for_format();
        }
        if self.copy.borrow().is_none() {
            let text = self.forms.borrow().to_text(&self.owner.shape, &types);
            match text {
                Some(forms) => {
                    *self.copy.borrow_mut() = forms.copy(&self.owner.shape, &types);
                    *self.forms.borrow_mut() = Rc::new(forms);
                }
                None => self.stream.give_up_copy(),
            }
        }
    }

    fn copy_in(&self, rows: Tuples, format: Format, sql: Rc<Sql>) -> CopyIn {
        let count = rows.count();
        let rows = match format {
            Format::Binary => rows.into_bytes(),
            Format::Text => {
                let mut text = spare::take();
                append_text(&rows, &mut text);
                spare::put(rows.into_bytes());
                text
            }
        };
        CopyIn {
            sql,
            format,
            table: self.owner.shape.remote.name.clone(),
            stays_open: self.stream.may_stay_open(),
            rows,
            subject: self.waiting.subject(count),
        }
    }

    fn take_rows(&self) -> Tuples {
        if let Some(keys) = &self.keys {
            keys.clear();
        }
        self.waiting.take()
    }

    /// As many multi-row INSERTs as `batch_size` asks for.
    fn insert_batches(
        &self,
        rows: &Tuples,
        cause: FlushCause,
        batches: &mut Vec<Batch>,
    ) -> Result<()> {
        let forms = self.forms.borrow();
        // They are those of the first row.
        let texts = self.texts.take().filter(|_| rows.count() == 1);
        let mut reader = rows.rows();
        let mut left = rows.count();
        while left > 0 {
            let count = left.min(self.options.batch_size);
            left -= count;
            let (sql, params) = self.insert(&forms, &mut reader, count, texts.as_deref())?;
            let statement = Statement {
                sql,
                params,
                written_by: Some(self.command_id()),
                subject: self.waiting.subject(count),
            };
            self.waiting.note(cause, count, statement.len());
            batches.push(Batch::Insert(statement));
        }
        Ok(())
    }

    fn insert(
        &self,
        forms: &Forms,
        rows: &mut Rows,
        count: usize,
        texts: Option<&[Option<CString>]>,
    ) -> Result<(Rc<Sql>, Vec<Param>)> {
        let columns = &forms.encoding.columns;
        let alone = forms.row.as_ref().filter(|_| count == 1);
        Ok(if columns.is_empty() {
            let number = (count as i64).to_be_bytes().to_vec();
            (forms.array_sql.clone(), vec![Param::binary(INT8, number)])
        } else if forms.encoding.needs_parameters_per_row() {
            let RemoteTable { schema, name, .. } = &self.owner.shape.remote;
            let sql = from_values(schema, name, columns, &self.owner.shape.clauses, count);
            let values = rows.by_ref().take(count).flat_map(|row| row.values());
            let params = values
                .map(|value| Ok(Param::text(value.map(without_nul).transpose()?)))
                .collect::<Result<_>>()?;
            (Rc::new(sql), params)
        } else if let Some(form) = alone.filter(|form| form.texts.is_empty() || texts.is_some()) {
            let values = rows.by_ref().take(1).flat_map(|row| row.values());
            let texts = form.texts.iter().zip(texts.unwrap_or_default());
            let mut texts = texts.peekable();
            // The casts of the statement name the types, but of the text whose type the shard infers.
            let params = values
                .zip(columns)
                .enumerate()
                .map(|(position, (value, column))| {
                    // Of a value in binary form, the text has been made beside it.
                    if let Some((_, text)) = texts.next_if(|((of, _), _)| *of == position) {
                        return Ok(Param::text(text.clone()));
                    }
                    match (value, column.checked_type) {
                        (Some(text), Some(_)) => Ok(Param::text(Some(without_nul(text)?))),
                        (Some(bytes), None) => Ok(Param::binary(0, bytes.to_vec())),
                        (None, _) => Ok(Param::text(None)),
                    }
                });
            (form.sql.clone(), params.collect::<Result<_>>()?)
        } else {
            let arrays = rows.arrays(&forms.element_oids, count);
            let arrays = arrays.into_iter().map(|array| Param::binary(0, array));
            let checked = forms.checked_types.iter().copied().map(Param::null);
            (forms.array_sql.clone(), arrays.chain(checked).collect())
        })
    }
}

/// A value in text form, which no type of PostgreSQL writes with a NUL character.
fn without_nul(text: &[u8]) -> Result<CString> {
    CString::new(text).map_err(|_| FdwError::internal("a value in text form has a NUL character"))
}

/// A trigger or rule that was made after the shard had said there was none: rather an error than a wrong count.
fn miscounted(table: &[u8], sent: u64, stored: u64) -> FdwError {
    FdwError::local(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "{stored} of {} of foreign table \"{}\" were stored",
            text::rows(sent),
            text::from_bytes(table)
        ),
    )
    .with_detail("The remote table has got a trigger or a rule that drops rows. They had been counted before.")
}

impl PendingRows for RelationBuffer {
    fn level(&self) -> i32 {
        self.owner.level
    }

    fn command_id(&self) -> u32 {
        self.command_ids.get().1
    }

    fn oldest_command_id(&self) -> u32 {
        self.command_ids.get().0
    }

    fn kept(&self) -> Option<Kept> {
        self.kept.get()
    }

    fn set_kept(&self, kept: Kept) {
        self.kept.set(Some(kept));
    }

    fn settle(&self) -> Result<()> {
        let (sent, answered) = self.totals();
        if self.kept.get().is_none() || sent == answered {
            return Ok(());
        }
        Err(miscounted(&self.owner.shape.table, sent, answered))
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
        let mut rows = self.take_rows();
        let copy = self.copy.borrow().clone();
        let mut batches = Vec::new();
        match copy.filter(|_| self.stream.copies(rows.count(), rows.bytes())) {
            Some((format, sql)) => {
                let count = rows.count();
                let copy = self.copy_in(rows, format, sql);
                self.waiting.note(cause, count, copy.rows.len());
                batches.push(Batch::Copy(copy));
                self.stream.has_copied();
                self.has_copied.set(true);
            }
            None => {
                let huge = rows.last_row_bytes() > self.options.batch_bytes && rows.count() > 1;
                let alone = huge.then(|| rows.split_last());
                self.insert_batches(&rows, cause, &mut batches)?;
                if let Some(row) = alone {
                    self.insert_batches(&row, cause, &mut batches)?;
                }
                spare::put(rows.into_bytes());
                if self.stream.wants_to_ask(cause) {
                    let question = self.stream.question().clone();
                    batches.push(Batch::Question(self.owner.shape.question.clone(), question));
                }
            }
        }
        self.follow_stream();
        Ok(batches)
    }

    fn take_more(&self) -> Option<CopyIn> {
        let (format, sql) = self.copy.borrow().clone()?;
        let rows = self.waiting.take();
        let count = rows.count();
        let copy = self.copy_in(rows, format, sql);
        self.waiting.note_more(count, copy.rows.len());
        Some(copy)
    }

    fn answered(&self, rows: u64) {
        self.waiting.answered(rows);
    }

    fn discard(&self) {
        self.is_closed.set(true);
        drop(self.take_rows());
    }
}
