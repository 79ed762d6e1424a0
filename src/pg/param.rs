//! Parameters of a plan node, evaluated to text.

use crate::model::error::{FdwError, Result};
use crate::pg::catalog::{c_string, nodes};
use crate::pg::memory::MemoryContext;
use crate::pg::typio::{output, Dependence, Transmission};
use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{Datum, Oid};
use std::ffi::CString;

/// Expressions whose values a plan node sends. Lives no longer than the node.
pub struct Params {
    node: *mut pg_sys::PlanState,
    /// Each with the type of its value.
    exprs: Vec<(*mut pg_sys::ExprState, Oid)>,
    /// What the text of the values depends on.
    dependence: Dependence,
}

impl Params {
    /// # Safety
    /// `exprs` is a list of expressions of `node`, whose expression context is set; the node lives longer than the
    /// value. The current memory context is that of the query.
    pub unsafe fn new(node: *mut pg_sys::PlanState, exprs: *mut pg_sys::List) -> Params {
        // SAFETY: by the contract.
        unsafe {
            let exprs: Vec<_> = nodes(exprs)
                .into_iter()
                .map(|expr| {
                    (
                        pg_sys::ExecInitExpr(expr.cast(), node),
                        pg_sys::exprType(expr),
                    )
                })
                .collect();
            let types = exprs.iter().map(|&(_, type_oid)| type_oid);
            Params {
                node,
                dependence: Dependence::of_all(types.map(Dependence::of_text)),
                exprs,
            }
        }
    }

    /// The values of the moment as text, None for NULL.
    pub fn evaluate(&self) -> Result<Vec<Option<CString>>> {
        if self.exprs.is_empty() {
            return Ok(Vec::new());
        }
        // SAFETY: the node is alive; values stay valid until its per-tuple context is reset, which is left to it.
        unsafe {
            let context = (*self.node).ps_ExprContext;
            let _entered = MemoryContext::of_core((*context).ecxt_per_tuple_memory).enter();
            // All under the user's settings, before any text is made.
            let values: Vec<Option<Datum>> = self
                .exprs
                .iter()
                .map(|&(expr, _)| {
                    let evaluate = (*expr).evalfunc.ok_or_else(|| {
                        FdwError::internal("a parameter expression is not initialized")
                    })?;
                    let mut is_null = false;
                    let is_null_ptr = &raw mut is_null;
                    let value: Datum =
                        pg_guard_ffi_boundary(|| evaluate(expr, context, is_null_ptr));
                    Ok((!is_null).then_some(value))
                })
                .collect::<Result<_>>()?;
            let _transmission = Transmission::begin_for(self.dependence);
            let types = self.exprs.iter().map(|&(_, type_oid)| type_oid);
            types
                .zip(values)
                .map(|(type_oid, value)| {
                    value
                        .map(|value| c_string(&output(type_oid, value)))
                        .transpose()
                })
                .collect()
        }
    }
}
