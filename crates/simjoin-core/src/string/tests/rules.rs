//! The functions and their limits, held against textbook programmes.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Kind, edited, text};
use crate::predicate::{Call, Predicate, Side};
use crate::string::function::StringFunction;
use crate::string::rules::tests::textbook;
use crate::string::threshold::Threshold;
use crate::string::value::PairEvaluator;

/// The value by the textbook, of texts whose lengths the function allows.
pub(super) fn expected(function: StringFunction, a: &str, b: &str) -> Option<f64> {
    let [a, b] = [a, b].map(|text| text.chars().map(u32::from).collect::<Vec<u32>>());
    let similarity = |distance: u32, most: usize| match most {
        0 => 1.0,
        most => 1.0 - f64::from(distance) / most as f64,
    };
    Some(match function {
        StringFunction::Levenshtein => f64::from(textbook::levenshtein(&a, &b)),
        StringFunction::LevenshteinSimilarity => {
            similarity(textbook::levenshtein(&a, &b), a.len().max(b.len()))
        }
        StringFunction::DamerauLevenshtein => f64::from(textbook::damerau(&a, &b)),
        StringFunction::IndelSimilarity => similarity(textbook::indel(&a, &b), a.len() + b.len()),
        StringFunction::Hamming if a.len() != b.len() => return None,
        StringFunction::Hamming => a.iter().zip(&b).filter(|(x, y)| x != y).count() as f64,
        StringFunction::Jaro => textbook::jaro(&a, &b),
        StringFunction::JaroWinkler => textbook::jaro_winkler(&a, &b),
    })
}

/// How often each character of `a` occurs more often there than in `b`.
fn surplus(a: &str, b: &str) -> u32 {
    let mut rest: Vec<char> = b.chars().collect();
    let lacks = |c: char| match rest.iter().position(|other| *other == c) {
        Some(place) => {
            rest.swap_remove(place);
            0
        }
        None => 1,
    };
    a.chars().map(lacks).sum()
}

/// Values are those of the textbook in either order of the arguments; and what a threshold allows two
/// lengths holds for every pair that matches, whatever the threshold.
#[test]
fn values_and_limits_are_those_of_the_textbook() {
    let mut rng = StdRng::seed_from_u64(31);
    let (mut matched, mut refused) = (0, 0);
    for round in 0..24_000 {
        let kind = Kind::ALL[round % Kind::ALL.len()];
        let function = StringFunction::ALL[round / Kind::ALL.len() % 7];
        let a = text(&mut rng, kind);
        let edits = rng.random_range(0..9);
        let b = match rng.random_range(0..4) {
            0 => text(&mut rng, kind),
            _ => edited(&mut rng, kind, &a, edits),
        };
        let value = PairEvaluator::new(function).of(&a, &b).map(|value| value.number());
        assert_eq!(value, expected(function, &a, &b), "{function:?} {a:?} {b:?}");
        assert_eq!(value, expected(function, &b, &a), "{function:?} {b:?} {a:?}");
        let Some(value) = value else { continue };
        let bounds = match function.is_distance() {
            true => vec![value, value + 1.0, value - 1.0],
            false => vec![value, value.next_down(), value.next_up(), 0.8, 0.5],
        };
        for bound in bounds {
            let call = Call { function: function.function(), first: Side::Left };
            let predicate = Predicate::new(call, bound);
            let threshold = Threshold::of(&predicate).unwrap();
            let lens = [&a, &b].map(|text| text.chars().count() as u32);
            let limits = threshold.limits(lens);
            if !predicate.admits(value) || predicate.admits_all() {
                refused += 1;
                let is_all = limits.is_some_and(|limits| limits.is_all);
                assert!(!is_all || predicate.admits_all(), "{function:?} {bound} {a:?} {b:?}");
                continue;
            }
            matched += 1;
            let what = format!("{function:?} {value} {bound} {a:?} {b:?} {limits:?}");
            let limits = limits.expect(&what);
            assert!(surplus(&a, &b) <= limits.surplus[0], "{what}");
            assert!(surplus(&b, &a) <= limits.surplus[1], "{what}");
            for [len, other] in [lens, [lens[1], lens[0]]] {
                let partners = threshold.partner_lens(len);
                assert!(partners.contains(&u64::from(other)), "{what} {partners:?}");
            }
            if let Some(most) = limits.most {
                let distance = match function {
                    StringFunction::LevenshteinSimilarity => {
                        expected(StringFunction::Levenshtein, &a, &b).unwrap()
                    }
                    StringFunction::IndelSimilarity => {
                        let [a, b] =
                            [&a, &b].map(|text| text.chars().map(u32::from).collect::<Vec<u32>>());
                        f64::from(textbook::indel(&a, &b))
                    }
                    _ => value,
                };
                assert!(distance <= f64::from(most), "{what}");
            }
        }
    }
    assert!(matched > 20_000 && refused > 10_000, "{matched} {refused}");
}
