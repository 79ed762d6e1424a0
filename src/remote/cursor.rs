//! The remote cursor of one foreign scan.
//!
//! A remote cursor does not see what is written after its declaration. So nothing is sent for a scan before its
//! first fetch, unless something is about to be written that the scan must not see.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::sql::Sql;
use crate::pg::{backend, xact};
use crate::pq::PgResult;
use crate::remote::queue::{Reply, Role};
use crate::remote::session::SessionRef;
use crate::remote::statement::{Param, Statement, Subject};
use crate::remote::stats::FlushCause;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What the session knows of a scan.
pub struct CursorState {
    number: u64,
    sql: Sql,
    subject: Subject,
    params: RefCell<Option<Vec<Param>>>,
    /// `curcid` of the scan's snapshot: it sees writes with a smaller command id.
    pub command_id: u32,
    /// The portal that the scan's statement runs in.
    pub portal: usize,
    /// Nesting level of the local (sub)transaction that the scan belongs to.
    level: Cell<i32>,
    /// Depth of the remote transaction in which the cursor was declared; None if there is no such cursor.
    declared_at: Cell<Option<i32>>,
    /// Has anything been fetched since it was declared?
    read: Cell<bool>,
    /// It went with a savepoint while the scan lives on: what was read of it cannot be continued.
    lost: Cell<bool>,
    /// The shard has refused to declare it, while somebody else was at work.
    refused: RefCell<Option<FdwError>>,
    /// Its (sub)transaction is over.
    gone: Cell<bool>,
    ahead: RefCell<Ahead>,
}

/// Rows that were asked for before the scan wants them.
#[derive(Default)]
enum Ahead {
    #[default]
    No,
    Asked,
    Here(PgResult),
    /// They cannot be used.
    Refused(FdwError),
    /// An earlier error, or its own, has kept the shard from answering.
    Failed,
}

impl CursorState {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn level(&self) -> i32 {
        self.level.get()
    }

    pub fn is_gone(&self) -> bool {
        self.gone.get()
    }

    pub fn is_undeclared(&self) -> bool {
        self.declared_at.get().is_none() && !self.gone.get()
    }

    pub fn can_be_declared(&self) -> bool {
        self.declared_at.get().is_none()
            && !self.lost.get()
            && !self.gone.get()
            && self.refused.borrow().is_none()
            && self.params.borrow().is_some()
    }

    /// The shard does not take the declaration: so the scan will fail, when it is read.
    pub fn refuse(&self, error: FdwError) {
        self.refused.replace(Some(error));
    }

    pub fn declaration(&self) -> Statement {
        let mut sql = Sql::from(format!("DECLARE c{} CURSOR FOR\n", self.number).as_str());
        sql.push_bytes(self.sql.as_bytes());
        Statement {
            sql: Rc::new(sql),
            params: self.params.borrow().clone().unwrap_or_default(),
            written_by: None,
            subject: self.subject.clone(),
        }
    }

    /// The cursor has been declared at this depth of the remote transaction.
    pub fn declared(&self, depth: i32) {
        self.declared_at.set(Some(depth));
    }

    /// The subtransaction at `level` has ended well: what it made belongs to the one above.
    pub fn leave_level(&self, level: i32) {
        self.level.set(self.level.get().min(level - 1));
        let declared_at = self.declared_at.get();
        self.declared_at
            .set(declared_at.map(|depth| depth.min(level - 1)));
    }

    /// The subtransaction at `level` is undone, and with it what the shard declared there.
    pub fn undo_level(&self, level: i32) {
        if self.declared_at.get().is_some_and(|depth| depth >= level) {
            self.undeclare();
        }
    }

    /// The shard has lost the cursor. It can be declared again if nothing was read of it.
    pub fn undeclare(&self) {
        if self.declared_at.take().is_some() {
            self.lost.set(self.read.get());
        }
        self.ahead.take();
    }

    /// The answer to a FETCH that was sent ahead; None if an error has come instead.
    pub(in crate::remote) fn ahead_answered(&self, rows: Option<Reply>) {
        self.ahead.replace(match rows {
            Some(Ok(rows)) => Ahead::Here(rows),
            Some(Err(error)) => Ahead::Refused(error),
            None => Ahead::Failed,
        });
    }

    fn is_waited_for(&self) -> bool {
        matches!(*self.ahead.borrow(), Ahead::Asked)
    }

    /// The shard has no such cursor any more.
    pub fn forget(&self) {
        self.gone.set(true);
    }
}

/// A scan's handle to its remote cursor. Dropping it without [`Cursor::close`] (after an error) sends nothing.
pub struct Cursor {
    session: SessionRef,
    state: Rc<CursorState>,
}

