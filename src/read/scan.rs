//! A running foreign scan: rows of its remote cursor, batch by batch.

use crate::model::change::NEEDS_KEY;
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::table::TABLEOID;
use crate::pg::backend;
use crate::pg::batch::TupleBatch;
use crate::pg::param::Params;
use crate::pg::store::Store;
use crate::pg::tuple::TextRows;
use crate::read::lock::{Locked, Locking, OneTable, RowLocker};
use crate::read::plan::ScanPlan;
use crate::remote::cache;
use crate::remote::cursor::Cursor;
use crate::remote::statement::{Param, Subject};
use pgrx::pg_sys::Oid;
use std::ffi::CString;
use std::rc::Rc;

/// A scan that reads ahead fetches up to so many times `fetch_size` rows at a time,
const LARGEST_FETCH: u32 = 10;
/// as long as the rows of a fetch take no more memory than this, in bytes.
const SMALL_FETCH: usize = 128 << 10;

/// Whose data a scan reads, and as of when.
#[derive(Debug, Clone)]
pub struct Access {
    pub server: Oid,
    /// Its user mapping is used.
    pub user: Oid,
    /// Name of the foreign table.
    pub table: Vec<u8>,
    /// `curcid` of the scan's snapshot.
    pub command_id: u32,
}

/// State of one scan node.
///
/// On success [`Scan::end`] closes the remote cursor; after an error dropping the value sends nothing, and memory and
/// files go with the memory context and resource owner of the query.
pub struct Scan {
    plan: ScanPlan,
    access: Access,
    params: Params,
    cursor: Option<Cursor>,
    /// The rows of the last fetch.
    batch: TupleBatch,
    /// Index in `batch` of the next row.
    next: usize,
    /// Fetches since the scan began or began anew.
    fetches: u64,
    /// Rows that have come since then.
    fetched: u32,
    /// Rows of the fetch that is next, or under way.
    fetch_size: u32,
    at_end: bool,
    /// The next fetch has to open the cursor anew.
    stale: bool,
    /// Rows of earlier batches, if a rescan is expected.
    store: Option<Store>,
    /// The last batch is in the store as well.
    stored: bool,
    /// Rows come from the store.
    replaying: bool,
    /// Where the rows come from, if they are locked one by one.
    remote: OneTable,
    /// Of the sample that all passes see.
    seed: Option<CString>,
}

impl Scan {
    /// `batch`: where rows are shown. `store`: where they are kept if the scan may be repeated and must then show the same ones.
    pub fn new(
        plan: ScanPlan,
        access: Access,
        params: Params,
        batch: TupleBatch,
        store: Option<Store>,
    ) -> Scan {
        Scan {
            access,
            params,
            cursor: None,
            batch,
            next: 0,
            fetches: 0,
            fetched: 0,
            fetch_size: plan.fetch_size,
            seed: plan.seeded.then(backend::random_seed),
            plan,
            at_end: false,
            stale: false,
            store,
            stored: false,
            replaying: false,
            remote: OneTable::default(),
        }
    }

    /// Makes the scan known to its session, so that later writes do not overtake it.
    pub fn register(&mut self) -> Result<()> {
        self.cursor().map(|_| ())
    }

    fn cursor(&mut self) -> Result<&Cursor> {
        let cursor = match self.cursor.take() {
            Some(cursor) => cursor,
            None => {
                let session = cache::session(self.access.server, self.access.user)?;
                let params = match self.plan.deferred {
                    true => None,
                    false => Some(self.values()?),
                };
                Cursor::register(
                    session,
                    Subject {
                        query: Some(Rc::new(self.plan.sql.clone())),
                        ..Subject::table(&self.access.table)
                    },
                    self.plan.sent.clone(),
                    params,
                    self.access.command_id,
                )
            }
        };
        Ok(self.cursor.insert(cursor))
    }

    fn values(&self) -> Result<Vec<Param>> {
        let values = self.params.evaluate()?;
        let seed = self.seed.iter().cloned().map(Some);
        Ok(values.into_iter().chain(seed).map(Param::text).collect())
    }

    /// Shows the next row in the slot of the batch; none at the end.
    pub fn next(&mut self) -> Result<()> {
        if self.replaying {
            if let Some(store) = &mut self.store {
                if store.show_next(&mut self.batch) {
                    return Ok(());
                }
            }
            self.replaying = false;
        }
        if self.next >= self.batch.len() && !self.at_end {
            self.fetch()?;
        }
        self.batch.show(self.next);
        self.next = self.batch.len().min(self.next + 1);
        Ok(())
    }

    /// How many rows to fetch: rows that are locked thereby must be wanted.
    fn rows_to_fetch(&self) -> u32 {
        match &self.plan.locking {
            Some(Locking::Scan { most: Some(most) }) => {
                let rest = most.get().saturating_sub(self.fetched).max(1);
                self.fetch_size.min(rest)
            }
            _ => self.fetch_size,
        }
    }

