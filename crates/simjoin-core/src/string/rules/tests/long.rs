use super::super::{Cancelled, Damerau, Edits, Indel, Levenshtein, Scratch, jaro};
use super::Random;

#[test]
fn strings_of_100_000_symbols_a_few_edits_apart_are_quick() {
    let mut random = Random(21);
    let mut scratch = Scratch::new();
    let a = random.string(100_000, 26);
    let mut b = a.clone();
    b[10] = 0x1F600;
    b.remove(99_000);
    let stop = &mut || false;
    assert_eq!(Levenshtein::within(&mut scratch, &a, &b, 2, stop), Ok(Some(2)));
    assert_eq!(Levenshtein::distance(&mut scratch, &a, &b, stop), Ok(2));
    assert_eq!(Levenshtein::within(&mut scratch, &a, &b, 1, stop), Ok(None));
    assert_eq!(Damerau::within(&mut scratch, &a, &b, 3, stop), Ok(Some(2)));
    assert_eq!(Damerau::distance(&mut scratch, &a, &b, stop), Ok(2));
    assert_eq!(Indel::within(&mut scratch, &a, &b, 3, stop), Ok(Some(3)));
    assert_eq!(Indel::distance(&mut scratch, &a, &b, stop), Ok(3));
    // Letters meet far from their place within such a window, so most are out of order.
    assert!(jaro(&mut scratch, &a, &b) > 0.8);
}

#[test]
fn unrelated_long_strings_are_given_up_early() {
    let mut random = Random(22);
    let mut scratch = Scratch::new();
    let (a, b) = (random.string(100_000, 26), random.string(100_000, 26));
    let mut asked = 0;
    let stop = &mut || {
        asked += 1;
        false
    };
    assert_eq!(Levenshtein::within(&mut scratch, &a, &b, 100, stop), Ok(None));
    assert_eq!(Indel::within(&mut scratch, &a, &b, 100, stop), Ok(None));
    assert_eq!(Damerau::within(&mut scratch, &a, &b, 100, stop), Ok(None));
    assert!(asked < 3, "{asked}");
}

#[test]
fn long_distances_are_cancelled() {
    let mut random = Random(23);
    let mut scratch = Scratch::new();
    let (a, b) = (random.string(100_000, 26), random.string(100_000, 26));
    let mut asked = 0;
    let stop = &mut || {
        asked += 1;
        asked % 5 == 0
    };
    assert_eq!(Levenshtein::distance(&mut scratch, &a, &b, stop), Err(Cancelled));
    assert_eq!(Indel::distance(&mut scratch, &a, &b, stop), Err(Cancelled));
    assert_eq!(Damerau::distance(&mut scratch, &a, &b, stop), Err(Cancelled));
    assert_eq!(asked, 15);
    // The scratch serves on.
    assert_eq!(Levenshtein::distance(&mut scratch, b"kitten", b"sitting", &mut || false), Ok(3));
}
