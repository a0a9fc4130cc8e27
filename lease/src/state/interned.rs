//! Values that many items share, stored once.

use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(crate) struct Interner<T> {
    uses: BTreeMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { uses: BTreeMap::new() }
    }
}

impl<T: Ord + Clone> Interner<T> {
    /// Returns the shared copy of this value and counts one more user.
    pub(crate) fn take(&mut self, value: &T) -> T {
        if let Some(uses) = self.uses.get_mut(value) {
            *uses += 1;
            let (shared, _) = self.uses.get_key_value(value).expect("just seen");
            return shared.clone();
        }
        self.uses.insert(value.clone(), 1);
        value.clone()
    }

    /// Counts one user less.
    pub(crate) fn give_back(&mut self, value: &T) {
        let Some(uses) = self.uses.get_mut(value) else { return };
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn equal_values_are_shared_until_the_last_user_gives_back() {
        let mut shared = Interner::default();
        let (one, other): (Arc<str>, Arc<str>) = ("a".into(), "a".into());
        let first = shared.take(&one);
        let second = shared.take(&other);
        assert!(Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&first, &one));
        shared.give_back(&second);
        assert!(Arc::ptr_eq(&shared.take(&other), &one));
        shared.give_back(&first);
        shared.give_back(&first);
        assert!(shared.uses.is_empty());
        assert!(Arc::ptr_eq(&shared.take(&other), &other));
    }
}
