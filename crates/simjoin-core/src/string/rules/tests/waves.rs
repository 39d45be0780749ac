use super::super::meter::Meter;
use super::super::waves::{WaveAnswer, Waves};
use super::super::{Edits, Levenshtein, Scratch, Symbol};
use super::{ALPHABETS, Random, textbook};
use crate::simd::Simd;

/// Both strings without what they have in common at both ends.
fn trimmed<'a, T: Symbol>(a: &'a [T], b: &'a [T]) -> [&'a [T]; 2] {
    let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    [&a[..a.len() - suffix], &b[..b.len() - suffix]]
}

fn meet<T: Symbol>(waves: &mut Waves, simd: Simd, strings: [&[T]; 2], k: usize) -> WaveAnswer {
    let stop = &mut || false;
    waves.meet(simd, strings, k, &mut Meter::new(stop)).unwrap()
}

#[test]
fn waves_equal_the_textbook_in_every_form() {
    let mut random = Random(91);
    let mut waves = Waves::default();
    let mut met = 0;
    for case in 0..240 {
        let alphabet = ALPHABETS[case % 3];
        let len = [260, 300, 511, 700][random.below(4)];
        let a = random.string(len, alphabet);
        let edits = random.below(len / 12);
        let b = random.edited(&a, edits, alphabet);
        let [a, b] = trimmed(&a, &b);
        let bytes = [a, b].map(|s| s.iter().map(|&x| x as u8).collect::<Vec<u8>>());
        let expected = textbook::levenshtein(a, b) as usize;
        let bounds = [expected.saturating_sub(1), expected, expected + 1, 3, len];
        for (&simd, k) in Simd::available().iter().flat_map(|s| bounds.map(|k| (s, k))) {
            let mut check = |found: WaveAnswer| match found {
                WaveAnswer::At(distance) => {
                    met += 1;
                    assert_eq!(Some(distance), Some(expected).filter(|&d| d <= k), "{a:?} {b:?}");
                }
                WaveAnswer::Beyond => assert!(expected > k, "{k} {a:?} {b:?}"),
                WaveAnswer::Unlike => {}
            };
            check(meet(&mut waves, simd, [a, b], k));
            check(meet(&mut waves, simd, [b, a], k));
            if alphabet < 256 {
                check(meet(&mut waves, simd, [&bytes[0], &bytes[1]], k));
            }
        }
    }
    assert!(met > 1_000, "{met}");
}

#[test]
fn symbols_of_borders_are_left_to_blocks() {
    let mut waves = Waves::default();
    for border in [0xfe, 0xff] {
        let a = [vec![border; 300], vec![1; 300]].concat();
        let b = [vec![2; 1], vec![border; 299], vec![1; 299], vec![3; 1]].concat();
        for &simd in Simd::available() {
            assert_eq!(meet::<u8>(&mut waves, simd, [&a, &b], 20), WaveAnswer::Unlike);
            let symbols =
                [&a, &b].map(|s| s.iter().map(|&x| u32::from(x) << 24).collect::<Vec<_>>());
            assert_eq!(meet(&mut waves, simd, [&symbols[0], &symbols[1]], 20), WaveAnswer::Unlike);
        }
        let stop = &mut || false;
        let mut scratch = Scratch::new();
        assert_eq!(Levenshtein::within(&mut scratch, &a, &b, 20, stop), Ok(Some(2)));
        assert_eq!(Levenshtein::within(&mut scratch, &a, &a, 20, stop), Ok(Some(0)));
    }
}

#[test]
fn long_strings_equal_blocks() {
    let mut random = Random(92);
    let mut scratch = Scratch::new();
    for case in 0..12 {
        let a = random.string(3_000 + random.0 as usize % 2_000, ALPHABETS[case % 3]);
        let edits = random.below(350);
        let b = random.edited(&a, edits, ALPHABETS[case % 3]);
        let expected = textbook::levenshtein(&a, &b);
        let stop = &mut || false;
        assert_eq!(Levenshtein::distance(&mut scratch, &a, &b, stop), Ok(expected));
        for k in [40, 204, 400, expected, expected.saturating_sub(1)] {
            let found = Levenshtein::within(&mut scratch, &a, &b, k, stop);
            assert_eq!(found, Ok(Some(expected).filter(|&d| d <= k)), "{k}");
        }
    }
}
