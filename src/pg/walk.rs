//! Expression trees, node by node.

use pgrx::pg_sys;
use pgrx::pg_sys::Node;
use std::ffi::c_void;

extern "C-unwind" {
    // Not by pgrx's bindings: those would turn an error into a panic in the middle of C's frames.
    #[cfg_attr(not(feature = "pg15"), link_name = "expression_tree_walker_impl")]
    fn expression_tree_walker(
        node: *mut Node,
        walker: unsafe extern "C-unwind" fn(*mut Node, *mut c_void) -> bool,
        context: *mut c_void,
    ) -> bool;
}

/// Does `test` hold for the node or any below it? Subplans are not entered, their arguments are. The test is asked no more once
/// it has held.
///
/// # Safety
/// `node` is null or a valid expression node, or a list of them. The test neither panics nor raises.
pub unsafe fn any<F: FnMut(*mut Node) -> bool>(node: *mut Node, mut test: F) -> bool {
    let context = std::ptr::from_mut(&mut test).cast::<c_void>();
    // SAFETY: by the contract; the frames of the walk hold nothing with a destructor, so that an error may pass over them up to
    // this guard.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| visit::<F>(node, context)) }
}

/// # Safety
/// As for [`any`]; `context` is the test. An error may leave this frame.
unsafe extern "C-unwind" fn visit<F: FnMut(*mut Node) -> bool>(
    node: *mut Node,
    context: *mut c_void,
) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: by the contract; nobody else uses the test meanwhile.
    unsafe { (*context.cast::<F>())(node) || expression_tree_walker(node, visit::<F>, context) }
}
