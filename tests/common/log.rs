//! What must not stand in a server's log.

/// The lines of a server log that no test may leave behind.
///
/// A backend that was killed on purpose (signal 9) is accepted if `kills` says so.
pub fn suspicious(log: &str, kills: bool) -> Vec<&str> {
    log.lines()
        .filter(|line| is_suspicious(line, kills))
        .collect()
}

fn is_suspicious(line: &str, kills: bool) -> bool {
    const ALWAYS: [&str; 10] = [
        "PANIC:  ",
        "TRAP: ",
        "panicked at",
        "' panicked",
        "fatal runtime error",
        "stack overflow",
        "problem in alloc set",
        "problem in AllocSet",
        "you don't own a lock of type",
        // the wording of 17 and later
        "resource was not closed",
    ];
    if ALWAYS.iter().any(|sign| line.contains(sign)) {
        return true;
    }
    if let Some((_, signal)) = line.split_once("was terminated by signal ") {
        return !(kills && signal.starts_with("9:"));
    }
    line.contains("WARNING:  ") && line.contains("leak")
}
