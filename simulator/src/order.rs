//! Sorts and ordered collections in one instance each: every further one would be kilobytes of the page.

use core::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Sorts places; of equals the order stays.
pub fn sort_places(places: &mut [u32], order: &dyn Fn(u32, u32) -> Ordering) {
    places.sort_by(|&left, &right| order(left, right));
}

/// Sorts by a comparison; of equals the order stays.
pub fn sort_by<T>(items: &mut Vec<T>, order: impl Fn(&T, &T) -> Ordering) {
    let mut places: Vec<u32> = (0..).take(items.len()).collect();
    let item = |place: u32| &items[place as usize];
    sort_places(&mut places, &|left, right| order(item(left), item(right)));
    let mut old: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(places.into_iter().filter_map(|place| old[place as usize].take()));
}

/// Sorts in ascending order.
pub fn sort<T: Ord>(items: &mut Vec<T>) {
    sort_by(items, Ord::cmp);
}

/// A set, item by item: `collect` would sort first.
pub fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    for item in items {
        set.insert(item);
    }
    set
}

/// A map, pair by pair; of equal keys the last one stays.
pub fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        map.insert(key, value);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_keep_their_order() {
        let mut pairs = vec![(2, 'a'), (1, 'b'), (2, 'c'), (1, 'd')];
        sort_by(&mut pairs, |left, right| left.0.cmp(&right.0));
        assert_eq!(pairs, [(1, 'b'), (1, 'd'), (2, 'a'), (2, 'c')]);
        let mut words = vec!["b".to_owned(), "a".to_owned()];
        sort(&mut words);
        assert_eq!(words, ["a", "b"]);
        assert_eq!(map([(1, 'a'), (1, 'b')]), BTreeMap::from([(1, 'b')]));
        assert_eq!(set([2, 1, 2]), BTreeSet::from([1, 2]));
    }
}
