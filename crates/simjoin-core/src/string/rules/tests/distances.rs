use super::super::{Damerau, Edits, Indel, Levenshtein, Scratch, hamming};
use super::{ALPHABETS, Random, textbook};

const LENS: [usize; 18] = [0, 1, 2, 3, 5, 8, 13, 31, 32, 62, 63, 64, 65, 66, 90, 127, 128, 129];

type Distance = fn(&mut Scratch, &[u32], &[u32]) -> u32;
type Within = fn(&mut Scratch, &[u32], &[u32], u32) -> Option<u32>;

/// Compares a function and its bounded form with the oracle, at every bound around the distance.
fn check(
    seed: u64,
    cases: usize,
    lens: &[usize],
    oracle: fn(&[u32], &[u32]) -> u32,
    (distance, within): (Distance, Within),
) {
    let mut random = Random(seed);
    let mut scratch = Scratch::new();
    for case in 0..cases {
        let (a, b) = random.pair(lens, ALPHABETS[case % 3]);
        let expected = oracle(&a, &b);
        assert_eq!(distance(&mut scratch, &a, &b), expected, "{a:?} {b:?}");
        let random_bound = random.below(a.len() + b.len() + 2) as u32;
        for k in [
            0,
            1,
            2,
            3,
            7,
            expected.saturating_sub(1),
            expected,
            expected + 1,
            random_bound,
            u32::MAX,
        ] {
            let found = within(&mut scratch, &a, &b, k);
            assert_eq!(found, Some(expected).filter(|&d| d <= k), "{a:?} {b:?} {k}");
        }
    }
}

fn go_on() -> bool {
    false
}

const LEVENSHTEIN: (Distance, Within) = (
    |s, a, b| Levenshtein::distance(s, a, b, &mut go_on).unwrap(),
    |s, a, b, k| Levenshtein::within(s, a, b, k, &mut go_on).unwrap(),
);
const INDEL: (Distance, Within) = (
    |s, a, b| Indel::distance(s, a, b, &mut go_on).unwrap(),
    |s, a, b, k| Indel::within(s, a, b, k, &mut go_on).unwrap(),
);
const DAMERAU: (Distance, Within) = (
    |s, a, b| Damerau::distance(s, a, b, &mut go_on).unwrap(),
    |s, a, b, k| Damerau::within(s, a, b, k, &mut go_on).unwrap(),
);

#[test]
fn levenshtein_equals_the_textbook() {
    check(1, 6_000, &LENS, textbook::levenshtein, LEVENSHTEIN);
}

#[test]
fn indel_equals_the_textbook() {
    check(2, 6_000, &LENS, textbook::indel, INDEL);
}

#[test]
fn damerau_equals_the_textbook() {
    check(3, 5_000, &LENS, textbook::damerau, DAMERAU);
}

#[test]
fn distances_of_very_short_strings_equal_the_textbook() {
    let lens = [0, 1, 2, 3, 4, 5, 6, 7];
    check(4, 20_000, &lens, textbook::levenshtein, LEVENSHTEIN);
    check(5, 20_000, &lens, textbook::indel, INDEL);
    check(6, 20_000, &lens, textbook::damerau, DAMERAU);
}

#[test]
fn damerau_of_all_strings_of_three_letters_equals_the_textbook() {
    let mut strings = vec![vec![]];
    for first in 0..121 {
        for symbol in [97, 98, 99] {
            let string: Vec<u32> = strings[first].iter().copied().chain([symbol]).collect();
            strings.push(string);
        }
    }
    let mut scratch = Scratch::new();
    for a in &strings {
        for b in &strings {
            let expected = textbook::damerau(a, b);
            assert_eq!(DAMERAU.0(&mut scratch, a, b), expected, "{a:?} {b:?}");
        }
    }
}

#[test]
fn damerau_across_the_edge_of_a_block_equals_the_textbook() {
    check(13, 4_000, &[63, 64, 65, 66, 67, 68, 126, 130], textbook::damerau, DAMERAU);
}

#[test]
fn distances_of_strings_of_several_blocks_equal_the_textbook() {
    let lens = [191, 192, 193, 255, 256, 257, 300, 400];
    check(7, 300, &lens, textbook::levenshtein, LEVENSHTEIN);
    check(8, 300, &lens, textbook::indel, INDEL);
    check(9, 300, &lens, textbook::damerau, DAMERAU);
}

#[test]
fn bytes_and_characters_have_the_distances_of_their_numbers() {
    let mut random = Random(10);
    let mut scratch = Scratch::new();
    for _ in 0..3_000 {
        let (a, b) = random.pair(&LENS, 26);
        let bytes = |s: &[u32]| s.iter().map(|&x| x as u8).collect::<Vec<u8>>();
        let chars =
            |s: &[u32]| s.iter().map(|&x| char::from_u32(x).unwrap()).collect::<Vec<char>>();
        let expected = textbook::levenshtein(&a, &b);
        assert_eq!(
            Levenshtein::distance(&mut scratch, &bytes(&a), &bytes(&b), &mut go_on),
            Ok(expected)
        );
        assert_eq!(
            Levenshtein::distance(&mut scratch, &chars(&a), &chars(&b), &mut go_on),
            Ok(expected)
        );
        let expected = textbook::damerau(&a, &b);
        assert_eq!(
            Damerau::distance(&mut scratch, &bytes(&a), &bytes(&b), &mut go_on),
            Ok(expected)
        );
        let expected = textbook::indel(&a, &b);
        assert_eq!(Indel::distance(&mut scratch, &chars(&a), &chars(&b), &mut go_on), Ok(expected));
    }
}

#[test]
fn many_symbols_that_share_places_of_the_table_are_told_apart() {
    let mut random = Random(11);
    let mut scratch = Scratch::new();
    for _ in 0..2_000 {
        // Multiples of a power of two, on which many hashes are weak.
        let draw = |random: &mut Random| {
            (0..64).map(|_| (random.below(70) as u32) << 14).collect::<Vec<_>>()
        };
        let (a, b) = (draw(&mut random), draw(&mut random));
        let expected = textbook::levenshtein(&a, &b);
        assert_eq!(Levenshtein::distance(&mut scratch, &a, &b, &mut go_on), Ok(expected));
    }
}

#[test]
fn hamming_counts_differing_places_of_equal_lengths_only() {
    assert_eq!(hamming(b"karolin", b"kathrin"), Some(3));
    assert_eq!(hamming(b"a", b"ab"), None);
    assert_eq!(hamming::<u8>(b"", b""), Some(0));
}

#[test]
fn other_distances_bound_levenshteins() {
    let mut random = Random(12);
    for case in 0..20_000 {
        let (a, b) = random.pair(&[0, 1, 2, 3, 4, 6, 9, 12], ALPHABETS[case % 3]);
        let distance = textbook::levenshtein(&a, &b);
        assert!(distance <= 2 * textbook::damerau(&a, &b), "{a:?} {b:?}");
        assert!(distance <= textbook::indel(&a, &b), "{a:?} {b:?}");
    }
}
