//! The locale of the shard's database, on which a plan may rely.

use super::Session;
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::locale::DatabaseLocale;
use crate::pg::{backend, invalidation};
use std::rc::Rc;

impl Session {
    /// The locale of the shard's database, for a plan. Connects unless a connection has told; None: it cannot be known now.
    pub fn find_locale(&self) -> Option<Rc<DatabaseLocale>> {
        let known = self.locale.borrow().clone();
        if known.is_some() || self.is_connected() || self.in_transaction() || self.check().is_err()
        {
            return known;
        }
        // Not once for each table of a statement.
        let statement = backend::statement_start();
        if matches!(&*self.unreachable.borrow(), Some((when, _)) if *when == statement) {
            return None;
        }
        // Why there is no connection the statement will say that needs one.
        let error = self.connect().err();
        self.unreachable
            .replace(error.map(|error| (statement, error)));
        self.locale.borrow().clone()
    }

    /// Begins the remote transaction, and checks that the shard's database has the locale, or the encoding, that a plan relies on. If not,
    /// that is an error (55000), and plans are made anew.
    pub fn rely_on(&self, locale: &[u8]) -> Result<()> {
        self.enter()?;
        let state = self.state.borrow();
        let found = state.link.as_ref().map(|link| &link.locale);
        if found.is_some_and(|found| {
            found.encoding().as_bytes() == locale || found.to_string().as_bytes() == locale
        }) {
            return Ok(());
        }
        invalidation::forget_plans();
        Err(FdwError::local(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("locale of the database of server \"{}\" has changed since the statement was planned", self.name),
        )
        .with_hint("Run the statement again: it will be planned anew."))
    }
}
