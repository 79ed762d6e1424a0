//! How the rows of a scan are locked for a SELECT with a locking clause.
//!
//! The scan's own statement locks whatever it reads. That is right where all that it reads is what LockRows reaches. Elsewhere,
//! below a join, a sort or a condition that stays here, it would lock too much; so there LockRows has each row locked that it
//! reaches, by the row's place on the shard.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::sql::Sql;
use crate::model::statement::{self, RowLock};
use crate::model::table::{RemoteTable, CTID, TABLEOID};
use crate::model::text;
use crate::pg::list::{Item, Items};
use crate::pg::target::Target;
use crate::pg::{catalog, invalidation};
use crate::pq::PgResult;
use crate::remote::cache;
use crate::remote::session::{Session, SessionRef};
use crate::remote::statement::{Param, Statement, Subject};
use crate::remote::tree;
use pgrx::pg_sys::Oid;
use std::ffi::CString;
use std::num::NonZeroU32;
use std::rc::Rc;

/// Where the rows of a scan are locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locking {
    /// By the statement of the scan: LockRows reaches every row of it, or, under a LIMIT, as many as `most` surely, if there are so
    /// many. Then further ones are fetched one at a time.
    Scan { most: Option<NonZeroU32> },
    /// By the statement of the scan, since a row cannot be found again by its ctid alone.
    ScanForLackOfLocators,
    /// By a statement for each row that LockRows reaches.
    Row {
        sql: Sql,
        /// Numbers of the columns of the row that it gives.
        columns: Vec<i16>,
    },
}

impl Locking {
    /// Row by row. `columns`: what conditions and the plan above need of a row that was changed meanwhile.
    pub fn row(table: &RemoteTable, mut columns: Vec<i16>, lock: RowLock) -> Locking {
        if !columns.contains(&CTID) {
            columns.push(CTID);
        }
        Locking::Row {
            sql: statement::lock_row(table, &columns, lock),
            columns,
        }
    }

    /// For EXPLAIN.
    pub fn describe(&self) -> &'static str {
        match self {
            Locking::Scan { .. } => "by the scan",
            Locking::ScanForLackOfLocators => {
                "by the scan, because ctid does not identify a row of the remote table"
            }
            Locking::Row { .. } => "one by one, as they are reached",
        }
    }

    pub fn to_items(locking: Option<&Locking>) -> [Item; 4] {
        let most = match locking {
            Some(Locking::Scan { most }) => most.map_or(0, NonZeroU32::get),
            _ => 0,
        };
        let (number, sql, columns) = match locking {
            None => (0, &[][..], &[][..]),
            Some(Locking::Scan { .. }) => (1, &[][..], &[][..]),
            Some(Locking::ScanForLackOfLocators) => (2, &[][..], &[][..]),
            Some(Locking::Row { sql, columns }) => (3, sql.as_bytes(), &columns[..]),
        };
        [
            Item::Int(number),
            Item::Int(most as i32),
            Item::Text(sql.to_vec()),
            Item::Ints(columns.iter().copied().map(i32::from).collect()),
        ]
    }

    pub fn from_items(items: &mut Items) -> Result<Option<Locking>> {
        let number = items.int()?;
        let most = NonZeroU32::new(items.int()? as u32);
        let sql = items.text()?.into();
        let columns = items.columns()?;
        Ok(match number {
            1 => Some(Locking::Scan { most }),
            2 => Some(Locking::ScanForLackOfLocators),
            3 => Some(Locking::Row { sql, columns }),
            _ => None,
        })
    }
}

/// Does ctid identify a row of the remote table, as far as `user` can find out while planning? Asks the shard once for each session
/// and tree of tables. Where it cannot be asked, no: why, the statement will say that needs it.
pub fn has_locators(relid: Oid, user: Oid) -> Result<bool> {
    let target = Target::known(relid)?;
    let server = target.server.oid;
    if !catalog::has_user_mapping(user, server) {
        return Ok(false);
    }
    let Ok(session) = cache::session(server, user) else {
        return Ok(false);
    };
    if session.find_locale().is_none() {
        return Ok(false);
    }
    let root = catalog::topmost_parent(relid);
    Ok(tree::remote_relation(&session, &target, relid, root)?.has_locators)
}

