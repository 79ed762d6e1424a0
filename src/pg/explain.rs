//! Output of EXPLAIN, well-formed in each of its formats.

use crate::model::error::Result;
use crate::pg::catalog::c_string;
use pgrx::pg_sys;
use std::ffi::CStr;
use std::ptr;
use std::time::Duration;

/// The output of a running EXPLAIN, at the place where a callback may add to it.
pub struct Explain(*mut pg_sys::ExplainState);

impl Explain {
    /// # Safety
    /// `state` is valid for as long as the value is used.
    pub unsafe fn new(state: *mut pg_sys::ExplainState) -> Explain {
        Explain(state)
    }

    fn state(&self) -> &pg_sys::ExplainState {
        // SAFETY: by the contract of `new`; the borrow ends before core writes to the state.
        unsafe { &*self.0 }
    }

    /// The option VERBOSE.
    pub fn is_verbose(&self) -> bool {
        self.state().verbose
    }

    /// Has the statement been run?
    pub fn is_analyze(&self) -> bool {
        self.state().analyze
    }

    /// The option TIMING, which ANALYZE turns on unless told otherwise.
    pub fn is_timing(&self) -> bool {
        self.state().timing
    }

    fn is_text(&self) -> bool {
        self.state().format == pg_sys::ExplainFormat::EXPLAIN_FORMAT_TEXT
    }

    /// A property whose value is text.
    pub fn text(&self, label: &CStr, value: &[u8]) -> Result<()> {
        let value = c_string(value)?;
        // SAFETY: both are NUL-terminated, and copied.
        unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), value.as_ptr(), self.0) };
        Ok(())
    }

    /// A property whose value is a counter.
    pub fn count(&self, label: &CStr, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        // SAFETY: the label is NUL-terminated; without unit none is shown.
        unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), ptr::null(), value, self.0) };
    }

    /// A property whose value is a time, shown in milliseconds.
    pub fn time(&self, label: &CStr, value: Duration) {
        let milliseconds = value.as_secs_f64() * 1000.0;
        let unit = c"ms".as_ptr();
        // SAFETY: label and unit are NUL-terminated.
        unsafe { pg_sys::ExplainPropertyFloat(label.as_ptr(), unit, milliseconds, 3, self.0) };
    }

    /// Those of the counters that are not 0, on one line of text, or as properties of a group. Nothing if all are 0.
    pub fn counts(&self, label: &CStr, counts: &[(&str, u64)]) -> Result<()> {
        let counts = counts.iter().filter(|(_, count)| *count != 0);
        let mut counts = counts.peekable();
        if counts.peek().is_none() {
            return Ok(());
        }
        if self.is_text() {
            let words: Vec<String> = counts
                .map(|(name, count)| format!("{name}={count}"))
                .collect();
            return self.text(label, words.join(" ").as_bytes());
        }
        self.group(label, Some(label), true, || {
            for (name, count) in counts {
                let mut name = name.as_bytes().to_vec();
                if let Some(first) = name.first_mut() {
                    first.make_ascii_uppercase();
                }
                self.count(&c_string(&name)?, *count);
            }
            Ok(())
        })
    }

    /// Text has no groups: core leaves them out.
    fn group(
        &self,
        kind: &CStr,
        label: Option<&CStr>,
        labeled: bool,
        body: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let label = label.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: kind and label are NUL-terminated; in a list members have no label.
        unsafe { pg_sys::ExplainOpenGroup(kind.as_ptr(), label, labeled, self.0) };
        body()?;
        // SAFETY: as above; this is the group that was opened last.
        unsafe { pg_sys::ExplainCloseGroup(kind.as_ptr(), label, labeled, self.0) };
        Ok(())
    }
}

/// Lists of objects, for the hooks that PostgreSQL has from 18 on.
#[cfg(feature = "pg18")]
impl Explain {
    /// A list of objects; `body` writes them by [`Explain::relation`] or [`Explain::object`].
    pub fn list(&self, label: &CStr, body: impl FnOnce() -> Result<()>) -> Result<()> {
        self.group(label, Some(label), false, body)
    }

    /// A relation in a list, with its properties. Its schema is named with VERBOSE.
    pub fn relation(
        &self,
        label: &CStr,
        schema: &[u8],
        name: &[u8],
        body: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let name = c_string(name)?;
        let schema = self.is_verbose().then(|| c_string(schema)).transpose()?;
        let schema_pointer = schema
            .as_ref()
            .map_or(ptr::null(), |schema| schema.as_ptr());
        // SAFETY: both are NUL-terminated, the schema may be null; the result is palloc'd.
        let title = unsafe {
            CStr::from_ptr(pg_sys::quote_qualified_identifier(
                schema_pointer,
                name.as_ptr(),
            ))
        };
        self.member(label, title, || {
            if !self.is_text() {
                self.text(c"Relation Name", name.as_bytes())?;
                if let Some(schema) = &schema {
                    self.text(c"Schema", schema.as_bytes())?;
                }
            }
            body()
        })
    }

    /// An object in a list, with its properties. `key` is the property that holds its name.
    pub fn object(
        &self,
        label: &CStr,
        key: &CStr,
        name: &[u8],
        body: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let name = c_string(name)?;
        self.member(label, &name, || {
            if !self.is_text() {
                self.text(key, name.as_bytes())?;
            }
            body()
        })
    }

    fn indent(&self, levels: i32) {
        // SAFETY: by the contract of `new`.
        unsafe { (*self.0).indent += levels };
    }

    /// In text a line `label: title` with the properties below it, else a group.
    fn member(&self, label: &CStr, title: &CStr, body: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.is_text() {
            return self.group(label, None, true, body);
        }
        self.text(label, title.to_bytes())?;
        self.indent(1);
        body()?;
        self.indent(-1);
        Ok(())
    }
}
