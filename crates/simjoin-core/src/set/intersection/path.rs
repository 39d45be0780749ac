//! The path of a merge, cut at a given length.

/// The number of values of `a` among the first `length` of a merge of two runs; the others are of
/// `b`. A common value lies behind the cut on both sides, or before it on both, for which the cut
/// may move by one value. Where the slices are no runs, the cut lies somewhere within them.
///
/// The search along a diagonal is of Green, McColl, Bader: "GPU merge path: a GPU merging
/// algorithm", ICS 2012.
#[inline]
pub fn cut<K: Copy + Ord>(a: &[K], b: &[K], length: usize) -> (usize, usize) {
    let least = length.saturating_sub(b.len());
    let (mut from_a, mut count) = (least, length.min(a.len()) - least);
    while count > 0 {
        let half = count / 2;
        let middle = from_a + half;
        // Ties go to `a`.
        if a[middle] <= b[length - 1 - middle] {
            from_a = middle + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    let from_b = length - from_a;
    match from_a.checked_sub(1) {
        Some(last) if b.get(from_b) == Some(&a[last]) => (last, from_b),
        _ => (from_a, from_b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_part_no_common_values() {
        let a = [1, 3, 4, 7, 8, 9, 20];
        let b = [2, 3, 4, 5, 8, 11];
        for length in 0..=a.len() + b.len() {
            let (i, j) = cut(&a, &b, length);
            assert!(i + j == length || i + j + 1 == length, "{length}");
            let before = a[..i].iter().chain(&b[..j]).max();
            let behind = a[i..].iter().chain(&b[j..]).min();
            assert!(before.is_none() || behind.is_none() || before < behind, "{length}");
        }
    }

    #[test]
    fn cuts_of_slices_in_any_order_lie_within_them() {
        let (a, b) = ([9, 1, 7, 7, 0], [3, 3, 9, 0]);
        for length in 0..=9 {
            let (i, j) = cut(&a, &b, length);
            assert!(i <= a.len() && j <= b.len());
        }
    }
}
