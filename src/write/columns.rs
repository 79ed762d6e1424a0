//! The columns that an INSERT sends, and the form in which each of them travels.

use crate::model::insert::{CheckedType, Form, Target as Column};
use crate::pg::target::Target;
use crate::pg::typio::Dependence;
use crate::pg::value::{binary_type_name, Encoder};
use crate::remote::relation::{RemoteRelation, RemoteType};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

/// OID of type `"char"`.
const CHAR: u32 = 18;

/// Types whose values become nothing else by a cast that an assignment makes than by way of their text, whatever
/// type the column has got: in each of PostgreSQL's own casts they keep their value, or there is an error. (So it is not with numeric, which an
/// assignment to an integer rounds, with timestamptz, which one to timestamp shifts, or with bool, of which text becomes
/// "true" rather than "t".)
pub(super) const PLAIN_TYPES: [Oid; 7] = [
    pg_sys::INT2OID,
    pg_sys::INT4OID,
    pg_sys::INT8OID,
    pg_sys::TEXTOID,
    pg_sys::VARCHAROID,
    pg_sys::DATEOID,
    pg_sys::UUIDOID,
];

/// Numbers of the columns to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub attnums: Vec<i16>,
    /// Those of them that the statement names.
    pub named: Vec<i16>,
    /// A column that the shard usually fills is among them: its values are to be taken as they are.
    pub overriding: bool,
}

impl Sent {
    /// All columns but generated ones, and but those with `remote_default` that the statement does not name.
    pub fn new(target: &Target, is_named: impl Fn(i16) -> bool) -> Sent {
        let mut sent = Sent {
            attnums: Vec::with_capacity(target.relation.columns.len()),
            named: Vec::new(),
            overriding: false,
        };
        for column in &target.relation.columns {
            if column.generated != 0 {
                continue;
            }
            let is_named = is_named(column.attnum);
            if target.remote_default.contains(&column.attnum) {
                if !is_named {
                    continue;
                }
                sent.overriding = true;
            }
            sent.attnums.push(column.attnum);
            if is_named {
                sent.named.push(column.attnum);
            }
        }
        sent
    }
}

/// The columns of a multi-row statement, with what makes their values.
pub struct Encoding {
    pub columns: Vec<Column>,
    pub encoders: Vec<Encoder>,
    /// Type OIDs of the remote columns that the forms were chosen for, 0 where there is none.
    pub remote_types: Vec<u32>,
}

impl Encoding {
    /// Binary where the shard has the same built-in type, else text. If one column needs parameters of its own for
    /// each row, all do. `shard_version` as in server_version_num.
    pub fn new(
        target: &Target,
        sent: &Sent,
        remote: &RemoteRelation,
        shard_version: i32,
    ) -> Encoding {
        let mut encoding = Encoding {
            columns: Vec::with_capacity(sent.attnums.len()),
            encoders: Vec::with_capacity(sent.attnums.len()),
            remote_types: Vec::with_capacity(sent.attnums.len()),
        };
        let local = |attnum: &i16| target.relation.column(*attnum);
        for column in sent.attnums.iter().filter_map(local) {
            let Some(name) = target
                .remote
                .column(column.attnum)
                .map(|remote| &remote.name)
            else {
                continue;
            };
            let remote_type = remote.columns.get(name);
            let binary = Encoder::binary(column, shard_version).filter(|_| {
                remote_type.is_some_and(|remote| remote.oid == column.type_oid.to_u32())
            });
            encoding
                .remote_types
                .push(remote_type.map_or(0, |remote| remote.oid));
            let form = match (&binary, binary_type_name(column.type_oid), remote_type) {
                (Some(_), Some(type_name), _) => Form::Binary {
                    element_oid: column.type_oid.to_u32(),
                    type_name,
                },
                (_, _, Some(remote)) if remote.has_own_text_cast => Form::Inferred,
                (_, _, Some(remote)) => Form::Cast {
                    schema: remote.schema.clone(),
                    name: remote.name.clone(),
                },
                // The shard will say what it is, or that there is none.
                (_, _, None) => Form::Inferred,
            };
            let is_checked = match form {
                Form::Binary { .. } => !PLAIN_TYPES.contains(&column.type_oid),
                Form::Cast { .. } => true,
                Form::Inferred => false,
            };
            encoding
                .encoders
                .push(binary.unwrap_or_else(|| Encoder::text(column)));
            encoding.columns.push(Column {
                name: name.clone(),
                form,
                checked_type: remote_type.filter(|_| is_checked).map(RemoteType::checked),
            });
        }
        if encoding.needs_parameters_per_row() {
            encoding.encoders = encoding.encoders.iter().map(Encoder::as_text).collect();
        }
        encoding
    }

    /// The same columns with all values as text, as COPY in text format has them. None: a value could become another one
    /// ("char" above 127 has one text form before PostgreSQL 16 and another one since).
    pub fn to_text(&self) -> Option<Encoding> {
        let is_char = |column: &Column| matches!(&column.form, Form::Binary { element_oid, .. } if *element_oid == CHAR);
        if self.columns.iter().any(is_char) {
            return None;
        }
        Some(Encoding {
            remote_types: self.remote_types.clone(),
            columns: self
                .columns
                .iter()
                .zip(&self.remote_types)
                .map(|(column, remote_type)| Column {
                    checked_type: column
                        .checked_type
                        .or(Some(CheckedType::Itself(*remote_type))),
                    name: column.name.clone(),
                    form: match &column.form {
                        Form::Binary { type_name, .. } => Form::Cast {
                            schema: b"pg_catalog".to_vec(),
                            name: type_name.as_bytes().to_vec(),
                        },
                        other => other.clone(),
                    },
                })
                .collect(),
            encoders: self.encoders.iter().map(Encoder::as_text).collect(),
        })
    }

    /// The columns whose values [`from_row`] takes in text form though they travel in binary form otherwise, with what makes
    /// that. None: that could be another value.
    ///
    /// [`from_row`]: crate::model::insert::from_row
    pub fn texts_of_row(&self) -> Option<Vec<(usize, Encoder)>> {
        let columns = self.columns.iter().zip(&self.encoders).enumerate();
        columns
            .filter_map(
                |(position, (column, encoder))| match (&column.form, column.checked_type) {
                    (Form::Binary { element_oid, .. }, Some(_)) => {
                        Some((*element_oid != CHAR).then(|| (position, encoder.as_text())))
                    }
                    _ => None,
                },
            )
            .collect()
    }

    /// Have the rows a form for COPY?
    pub fn can_be_copied(&self) -> bool {
        let is_binary = |column: &Column| matches!(column.form, Form::Binary { .. });
        self.columns.iter().all(is_binary) || self.to_text().is_some()
    }

    /// What must be pinned while rows are encoded.
    pub fn dependence(&self) -> Dependence {
        Dependence::of_all(self.encoders.iter().map(Encoder::dependence))
    }

    /// Do all values travel as text?
    pub fn is_text(&self) -> bool {
        self.needs_parameters_per_row()
            || self
                .columns
                .iter()
                .all(|column| matches!(column.form, Form::Cast { .. }))
    }

    /// Is there a column whose values cannot travel in an array?
    pub fn needs_parameters_per_row(&self) -> bool {
        self.columns
            .iter()
            .any(|column| column.form == Form::Inferred)
    }
}
