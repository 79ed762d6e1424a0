//! How the rows of a foreign table travel: worked out once for all buffers, as long as nothing changes on either side.

use crate::model::copy::{copy_from, Format};
use crate::model::insert::{checked_types, from_arrays, from_row, Clauses, Form, Target as Column};
use crate::model::option::Transport;
use crate::model::sql::Sql;
use crate::model::table::RemoteTable;
use crate::pg::target::Target;
use crate::pg::typio::Dependence;
use crate::pg::value::Encoder;
use crate::remote::copyable;
use crate::remote::relation::RemoteRelation;
use crate::remote::statement::{Statement, Subject};
use crate::write::columns::{Encoding, Sent};
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// One way of encoding rows, and the statement that carries them.
pub struct Forms {
    pub encoding: Encoding,
    /// Text of a statement with arrays: the same whatever the number of rows.
    pub array_sql: Rc<Sql>,
    /// Of the parameters that follow on the arrays.
    pub checked_types: Vec<u32>,
    /// How a single row of the same values can go.
    pub row: Option<RowForm>,
    pub element_oids: Vec<u32>,
    pub dependence: Dependence,
}

/// A statement with a single row, and what it needs of that in another form.
pub struct RowForm {
    pub sql: Rc<Sql>,
    /// Positions of columns that have to be text, with what makes that.
    pub texts: Vec<(usize, Encoder)>,
    /// That of the texts.
    pub dependence: Dependence,
}

impl RowForm {
    fn new(remote: &RemoteTable, clauses: &Clauses, encoding: &Encoding) -> Option<RowForm> {
        let texts = encoding.texts_of_row()?;
        let encoders = texts.iter().map(|(_, encoder)| encoder.dependence());
        Some(RowForm {
            sql: Rc::new(from_row(
                &remote.schema,
                &remote.name,
                &encoding.columns,
                clauses,
            )),
            dependence: Dependence::of_all(encoders),
            texts,
        })
    }
}

impl Forms {
    fn new(remote: &RemoteTable, clauses: &Clauses, encoding: Encoding) -> Forms {
        let RemoteTable { schema, name, .. } = remote;
        Forms {
            array_sql: Rc::new(from_arrays(schema, name, &encoding.columns, clauses)),
            checked_types: checked_types(&encoding.columns).collect(),
            row: RowForm::new(remote, clauses, &encoding),
            element_oids: encoding.columns.iter().map(Column::element_oid).collect(),
            dependence: encoding.dependence(),
            encoding,
        }
    }

    /// Where the remote columns still have the types that the forms were chosen for: rows can be copied in binary format if
    /// all of their values are binary, and in text format if all are text.
    pub fn copy(&self, shape: &Shape, types: &[u32]) -> Option<(Format, Rc<Sql>)> {
        if self.encoding.remote_types != types {
            return None;
        }
        let columns = &self.encoding.columns;
        let is_binary = columns
            .iter()
            .all(|column| matches!(column.form, Form::Binary { .. }));
        let format = match is_binary {
            true => Format::Binary,
            false if self.encoding.is_text() => Format::Text,
            false => return None,
        };
        let RemoteTable { schema, name, .. } = &shape.remote;
        Some((format, Rc::new(copy_from(schema, name, columns, format))))
    }

    /// The forms for COPY in text format, if the remote columns still have their types and the values such forms.
    pub fn to_text(&self, shape: &Shape, types: &[u32]) -> Option<Forms> {
        let encoding = self.encoding.to_text()?;
        (self.encoding.remote_types == types)
            .then(|| Forms::new(&shape.remote, &shape.clauses, encoding))
    }
}

/// What buffers for the same columns of the same table share.
pub struct Shape {
    /// Local name of the foreign table.
    pub table: Rc<[u8]>,
    pub remote: RemoteTable,
    pub clauses: Clauses,
    pub forms: Rc<Forms>,
    /// Asks whether COPY can be used.
    pub question: Vec<Statement>,
}

/// What a shape was made for.
pub struct Made<'a> {
    pub relation: Oid,
    pub target: &'a Rc<Target>,
    pub remote: &'a Rc<RemoteRelation>,
    pub sent: &'a Sent,
    pub clauses: &'a Clauses,
    /// As in server_version_num.
    pub shard_version: i32,
}

struct Known {
    target: Rc<Target>,
    remote: Rc<RemoteRelation>,
    sent: Sent,
    shard_version: i32,
    shape: Rc<Shape>,
}

/// So many are kept.
const MOST_KNOWN: usize = 10_000;

thread_local! {
    /// The last shape of each relation.
    static KNOWN: RefCell<HashMap<Oid, Known>> = RefCell::default();
}

impl Shape {
    /// The shape for these, made if it is not the last one of the relation.
    pub fn of(made: &Made) -> Rc<Shape> {
        let known = KNOWN.with_borrow(|known| {
            let known = known.get(&made.relation)?;
            let is_same = Rc::ptr_eq(&known.target, made.target)
                && Rc::ptr_eq(&known.remote, made.remote)
                && known.shard_version == made.shard_version
                && known.sent == *made.sent
                && known.shape.clauses == *made.clauses;
            is_same.then(|| known.shape.clone())
        });
        if let Some(shape) = known {
            return shape;
        }
        let shape = Rc::new(Shape::new(made));
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            known.insert(
                made.relation,
                Known {
                    target: made.target.clone(),
                    remote: made.remote.clone(),
                    sent: made.sent.clone(),
                    shard_version: made.shard_version,
                    shape: shape.clone(),
                },
            );
        });
        shape
    }

    fn new(made: &Made) -> Shape {
        let Target {
            relation,
            remote,
            options,
            ..
        } = &**made.target;
        let encoding = Encoding::new(made.target, made.sent, made.remote, made.shard_version);
        let columns: Vec<&[u8]> = encoding
            .columns
            .iter()
            .map(|column| column.name.as_slice())
            .collect();
        let mut question = Vec::new();
        // A plain table has been locked by the first INSERT, a partitioned one not with all its partitions.
        if made.remote.is_partitioned || options.write.transport == Transport::Copy {
            question.push(copyable::lock(remote));
        }
        question.push(copyable::question(
            remote,
            &columns,
            made.clauses.overriding,
        ));
        for statement in &mut question {
            statement.subject = Subject::question(Some(relation.name.clone()));
        }
        Shape {
            table: relation.name.as_slice().into(),
            remote: remote.clone(),
            clauses: made.clauses.clone(),
            forms: Rc::new(Forms::new(remote, made.clauses, encoding)),
            question,
        }
    }
}
