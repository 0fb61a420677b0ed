//! Undo and redo over whole values; a gesture (one slider drag, one typed number) is one step.

/// Most steps kept.
const LIMIT: usize = 200;

/// What was, and what was undone.
#[derive(Clone, Debug)]
pub(crate) struct History<T> {
    past: Vec<T>,
    future: Vec<T>,
    gesture: Option<&'static str>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { past: Vec::new(), future: Vec::new(), gesture: None }
    }
}

impl<T: Clone + PartialEq> History<T> {
    /// Notes that `before` is about to be replaced by the named gesture.
    pub(crate) fn record(&mut self, gesture: &'static str, before: &T) {
        self.future.clear();
        if self.gesture == Some(gesture) {
            return;
        }
        self.gesture = Some(gesture);
        if self.past.len() == LIMIT {
            self.past.remove(0);
        }
        self.past.push(before.clone());
    }

    /// Ends the gesture: the next change is a step of its own.
    pub(crate) const fn end_gesture(&mut self) {
        self.gesture = None;
    }

    /// The value before a gesture that goes on.
    pub(crate) fn base(&self, gesture: &str) -> Option<&T> {
        if self.gesture == Some(gesture) { self.past.last() } else { None }
    }

    /// The value before `now`, if there is one.
    pub(crate) fn undo(&mut self, now: &T) -> Option<T> {
        self.gesture = None;
        let value = self.past.pop()?;
        self.future.push(now.clone());
        Some(value)
    }

    /// The value that was undone last, if there is one.
    pub(crate) fn redo(&mut self, now: &T) -> Option<T> {
        self.gesture = None;
        let value = self.future.pop()?;
        self.past.push(now.clone());
        Some(value)
    }

    pub(crate) const fn can_undo(&self) -> bool {
        !self.past.is_empty()
    }

    pub(crate) const fn can_redo(&self) -> bool {
        !self.future.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::History;

    #[test]
    fn a_gesture_is_one_step() {
        let mut history = History::default();
        history.record("seq", &1);
        history.record("seq", &2);
        assert_eq!(history.base("seq"), Some(&1));
        history.end_gesture();
        assert_eq!(history.base("seq"), None);
        history.record("seq", &3);
        assert_eq!(history.undo(&4), Some(3));
        assert_eq!(history.undo(&3), Some(1));
        assert_eq!(history.undo(&1), None);
        assert_eq!(history.redo(&1), Some(3));
        assert_eq!(history.redo(&3), Some(4));
        assert!(!history.can_redo());
    }

    #[test]
    fn a_new_change_forgets_what_was_undone() {
        let mut history = History::default();
        history.record("a", &1);
        assert_eq!(history.undo(&2), Some(1));
        history.record("b", &1);
        assert!(!history.can_redo());
        assert!(history.can_undo());
    }
}
