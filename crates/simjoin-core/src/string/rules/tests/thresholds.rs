use super::super::{Scratch, Threshold, jaro, jaro_winkler, similarity};
use super::{ALPHABETS, Random, textbook};

/// Whether two strings match, by the definitions.
fn matches(threshold: Threshold, a: &[u32], b: &[u32]) -> bool {
    let most = a.len().max(b.len()) as f64;
    let both = (a.len() + b.len()) as f64;
    let similar = |d: u32, most: f64| if most == 0.0 { 1.0 } else { 1.0 - f64::from(d) / most };
    match threshold {
        Threshold::Levenshtein(k) => textbook::levenshtein(a, b) <= k,
        Threshold::Damerau(k) => textbook::damerau(a, b) <= k,
        Threshold::Hamming(k) => {
            a.len() == b.len() && a.iter().zip(b).filter(|(x, y)| x != y).count() <= k as usize
        }
        Threshold::LevenshteinSimilarity(t) => similar(textbook::levenshtein(a, b), most) >= t,
        Threshold::IndelSimilarity(t) => similar(textbook::indel(a, b), both) >= t,
        Threshold::Jaro(t) => textbook::jaro(a, b) >= t,
        Threshold::JaroWinkler(t) => textbook::jaro_winkler(a, b) >= t,
    }
}

/// The number of elements (symbol, occurrence) of `a` that are missing in `b`.
fn missing(a: &[u32], b: &[u32]) -> u32 {
    let mut left = b.to_vec();
    let mut missing = 0;
    for x in a {
        match left.iter().position(|y| x == y) {
            Some(at) => drop(left.swap_remove(at)),
            None => missing += 1,
        }
    }
    missing
}

fn thresholds(random: &mut Random, a: &[u32], b: &[u32]) -> Vec<Threshold> {
    let mut scratch = Scratch::new();
    let k = random.below(9) as u32;
    let most = a.len().max(b.len()) as u64;
    let t = random.below(21) as f64 / 20.0;
    let at = |d: u32, most: u64| similarity(d, most);
    let (lev, indel) = (textbook::levenshtein(a, b), textbook::indel(a, b));
    let mut result = vec![
        Threshold::Levenshtein(k),
        Threshold::Levenshtein(lev),
        Threshold::Damerau(k),
        Threshold::Damerau(textbook::damerau(a, b)),
        Threshold::Hamming(k),
        Threshold::IndelSimilarity(at(indel, (a.len() + b.len()) as u64)),
        Threshold::LevenshteinSimilarity(at(lev, most)),
        Threshold::Jaro(jaro(&mut scratch, a, b)),
        Threshold::JaroWinkler(jaro_winkler(&mut scratch, a, b)),
    ];
    for t in [t, -0.5, 0.0, 1.0, 1.5, f64::NAN] {
        result.extend([
            Threshold::LevenshteinSimilarity(t),
            Threshold::IndelSimilarity(t),
            Threshold::Jaro(t),
            Threshold::JaroWinkler(t),
        ]);
    }
    result
}

#[test]
fn matching_strings_are_within_lengths_and_surplus() {
    let mut random = Random(41);
    let mut found = 0;
    for case in 0..12_000 {
        let (a, b) = random.pair(&[0, 1, 2, 3, 4, 5, 7, 9, 12, 20], ALPHABETS[case % 3]);
        let (la, lb) = (a.len() as u32, b.len() as u32);
        for threshold in thresholds(&mut random, &a, &b) {
            if !matches(threshold, &a, &b) {
                assert!(!threshold.always(la, lb), "{threshold:?} {a:?} {b:?}");
                continue;
            }
            found += 1;
            assert!(threshold.partner_lens(la).contains(&lb), "{threshold:?} {a:?} {b:?}");
            assert!(threshold.partner_lens(lb).contains(&la), "{threshold:?} {a:?} {b:?}");
            let [of_a, of_b] = threshold.surplus(la, lb).expect("a pair that matches");
            assert!(
                missing(&a, &b) <= of_a && missing(&b, &a) <= of_b,
                "{threshold:?} {a:?} {b:?}"
            );
            assert_eq!(threshold.surplus(lb, la), Some([of_b, of_a]));
            let prefix = a.iter().zip(&b).take_while(|(x, y)| x == y).count() as u32;
            let [of_a, of_b] = threshold.surplus_after(la, lb, prefix).expect("matches");
            assert!(
                missing(&a, &b) <= of_a && missing(&b, &a) <= of_b,
                "{threshold:?} {a:?} {b:?}"
            );
        }
    }
    assert!(found > 20_000, "{found}");
}

