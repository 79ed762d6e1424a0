//! Every error this library can report, by cause, and what of it reaches the user.

use crate::model::text;
use std::fmt;

/// A five-character error code as in PostgreSQL's Appendix A.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    pub const WARNING: SqlState = SqlState(*b"01000");
    pub const CONNECTION_UNABLE: SqlState = SqlState(*b"08001");
    pub const CONNECTION_FAILURE: SqlState = SqlState(*b"08006");
    pub const TRANSACTION_RESOLUTION_UNKNOWN: SqlState = SqlState(*b"08007");
    pub const PROTOCOL_VIOLATION: SqlState = SqlState(*b"08P01");
    pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState(*b"0A000");
    pub const NULL_VALUE_NOT_ALLOWED: SqlState = SqlState(*b"22004");
    pub const DATETIME_OUT_OF_RANGE: SqlState = SqlState(*b"22008");
    pub const INVALID_PARAMETER_VALUE: SqlState = SqlState(*b"22023");
    pub const INSUFFICIENT_PRIVILEGE: SqlState = SqlState(*b"42501");
    pub const DUPLICATE_OBJECT: SqlState = SqlState(*b"42710");
    pub const READ_ONLY_TRANSACTION: SqlState = SqlState(*b"25006");
    pub const SEQUENCE_LIMIT_EXCEEDED: SqlState = SqlState(*b"2200H");
    pub const DATATYPE_MISMATCH: SqlState = SqlState(*b"42804");
    pub const SYNTAX_ERROR: SqlState = SqlState(*b"42601");
    pub const UNDEFINED_COLUMN: SqlState = SqlState(*b"42703");
    pub const UNDEFINED_OBJECT: SqlState = SqlState(*b"42704");
    pub const WRONG_OBJECT_TYPE: SqlState = SqlState(*b"42809");
    pub const CARDINALITY_VIOLATION: SqlState = SqlState(*b"21000");
    pub const TRIGGERED_DATA_CHANGE_VIOLATION: SqlState = SqlState(*b"27000");
    pub const DEADLOCK_DETECTED: SqlState = SqlState(*b"40P01");
    pub const PROGRAM_LIMIT_EXCEEDED: SqlState = SqlState(*b"54000");
    pub const OBJECT_NOT_IN_PREREQUISITE_STATE: SqlState = SqlState(*b"55000");
    pub const PASSWORD_REQUIRED: SqlState = SqlState(*b"2F003");
    pub const INVALID_OPTION_NAME: SqlState = SqlState(*b"HV00D");
    pub const SCHEMA_NOT_FOUND: SqlState = SqlState(*b"HV00Q");
    pub const FDW_ERROR: SqlState = SqlState(*b"HV000");
    pub const INTERNAL_ERROR: SqlState = SqlState(*b"XX000");

    /// The code in `text`, if it has the form of one.
    pub fn parse(text: &[u8]) -> Option<SqlState> {
        let code: [u8; 5] = text.try_into().ok()?;
        code.iter()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            .then_some(SqlState(code))
    }

    /// The code packed as `MAKE_SQLSTATE` of `utils/elog.h` does: six bits a character, first character lowest.
    pub fn packed(self) -> i32 {
        self.0.iter().rev().fold(0, |packed, byte| {
            (packed << 6) | (i32::from(byte.wrapping_sub(b'0')) & 0x3F)
        })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Class of the code: its first two characters.
    pub fn class(&self) -> &[u8] {
        &self.0[..2]
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Fields of an error report, as bytes in the encoding of the local database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diag {
    /// None when the sender gave none: a broken connection, or a malformed message.
    pub sqlstate: Option<SqlState>,
    pub message: Vec<u8>,
    pub detail: Option<Vec<u8>>,
    pub hint: Option<Vec<u8>>,
    pub context: Option<Vec<u8>>,
    pub schema: Option<Vec<u8>>,
    pub table: Option<Vec<u8>>,
    pub column: Option<Vec<u8>>,
    pub datatype: Option<Vec<u8>>,
    pub constraint: Option<Vec<u8>>,
}

impl Diag {
    /// Message and SQLSTATE, for a sentence of another report.
    pub fn summary(&self) -> Vec<u8> {
        let mut text = self.message.clone();
        if let Some(sqlstate) = self.sqlstate {
            text.extend_from_slice(format!(" (SQLSTATE {sqlstate})").as_bytes());
        }
        text
    }
}

/// The one error type. Variants name causes; [`FdwError::diag`] says what the user sees. Names get into its strings by
/// [`text::from_bytes`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum FdwError {
    /// A wrong option name, value or place. Never holds the value of a secret.
    #[error("{message}")]
    Option {
        sqlstate: SqlState,
        message: String,
        detail: Option<String>,
        hint: Option<String>,
    },
    /// No connection could be made; `detail` is libpq's own text.
    #[error("could not connect to server \"{server}\"")]
    Connect {
        server: String,
        sqlstate: SqlState,
        detail: Vec<u8>,
        hint: Option<String>,
    },
    /// An established connection is gone, and nothing of the remote transaction stays.
    #[error("connection to server \"{server}\" was lost")]
    Lost {
        server: String,
        /// What the shard said when it ended the session.
        farewell: Option<Box<Diag>>,
        /// What has been found here, empty for nothing. Told where the shard said nothing.
        detail: Vec<u8>,
    },
    /// The shard reported an error.
    #[error("error from server \"{server}\"")]
    Remote { server: String, diag: Box<Diag> },
    /// COMMIT failed after some server has, or may have, committed (SQLSTATE 08007).
    #[error("{message}")]
    Commit { message: String, detail: Vec<u8> },
    /// The peer answered something it should not have.
    #[error("{message}")]
    Protocol {
        message: String,
        detail: Option<Vec<u8>>,
    },
    /// Everything else that is detected here.
    #[error("{message}")]
    Local {
        sqlstate: SqlState,
        message: String,
        detail: Option<String>,
        hint: Option<String>,
    },
    /// Another error with a CONTEXT line added.
    #[error("{source}")]
    Context {
        source: Box<FdwError>,
        line: Vec<u8>,
    },
}

/// What all fallible functions return.
pub type Result<T> = std::result::Result<T, FdwError>;

impl FdwError {
    /// A feature that does not exist (0A000).
    pub fn unsupported(message: impl Into<String>) -> FdwError {
        FdwError::local(SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    /// A broken assumption of our own (XX000).
    pub fn internal(message: impl Into<String>) -> FdwError {
        FdwError::local(SqlState::INTERNAL_ERROR, message)
    }

    /// An error detected here.
    pub fn local(sqlstate: SqlState, message: impl Into<String>) -> FdwError {
        FdwError::Local {
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    /// A connection that is gone, without a word of the shard.
    pub fn lost(server: impl Into<String>, detail: impl Into<Vec<u8>>) -> FdwError {
        FdwError::Lost {
            server: server.into(),
            farewell: None,
            detail: detail.into(),
        }
    }

    /// The same with a DETAIL sentence, where the variant has room for one of ours.
    pub fn with_detail(mut self, text: impl Into<String>) -> FdwError {
        if let FdwError::Local { detail, .. } | FdwError::Option { detail, .. } = &mut self {
            *detail = Some(text.into());
        }
        self
    }

    /// The same with a HINT sentence, in place of one that the shard gave, where the variant has room for it.
    pub fn with_hint(mut self, sentence: impl Into<String>) -> FdwError {
        match &mut self {
            FdwError::Local { hint, .. }
            | FdwError::Option { hint, .. }
            | FdwError::Connect { hint, .. } => *hint = Some(sentence.into()),
            FdwError::Remote { diag, .. } => diag.hint = Some(text::to_bytes(&sentence.into())),
            FdwError::Context { source, .. } => {
                **source = source.as_ref().clone().with_hint(sentence);
            }
            _ => {}
        }
        self
    }

    /// The same with a further CONTEXT line.
    pub fn with_context(self, line: impl Into<Vec<u8>>) -> FdwError {
        FdwError::Context {
            source: Box::new(self),
            line: line.into(),
        }
    }

    /// The same without CONTEXT lines that were added to it.
    pub fn without_context(&self) -> &FdwError {
        match self {
            FdwError::Context { source, .. } => source.without_context(),
            error => error,
        }
    }

    /// Does the error mean that the connection cannot be used any more?
    pub fn is_connection_loss(&self) -> bool {
        match self {
            FdwError::Lost { .. } | FdwError::Protocol { .. } => true,
            FdwError::Context { source, .. } => source.is_connection_loss(),
            _ => false,
        }
    }

    /// What a shard said when it ended the session.
    pub fn farewell(&self) -> Option<&Diag> {
        match self {
            FdwError::Lost { farewell, .. } => farewell.as_deref(),
            FdwError::Context { source, .. } => source.farewell(),
            _ => None,
        }
    }

    /// The SQLSTATE the user sees.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            FdwError::Option { sqlstate, .. }
            | FdwError::Connect { sqlstate, .. }
            | FdwError::Local { sqlstate, .. } => *sqlstate,
            FdwError::Lost { .. } => SqlState::CONNECTION_FAILURE,
            FdwError::Remote { diag, .. } => diag.sqlstate.unwrap_or(SqlState::CONNECTION_FAILURE),
            FdwError::Commit { .. } => SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
            FdwError::Protocol { .. } => SqlState::PROTOCOL_VIOLATION,
            FdwError::Context { source, .. } => source.sqlstate(),
        }
    }

    /// All fields the user sees.
    pub fn diag(&self) -> Diag {
        let mut diag = match self {
            FdwError::Remote { diag, .. } => (**diag).clone(),
            FdwError::Context { source, line } => {
                let mut diag = source.diag();
                match &mut diag.context {
                    Some(context) => {
                        context.push(b'\n');
                        context.extend_from_slice(line);
                    }
                    None => diag.context = Some(line.clone()),
                }
                diag
            }
            other => {
                let (detail, hint) = other.own_detail_and_hint();
                Diag {
                    message: text::to_bytes(&other.to_string()),
                    detail,
                    hint,
                    ..Diag::default()
                }
            }
        };
        diag.sqlstate = Some(self.sqlstate());
        diag
    }

    fn own_detail_and_hint(&self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let bytes = |text: &Option<String>| text.as_deref().map(text::to_bytes);
        match self {
            FdwError::Option { detail, hint, .. } | FdwError::Local { detail, hint, .. } => {
                (bytes(detail), bytes(hint))
            }
            FdwError::Connect { detail, hint, .. } => (Some(detail.clone()), bytes(hint)),
            FdwError::Lost {
                farewell: Some(farewell),
                ..
            } => {
                let mut detail = b"The server ended the session: ".to_vec();
                detail.extend_from_slice(&farewell.summary());
                detail.push(b'.');
                (Some(detail), None)
            }
            FdwError::Lost { detail, .. } | FdwError::Commit { detail, .. } => (
                Some(detail.clone()).filter(|detail| !detail.is_empty()),
                None,
            ),
            FdwError::Protocol { detail, .. } => (detail.clone(), None),
            FdwError::Remote { .. } | FdwError::Context { .. } => (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlstates_pack_as_in_elog_h() {
        // ERRCODE_UNIQUE_VIOLATION and ERRCODE_INTERNAL_ERROR as the server's header computes them.
        assert_eq!(SqlState::parse(b"23505").unwrap().packed(), 83_906_754);
        assert_eq!(SqlState::INTERNAL_ERROR.packed(), 2600);
        assert_eq!(SqlState::parse(b"2350"), None);
        assert_eq!(SqlState::parse(b"2350x"), None);
    }

    #[test]
    fn context_lines_follow_the_remote_context() {
        let remote = FdwError::Remote {
            server: "s".into(),
            diag: Box::new(Diag {
                sqlstate: SqlState::parse(b"23505"),
                message: b"duplicate".to_vec(),
                constraint: Some(b"t_pkey".to_vec()),
                context: Some(b"remote line".to_vec()),
                ..Diag::default()
            }),
        };
        let diag = remote.with_context("our line").diag();
        assert_eq!(diag.context.as_deref(), Some(&b"remote line\nour line"[..]));
        assert_eq!(diag.constraint.as_deref(), Some(&b"t_pkey"[..]));
        assert_eq!(diag.sqlstate, SqlState::parse(b"23505"));
    }

    #[test]
    fn a_lost_connection_tells_what_the_shard_said() {
        let lost = FdwError::Lost {
            server: "s".into(),
            farewell: Some(Box::new(Diag {
                sqlstate: SqlState::parse(b"57P01"),
                message: b"terminating connection due to administrator command".to_vec(),
                ..Diag::default()
            })),
            detail: b"server closed the connection unexpectedly".to_vec(),
        };
        let diag = lost.with_context("line").diag();
        assert_eq!(diag.sqlstate, Some(SqlState::CONNECTION_FAILURE));
        assert_eq!(diag.message, b"connection to server \"s\" was lost");
        let said: &[u8] = b"The server ended the session: \
            terminating connection due to administrator command (SQLSTATE 57P01).";
        assert_eq!(diag.detail.as_deref(), Some(said));
    }

    #[test]
    fn a_remote_error_without_code_is_a_connection_failure() {
        let error = FdwError::Remote {
            server: "s".into(),
            diag: Box::default(),
        };
        assert_eq!(error.sqlstate(), SqlState::CONNECTION_FAILURE);
    }
}
