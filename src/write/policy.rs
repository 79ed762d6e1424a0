//! Whether the rows of a target may wait in a buffer, and for how long.

use crate::model::option::{FlushPolicy, WriteOptions};
use crate::model::table::{CTID, XMIN};
use crate::model::text;
use crate::pg::catalog::{self, Relation};
use crate::pg::guc;
use pgrx::pg_sys::Oid;
use std::borrow::Cow;

/// Why rows go to the shard one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleReason {
    /// RETURNING needs what the shard stored, row by row.
    Returning,
    /// Row triggers of the foreign table see each row before the next one.
    RowTriggers,
    /// A view's CHECK OPTION looks at what the shard stored.
    CheckOption,
    /// The option `batch_size` is 1.
    BatchSize,
    /// Flush policy `row`.
    RowPolicy,
    /// Flush policy `call`, and the statement calls this function in a procedural language while it writes.
    Calls(Oid),
    /// Values of a type that cannot travel in arrays.
    Type,
    /// Rows are found by their key, which the statement changes.
    KeyChanged,
    /// Rows are found by their key, and a join may bring one more than once.
    KeyRepeated,
    /// COPY counts rows as they are handed over, and the shard may store fewer.
    UncountedCopy,
    /// The option `on_conflict` is `update`, and nobody can tell here which rows have the same key there, because of this.
    Upsert(&'static str),
}

impl SingleReason {
    /// The words EXPLAIN uses.
    pub fn describe(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            SingleReason::Returning => "RETURNING",
            SingleReason::RowTriggers => "row triggers",
            SingleReason::CheckOption => "WITH CHECK OPTION",
            SingleReason::BatchSize => "batch_size is 1",
            SingleReason::RowPolicy => "flush_policy is row",
            SingleReason::Calls(function) => {
                let name = text::from_bytes(&catalog::function_name(function));
                return Cow::Owned(format!("flush_policy is call, function {name}"));
            }
            SingleReason::Type => "a column's type cannot travel in arrays",
            SingleReason::KeyChanged => "the key is changed",
            SingleReason::KeyRepeated => "a join may repeat a key",
            SingleReason::UncountedCopy => "the shard may store fewer rows than COPY counts",
            SingleReason::Upsert(why) => {
                return Cow::Owned(format!("on_conflict is update, {why}"))
            }
        })
    }
}

/// The flush policy that counts: the session's, else the option's.
pub fn flush_policy(options: &WriteOptions) -> FlushPolicy {
    guc::flush_policy().unwrap_or(options.flush_policy)
}

/// The flush policy's reason for single rows, if it has one. `called`: looks for a function in a procedural language that
/// the statement calls while it writes.
pub fn policy_reason(
    options: &WriteOptions,
    called: impl FnOnce() -> Option<Oid>,
) -> Option<SingleReason> {
    match flush_policy(options) {
        FlushPolicy::Row => Some(SingleReason::RowPolicy),
        FlushPolicy::Call => called().map(SingleReason::Calls),
        FlushPolicy::Statement | FlushPolicy::Transaction => None,
    }
}

/// What of a target decides over batching. Only at its first row is all of it known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Circumstances {
    pub returning: bool,
    pub before_row_triggers: bool,
    pub after_row_triggers: bool,
    pub check_option: bool,
    /// RETURNING asks for the row's place and its version.
    pub returns_ctid: bool,
    pub returns_xmin: bool,
    /// That of [`policy_reason`].
    pub policy: Option<SingleReason>,
}

impl Circumstances {
    /// The reason for single rows, if there is one.
    pub fn single_reason(self, batch_size: usize) -> Option<SingleReason> {
        if self.returning {
            Some(SingleReason::Returning)
        } else if self.before_row_triggers || self.after_row_triggers {
            Some(SingleReason::RowTriggers)
        } else if self.check_option {
            Some(SingleReason::CheckOption)
        } else if batch_size == 1 {
            Some(SingleReason::BatchSize)
        } else {
            self.policy
        }
    }

    /// Does anybody look at the row that the shard stored?
    pub fn needs_stored_row(self) -> bool {
        self.returning || self.after_row_triggers || self.check_option
    }

    /// Numbers of the columns of a stored row that somebody looks at.
    pub fn stored_columns(self, table: &Relation) -> Vec<i16> {
        let system = [(self.returns_ctid, CTID), (self.returns_xmin, XMIN)];
        let system = system.into_iter().filter(|(is_returned, _)| *is_returned);
        let all = table.columns.iter().map(|column| column.attnum);
        all.chain(system.map(|(_, attnum)| attnum)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_way_means_batches() {
        assert_eq!(Circumstances::default().single_reason(2), None);
        assert_eq!(
            Circumstances::default().single_reason(1),
            Some(SingleReason::BatchSize)
        );
    }

    #[test]
    fn other_reasons_go_before_the_policy() {
        let circumstances = Circumstances {
            policy: Some(SingleReason::RowPolicy),
            ..Circumstances::default()
        };
        assert_eq!(circumstances.single_reason(2), circumstances.policy);
        let returning = Circumstances {
            returning: true,
            ..circumstances
        };
        assert_eq!(returning.single_reason(2), Some(SingleReason::Returning));
        assert!(!circumstances.needs_stored_row());
    }

    #[test]
    fn before_triggers_do_not_need_the_stored_row() {
        let circumstances = Circumstances {
            before_row_triggers: true,
            ..Circumstances::default()
        };
        assert_eq!(
            circumstances.single_reason(1000),
            Some(SingleReason::RowTriggers)
        );
        assert!(!circumstances.needs_stored_row());
    }
}
