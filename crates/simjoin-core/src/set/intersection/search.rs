//! The values of a short run in a long one.

use super::Key;

/// Searches that go on in turn: a processor waits for the memory of all of them at once.
const SEARCHES: usize = 16;

/// The number of values of a short run that a long one has as well.
///
/// Each group of values is searched in the stretch of the long run that it can lie in, whose end a
/// search with growing steps finds (Bentley, Yao: "An almost optimal algorithm for unbounded
/// searching", IPL 1976). Slices that are no runs give any number.
pub(super) fn search<K: Key>(short: &[K], long: &[K]) -> u64 {
    let mut common = 0;
    let mut rest = long;
    let mut left = short.len();
    for group in short.chunks(SEARCHES) {
        let greatest = group[group.len() - 1];
        // Where it would lie if both were spread evenly.
        let mut reach = (rest.len() / left).saturating_mul(group.len()).max(1);
        while reach < rest.len() && rest[reach] < greatest {
            reach = reach.saturating_mul(2);
        }
        left -= group.len();
        let stretch = &rest[..rest.len().min(reach.saturating_add(1))];
        let places = lower_bounds(group, stretch);
        for (key, &place) in group.iter().zip(&places) {
            common += u64::from(stretch.get(place) == Some(key));
        }
        rest = &rest[places[group.len() - 1]..];
    }
    common
}

/// For each of some values, how many of `run` are less.
#[inline]
fn lower_bounds<K: Key>(group: &[K], run: &[K]) -> [usize; SEARCHES] {
    let mut places = [0; SEARCHES];
    if run.is_empty() {
        return places;
    }
    let mut keys = [group[0]; SEARCHES];
    keys[..group.len()].copy_from_slice(group);
    let mut count = run.len();
    while count > 1 {
        let half = count / 2;
        for (place, key) in places.iter_mut().zip(&keys) {
            // No branch: the next place is half the rest away, or not.
            *place += half * usize::from(run[*place + half - 1] < *key);
        }
        count -= half;
    }
    for (place, key) in places.iter_mut().zip(&keys) {
        *place += usize::from(run[*place] < *key);
    }
    places
}