    fn fetch(&mut self) -> Result<()> {
        self.keep_batch();
        let fetch_size = self.rows_to_fetch();
        let values = match self.stale || self.plan.deferred && self.fetches == 0 {
            true => Some(self.values()?),
            false => None,
        };
        let stale = std::mem::take(&mut self.stale);
        // The session is the same one until the end of the transaction.
        let relies = (self.fetches == 0 || stale) && !self.plan.locale.is_empty();
        let locale = relies.then(|| self.plan.locale.clone());
        let cursor = self.cursor()?;
        match values {
            Some(values) if stale => cursor.restart(values)?,
            Some(values) => cursor.set_params(values),
            None => {}
        }
        if let Some(locale) = locale {
            cursor.session().rely_on(&locale)?;
        }
        let rows = cursor.fetch(fetch_size);
        let rows = rows.map_err(|error| explain_place(error, &self.plan))?;
        if let (Some(Locking::Row { .. }), Some(cursor)) = (&self.plan.locking, &self.cursor) {
            let (columns, table) = (&self.plan.columns, &self.access.table);
            self.remote.see(&rows, columns, cursor.session(), table)?;
        }
        let at_end = rows.ntuples() < fetch_size as usize;
        if self.plan.ahead && !at_end {
            self.fetch_size = self.next_fetch_size();
            let fetch_size = self.fetch_size;
            self.cursor()?.fetch_ahead(fetch_size)?;
        }
        self.at_end = at_end;
        self.fetches += 1;
        self.fetched = self.fetched.saturating_add(rows.ntuples() as u32);
        self.clear_batch();
        self.batch.fill(&rows, 0..rows.row_count())
    }

    /// Twice as many rows as before, if the last ones that were decoded were small.
    fn next_fetch_size(&self) -> u32 {
        let bytes = self.batch.bytes();
        if bytes == 0 || bytes > SMALL_FETCH {
            return self.fetch_size;
        }
        let largest = self.plan.fetch_size.saturating_mul(LARGEST_FETCH);
        self.fetch_size.saturating_mul(2).min(largest)
    }

    fn clear_batch(&mut self) {
        self.batch.clear();
        self.next = 0;
        self.stored = false;
    }

    /// Puts the rows of the last fetch into the store, if there is one.
    fn keep_batch(&mut self) {
        if let Some(store) = &mut self.store {
            if !self.stored {
                store.put(&self.batch);
                self.stored = true;
            }
        }
    }

    /// Locks a row that the scan has shown, by its place on the shard, unless the scan has locked it.
    pub fn lock(&self, ctid: CString) -> Result<Locked> {
        match (&self.plan.locking, &self.cursor) {
            (Some(Locking::Row { sql, columns }), Some(cursor)) => RowLocker {
                session: cursor.session(),
                table: &self.access.table,
                sql,
                columns,
                remote: &self.remote,
            }
            .lock(ctid),
            _ => Ok(Locked::ByScan),
        }
    }

    /// Begins again. `params_changed`: values of the running plan are other ones now.
    pub fn rescan(&mut self, params_changed: bool) {
        if self.fetches == 0 {
            return;
        }
        if params_changed && self.plan.deferred {
            self.begin_anew();
        } else if self.fetches == 1 {
            self.next = 0;
        } else if self.store.is_some() {
            self.keep_batch();
            self.next = self.batch.len();
            if let Some(store) = &mut self.store {
                store.rewind();
                self.replaying = true;
            }
        } else {
            self.begin_anew();
        }
    }

    fn begin_anew(&mut self) {
        self.clear_batch();
        if let Some(store) = &mut self.store {
            store.clear();
        }
        self.replaying = false;
        self.fetches = 0;
        self.fetched = 0;
        self.at_end = false;
        self.stale = true;
    }

    /// Frees everything. The remote cursor is closed with the next message.
    pub fn end(mut self) {
        self.batch.clear();
        if let Some(cursor) = self.cursor {
            cursor.close();
        }
        if let Some(store) = self.store {
            store.end();
        }
    }
}

/// A view has neither ctid nor tableoid, which a target of UPDATE or DELETE is asked for. The shard's own hint would be some
/// column with a name like that.
fn explain_place(error: FdwError, plan: &ScanPlan) -> FdwError {
    let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let names_place = |message: &[u8]| {
        message
            .split(|&byte| !is_part_of_name(byte))
            .any(|word| word == b"ctid" || word == b"tableoid")
    };
    match plan.columns.contains(&TABLEOID)
        && error.sqlstate() == SqlState::UNDEFINED_COLUMN
        && names_place(&error.diag().message)
    {
        true => error.with_hint(NEEDS_KEY),
        false => error,
    }
}