impl Cursor {
    /// Registers a scan with its session, without sending anything. `subject`: what errors name. `params` may be given later, before the first
    /// fetch; a scan without them cannot be declared ahead of a write.
    pub fn register(
        session: SessionRef,
        subject: Subject,
        sql: Sql,
        params: Option<Vec<Param>>,
        command_id: u32,
    ) -> Cursor {
        let state = Rc::new(CursorState {
            number: session.new_cursor_number(),
            subject,
            sql,
            params: RefCell::new(params),
            command_id,
            portal: backend::active_portal(),
            level: Cell::new(xact::nest_level()),
            declared_at: Cell::new(None),
            read: Cell::new(false),
            lost: Cell::new(false),
            refused: RefCell::default(),
            gone: Cell::new(false),
            ahead: RefCell::default(),
        });
        session.register_cursor(&state);
        Cursor { session, state }
    }

    /// The session that it belongs to.
    pub fn session(&self) -> &SessionRef {
        &self.session
    }

    /// Gives the parameters, before the first fetch or after [`Cursor::restart`].
    pub fn set_params(&self, params: Vec<Param>) {
        *self.state.params.borrow_mut() = Some(params);
    }

    /// The next rows, as text; fewer than asked for at the end. Declares the cursor at the first call. After
    /// [`Cursor::fetch_ahead`] these are the rows that it asked for.
    pub fn fetch(&self, rows: u32) -> Result<PgResult> {
        if self.state.gone.get() {
            return Err(FdwError::internal("the remote cursor of a scan is gone"));
        }
        self.session.enter()?;
        if self.state.lost.get() {
            return Err(FdwError::local(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot continue a foreign scan after the rollback of the savepoint in which it began",
            ));
        }
        if let Some(error) = &*self.state.refused.borrow() {
            return Err(error.clone());
        }
        if let Some(result) = self.take_ahead()? {
            return Ok(result);
        }
        if self.state.declared_at.get().is_none() {
            let sees = self.state.command_id;
            self.session
                .flush_where(FlushCause::Barrier, |rows| rows.oldest_command_id() < sees)?;
        }
        // Later rows of a buffer that is kept have brought the declaration before theirs.
        if self.state.declared_at.get().is_none() {
            self.session
                .queue(&self.state.declaration(), Role::Forget)?;
            self.state.declared(self.session.depth());
        }
        self.state.read.set(true);
        self.session.ask(&self.fetching(rows))
    }

    fn fetching(&self, rows: u32) -> Statement {
        let number = self.state.number;
        let mut fetch = Statement::plain(format!("FETCH {rows} FROM c{number}").as_str());
        fetch.subject = self.state.subject.clone();
        fetch
    }

    /// Asks for the next rows without waiting for them, after a fetch. The shard works on them while those of the fetch are
    /// used here.
    pub fn fetch_ahead(&self, rows: u32) -> Result<()> {
        self.session.renew_settings()?;
        self.state.ahead.replace(Ahead::Asked);
        self.session
            .queue(&self.fetching(rows), Role::Ahead(self.state.clone()))?;
        self.session.end_message()
    }

    /// The rows that were asked for ahead, if any were.
    fn take_ahead(&self) -> Result<Option<PgResult>> {
        if self.state.is_waited_for() {
            self.session.wait_until(|state| {
                let is_over = state.queue.is_empty() || state.link.is_none();
                is_over || !self.state.is_waited_for()
            })?;
        }
        match self.state.ahead.take() {
            Ahead::No => Ok(None),
            Ahead::Here(result) => {
                self.session.check()?;
                Ok(Some(result))
            }
            Ahead::Refused(error) => {
                self.session.check()?;
                Err(error)
            }
            Ahead::Asked | Ahead::Failed => {
                self.session.check()?;
                Err(FdwError::internal("rows asked for ahead did not come"))
            }
        }
    }

    /// Starts over at the next fetch, with these parameters.
    pub fn restart(&self, params: Vec<Param>) -> Result<()> {
        self.take_ahead()?;
        if self.state.declared_at.get().is_some() && !self.state.gone.get() {
            self.session.enter()?;
            let close = format!("CLOSE c{}", self.state.number);
            self.session
                .queue(&Statement::plain(close.as_str()), Role::Forget)?;
        }
        self.state.declared_at.set(None);
        self.state.read.set(false);
        self.state.lost.set(false);
        self.state.refused.take();
        self.set_params(params);
        Ok(())
    }

    /// The scan is over. CLOSE rides with the next message.
    pub fn close(self) {
        if let Some(level) = self
            .state
            .declared_at
            .get()
            .filter(|_| !self.state.gone.get())
        {
            let mut state = self.session.state.borrow_mut();
            state.closing.push((level, self.state.number));
        }
        self.state.forget();
    }
}
