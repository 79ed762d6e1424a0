//! How deep a remote transaction is nested, beside the local one.
//!
//! The remote depth follows the local nesting level: level 1 is BEGIN, level n a savepoint `s<n>`. It is behind the
//! local level as long as the deeper levels have not used the session.

/// Nesting of a remote transaction. Depth 0: none is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    depth: i32,
    /// Lowest local level that has an interest in the remote transaction: one that ends above it leaves nothing
    /// behind that anybody could miss.
    begun_at: i32,
}

impl Depth {
    pub fn is_open(self) -> bool {
        self.depth > 0
    }

    pub fn get(self) -> i32 {
        self.depth
    }

    /// The local level at which losing the connection loses something.
    pub fn begun_at(self) -> i32 {
        self.begun_at
    }

    /// The local level `level` uses the remote transaction.
    pub fn used_at(&mut self, level: i32) {
        debug_assert!(self.is_open());
        self.begun_at = self.begun_at.min(level);
    }

    /// The remote transaction has begun, for a use at `level`.
    pub fn begin(&mut self, level: i32) {
        debug_assert!(self.depth == 0 && level >= 1);
        *self = Depth {
            depth: 1,
            begun_at: level,
        };
    }

    /// Levels whose savepoints are still missing for a use at `level`.
    pub fn missing(self, level: i32) -> std::ops::RangeInclusive<i32> {
        self.depth + 1..=level
    }

    /// The savepoint of `level` has been set.
    pub fn deepen(&mut self, level: i32) {
        debug_assert_eq!(level, self.depth + 1);
        self.depth = level;
    }

    /// The savepoints of deeper levels have not been set after all.
    pub fn fall_to(&mut self, level: i32) {
        self.depth = self.depth.min(level);
    }

    /// The local level `level` (a subtransaction) ends well. Returns whether its savepoint must be released.
    pub fn commit_sub(&mut self, level: i32) -> bool {
        self.begun_at = self.begun_at.min(level - 1);
        if self.depth < level {
            return false;
        }
        self.depth = level - 1;
        true
    }

    /// The local level `level` (a subtransaction) is undone. Returns whether its savepoint must be rolled back.
    pub fn abort_sub(&mut self, level: i32) -> bool {
        if self.depth < level {
            return false;
        }
        self.depth = level - 1;
        true
    }

    /// The remote transaction is over, or lost.
    pub fn end(&mut self) {
        *self = Depth::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used_at(level: i32) -> Depth {
        let mut depth = Depth::default();
        depth.begin(level);
        for savepoint in depth.missing(level) {
            depth.deepen(savepoint);
        }
        depth
    }

    #[test]
    fn a_use_at_a_deep_level_sets_all_savepoints() {
        assert_eq!(used_at(3).get(), 3);
        assert_eq!(used_at(3).missing(3).count(), 0);
        assert_eq!(used_at(1).missing(3).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn levels_that_did_not_use_the_session_leave_it_alone() {
        let mut depth = used_at(1);
        assert!(!depth.abort_sub(2));
        assert!(!depth.commit_sub(2));
        assert_eq!(depth.get(), 1);
    }

    #[test]
    fn ends_of_used_levels_go_up_by_one() {
        let mut depth = used_at(3);
        assert!(depth.commit_sub(3));
        assert!(depth.abort_sub(2));
        assert_eq!(depth.get(), 1);
        assert!(depth.is_open());
        depth.end();
        assert!(!depth.is_open());
    }

    #[test]
    fn a_use_at_a_higher_level_gives_it_an_interest() {
        let mut depth = used_at(2);
        depth.abort_sub(2);
        assert_eq!(depth.begun_at(), 2);
        depth.used_at(1);
        depth.used_at(2);
        assert_eq!(depth.begun_at(), 1);
    }

    #[test]
    fn a_level_whose_savepoint_was_not_set_has_nothing_to_undo() {
        let mut depth = used_at(3);
        depth.fall_to(2);
        assert!(!depth.abort_sub(3));
        depth.fall_to(3);
        assert!(depth.abort_sub(2));
        assert_eq!(depth.get(), 1);
    }

    #[test]
    fn a_committed_level_hands_its_interest_to_the_one_above() {
        let mut depth = used_at(3);
        assert_eq!(depth.begun_at(), 3);
        depth.commit_sub(3);
        assert_eq!(depth.begun_at(), 2);
        depth.abort_sub(2);
        assert_eq!(depth.begun_at(), 2);
    }
}