#[test]
fn the_distance_of_a_similarity_is_the_greatest_that_matches() {
    let holds = |t: f64, most: u64, d: u64| similarity(d as u32, most) >= t;
    for a in 0..=70_u32 {
        for b in a..=70 {
            let most = u64::from(b);
            for d in 0..=most {
                let t = similarity(d as u32, most);
                for t in [t, t.next_up(), t.next_down()] {
                    let expected = (0..=most).rev().find(|&d| holds(t, most, d));
                    let expected = expected.filter(|&d| d >= u64::from(b - a)).map(|d| d as u32);
                    let threshold = Threshold::LevenshteinSimilarity(t);
                    assert_eq!(threshold.distance(a, b), expected, "{t} {a} {b}");
                    assert_eq!(threshold.distance(b, a), expected, "{t} {a} {b}");
                }
            }
        }
    }
    let threshold = Threshold::IndelSimilarity(0.8);
    assert_eq!(threshold.distance(5, 5), Some(2));
    assert_eq!(threshold.distance(0, 0), Some(0));
}

#[test]
fn partner_lengths_are_those_that_are_possible() {
    let mut random = Random(42);
    for _ in 0..400 {
        let t = random.below(1_000) as f64 / 999.0;
        let k = random.below(12) as u32;
        for threshold in [
            Threshold::Levenshtein(k),
            Threshold::Hamming(k),
            Threshold::LevenshteinSimilarity(t),
            Threshold::IndelSimilarity(t),
            Threshold::Jaro(t),
            Threshold::JaroWinkler(t),
        ] {
            let len = random.below(60) as u32;
            let lens = threshold.partner_lens(len);
            for other in 0..400 {
                let possible = threshold.surplus(len, other).is_some();
                assert_eq!(lens.contains(&other), possible, "{threshold:?} {len} {other}");
            }
        }
    }
}

#[test]
fn short_strings_always_match() {
    assert!(Threshold::Levenshtein(3).always(3, 1));
    assert!(!Threshold::Levenshtein(3).always(4, 4));
    assert!(Threshold::Hamming(3).always(3, 3) && !Threshold::Hamming(3).always(3, 2));
    assert!(Threshold::IndelSimilarity(0.0).always(3, 5));
    assert!(Threshold::LevenshteinSimilarity(0.9).always(0, 0));
    assert!(Threshold::Jaro(0.0).always(3, 5) && Threshold::JaroWinkler(1.0).always(0, 0));
}

#[test]
fn thresholds_at_the_ends_have_lengths() {
    assert_eq!(Threshold::Levenshtein(2).partner_lens(1), 0..=3);
    assert_eq!(Threshold::Levenshtein(u32::MAX).partner_lens(u32::MAX), 0..=u32::MAX);
    assert_eq!(Threshold::LevenshteinSimilarity(0.0).partner_lens(3), 0..=u32::MAX);
    assert!(Threshold::LevenshteinSimilarity(1.1).partner_lens(3).is_empty());
    assert!(Threshold::Jaro(f64::NAN).partner_lens(3).is_empty());
    assert_eq!(Threshold::Jaro(1.0).partner_lens(3), 3..=3);
    assert_eq!(Threshold::Hamming(9).partner_lens(3), 3..=3);
    assert_eq!(Threshold::Levenshtein(3).surplus(4, 6), Some([1, 3]));
}
