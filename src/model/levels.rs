//! A value that changes inside of savepoints, and comes back with their rollback.

/// What has been set at which nesting levels; the deepest counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels<T> {
    /// From the outermost level on, each one once.
    set: Vec<(i32, T)>,
}

impl<T> Default for Levels<T> {
    fn default() -> Levels<T> {
        Levels { set: Vec::new() }
    }
}

impl<T: Copy> Levels<T> {
    pub const fn new() -> Levels<T> {
        Levels { set: Vec::new() }
    }

    /// What counts at `level`: what was set there, or further out. None: nothing was.
    pub fn at(&self, level: i32) -> Option<T> {
        let set = self.set.iter().rev().find(|(of, _)| *of <= level);
        set.map(|(_, value)| *value)
    }

    /// Sets it at `level`, the deepest there is.
    pub fn set(&mut self, level: i32, value: T) {
        self.undo_level(level);
        self.set.push((level, value));
    }

    /// The subtransaction at `level` has ended well: what it set belongs to the level above.
    pub fn leave_level(&mut self, level: i32) {
        if let Some(value) = self
            .set
            .last()
            .filter(|(of, _)| *of >= level)
            .map(|last| last.1)
        {
            self.set(level - 1, value);
        }
    }

    /// The subtransaction at `level` is undone, and what it set.
    pub fn undo_level(&mut self, level: i32) {
        self.set.retain(|(of, _)| *of < level);
    }

    pub fn clear(&mut self) {
        self.set.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_levels_see_what_was_set_further_out() {
        let mut levels = Levels::new();
        levels.set(1, 'a');
        levels.set(3, 'c');
        assert_eq!(levels.at(0), None);
        assert_eq!((levels.at(1), levels.at(2)), (Some('a'), Some('a')));
        assert_eq!((levels.at(3), levels.at(7)), (Some('c'), Some('c')));
    }

    #[test]
    fn a_rollback_brings_back_what_was_before() {
        let mut levels = Levels::new();
        levels.set(2, 'b');
        levels.set(3, 'c');
        levels.undo_level(3);
        assert_eq!(levels.at(3), Some('b'));
        levels.undo_level(2);
        assert_eq!(levels.at(3), None);
    }

    #[test]
    fn a_level_that_ends_well_leaves_its_value_to_the_one_above() {
        let mut levels = Levels::new();
        levels.set(1, 'a');
        levels.leave_level(2);
        assert_eq!(levels.at(2), Some('a'));
        levels.set(3, 'c');
        levels.leave_level(3);
        assert_eq!((levels.at(1), levels.at(2)), (Some('a'), Some('c')));
        levels.leave_level(2);
        assert_eq!(levels.at(1), Some('c'));
        levels.clear();
        assert_eq!(levels, Levels::default());
    }
}
