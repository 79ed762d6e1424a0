//! Who may connect without a password of his own.
//!
//! The rules are those of postgres_fdw (PostgreSQL 15 to 18): without them a local user could use what the local
//! server's operating system user may do on the shard: its password file, service file, certificates, or `trust` and
//! `peer` entries for it.

use super::Inputs;
use crate::model::error::{FdwError, Result, SqlState};

/// The credentials of a user mapping.
pub struct Login<'a> {
    server: &'a str,
    superuser: bool,
    /// False only where a superuser has said so in the mapping.
    password_required: bool,
    has_password: bool,
}

impl<'a> Login<'a> {
    pub fn new(inputs: &Inputs<'a>) -> Login<'a> {
        Login {
            server: inputs.server,
            superuser: inputs.superuser,
            password_required: inputs.mapping.password_required,
            has_password: inputs.mapping.password().is_some(),
        }
    }

    fn is_trusted(&self) -> bool {
        self.superuser || !self.password_required
    }

    fn refused(&self, detail: &str, hint: &str) -> FdwError {
        FdwError::local(
            SqlState::PASSWORD_REQUIRED,
            format!(
                "password is required to connect to server \"{}\"",
                self.server
            ),
        )
        .with_detail(detail)
        .with_hint(hint)
    }
}

/// Before connecting: the mapping must have a password, or the client must have delegated its own credentials.
pub fn check_before(login: &Login, delegated: bool) -> Result<()> {
    if login.is_trusted() || login.has_password || delegated {
        return Ok(());
    }
    Err(login.refused(
        "Only superusers may connect without a password in the user mapping.",
        "Set the option password in the user mapping, or let a superuser set password_required to false there.",
    ))
}

/// After connecting: the shard must really have asked for the mapping's password, or have taken the client's delegated
/// credentials.
pub fn check_after(login: &Login, used_password: bool, used_delegated: bool) -> Result<()> {
    if login.is_trusted() || used_delegated || (used_password && login.has_password) {
        return Ok(());
    }
    Err(login.refused(
        "The shard let the local server in without asking for the password, which only superusers may use.",
        "Change the authentication method of the shard, or let a superuser set password_required to false in the user mapping.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(superuser: bool, password_required: bool, has_password: bool) -> Login<'static> {
        Login {
            server: "s",
            superuser,
            password_required,
            has_password,
        }
    }

    #[test]
    fn others_need_a_password_before() {
        assert!(check_before(&login(true, true, false), false).is_ok());
        assert!(check_before(&login(false, false, false), false).is_ok());
        assert!(check_before(&login(false, true, true), false).is_ok());
        assert!(check_before(&login(false, true, false), true).is_ok());
        let error = check_before(&login(false, true, false), false).unwrap_err();
        assert_eq!(error.sqlstate(), SqlState::PASSWORD_REQUIRED);
    }

    #[test]
    fn the_password_must_have_been_used() {
        assert!(check_after(&login(true, true, false), false, false).is_ok());
        assert!(check_after(&login(false, false, false), false, false).is_ok());
        assert!(check_after(&login(false, true, true), true, false).is_ok());
        assert!(check_after(&login(false, true, true), false, true).is_ok());
        assert!(check_after(&login(false, true, true), false, false).is_err());
        // Some password was used, but not the mapping's: one of the operating system user.
        assert!(check_after(&login(false, true, false), true, false).is_err());
    }
}