/// The one table of the shard that the rows of a scan come from.
#[derive(Default)]
pub struct OneTable(Option<CString>);

impl OneTable {
    /// Looks at the rows of a fetch. Rows of two tables are an error (55000): the remote table has got partitions or children since
    /// the statement was planned, so ctid does not identify a row any more.
    pub fn see(
        &mut self,
        rows: &PgResult,
        columns: &[i16],
        session: &Session,
        table: &[u8],
    ) -> Result<()> {
        let Some(position) = columns.iter().position(|&column| column == TABLEOID) else {
            return Ok(());
        };
        for row in 0..rows.ntuples() {
            let oid = rows.text(row, position).unwrap_or_default();
            match &self.0 {
                None => self.0 = Some(oid.to_owned()),
                Some(known) if known.as_c_str() == oid => {}
                Some(_) => {
                    session.forget_relations();
                    invalidation::forget_plans();
                    return Err(FdwError::local(
                        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                        format!(
                            "remote table of foreign table \"{}\" has got partitions or children since the statement was planned",
                            text::from_bytes(table)
                        ),
                    )
                    .with_hint("Run the statement again: it will be planned anew."));
                }
            }
        }
        Ok(())
    }
}

/// What has become of a row that LockRows has reached.
pub enum Locked {
    /// The scan has locked it.
    ByScan,
    /// It is locked now; this is how it looks.
    Now(LockedRow),
    /// It is not: somebody has deleted it, or its lock is not waited for.
    Not,
}

/// A row that has been locked by its place.
pub struct LockedRow {
    /// One row.
    pub rows: PgResult,
    /// Has somebody changed it since the scan read it?
    pub is_updated: bool,
}

/// Locks single rows of a scan.
pub struct RowLocker<'a> {
    pub session: &'a SessionRef,
    /// Name of the foreign table.
    pub table: &'a [u8],
    pub sql: &'a Sql,
    pub columns: &'a [i16],
    pub remote: &'a OneTable,
}

impl RowLocker<'_> {
    /// Locks the row at `ctid`, or the one that it has become: where statements of the remote transaction see what others have
    /// committed meanwhile, the newer version is looked for, as core does for local rows.
    pub fn lock(&self, ctid: CString) -> Result<Locked> {
        let Some(table) = &self.remote.0 else {
            return Err(FdwError::internal(
                "a row is to be locked that was not read",
            ));
        };
        let mut place = ctid.clone();
        loop {
            let rows = self.session.execute_beside(&Statement {
                sql: Rc::new(self.sql.clone()),
                params: vec![
                    Param::text(Some(place.clone())),
                    Param::text(Some(table.clone())),
                ],
                written_by: None,
                subject: Subject::table(self.table),
            })?;
            if rows.ntuples() > 0 {
                let position = self.columns.iter().position(|&column| column == CTID);
                let found = position.and_then(|position| rows.text(0, position));
                let is_updated = found != Some(ctid.as_c_str());
                return Ok(Locked::Now(LockedRow { rows, is_updated }));
            }
            if self.session.has_one_snapshot() {
                return Ok(Locked::Not);
            }
            match self.newest_place(&place, table)? {
                Some(newest) if newest != place => place = newest,
                _ => return Ok(Locked::Not),
            }
        }
    }

    /// Where the newest version of a row is that others see now; its own place if there is none.
    fn newest_place(&self, place: &CString, table: &CString) -> Result<Option<CString>> {
        let question = "SELECT pg_catalog.currtid2($1::pg_catalog.oid::pg_catalog.regclass::pg_catalog.text, $2)";
        let answer = self.session.execute_beside(&Statement {
            sql: Rc::new(Sql::from(question)),
            params: vec![
                Param::text(Some(table.clone())),
                Param::text(Some(place.clone())),
            ],
            written_by: None,
            subject: Subject::table(self.table),
        })?;
        Ok((answer.ntuples() > 0)
            .then(|| answer.text(0, 0).map(ToOwned::to_owned))
            .flatten())
    }
}
