//! Which function decides over a statement under flush policy `call`: looked for once.

use crate::pg::calls;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use pgrx::PgMemoryContexts;
use std::cell::RefCell;

thread_local! {
    /// What was found in running statements, by the address of their EState.
    static FOUND: RefCell<Vec<(usize, Option<Oid>)>> = const { RefCell::new(Vec::new()) };
}

/// Takes a statement's finding away when its memory is freed.
struct Finding(usize);

impl Drop for Finding {
    fn drop(&mut self) {
        FOUND.with_borrow_mut(|found| found.retain(|(estate, _)| *estate != self.0));
    }
}

/// A function in a procedural language that the statement calls while it writes. COPY has no plan to look at.
///
/// # Safety
/// `node` is valid.
pub unsafe fn called_while_writing(node: *mut pg_sys::ModifyTableState) -> Option<Oid> {
    // SAFETY: by the contract; a statement's plan lives as long as its state.
    unsafe {
        let estate = (*node).ps.state;
        let statement = (*estate).es_plannedstmt;
        if statement.is_null() {
            return None;
        }
        let key = estate.addr();
        let known = FOUND.with_borrow(|found| found.iter().find(|(of, _)| *of == key).copied());
        if let Some((_, function)) = known {
            return function;
        }
        let function = calls::called_while_writing(statement);
        PgMemoryContexts::For((*estate).es_query_cxt).leak_and_drop_on_delete(Finding(key));
        FOUND.with_borrow_mut(|found| found.push((key, function)));
        function
    }
}
