use crate::simd::Simd;
use crate::string::lanes::pairs::{Count, LONGEST, MAX_SYMBOL, Pairs, Text};
use crate::string::rules::tests::{Random, textbook};

const COUNTS: [Count; 5] =
    [Count::Levenshtein, Count::Damerau, Count::Indel, Count::Hamming, Count::Jaro];

fn expected(count: Count, a: &[u32], b: &[u32]) -> u32 {
    match count {
        Count::Levenshtein => textbook::levenshtein(a, b),
        Count::Damerau => textbook::damerau(a, b),
        Count::Indel => textbook::indel(a, b),
        Count::Hamming => a.iter().zip(b).filter(|(x, y)| x != y).count() as u32,
        Count::Jaro => {
            let (common, transpositions) = textbook::common(a, b);
            common as u32 | (transpositions as u32) << 16
        }
    }
}

/// Counts all pairs by one set of lanes.
fn counted<'a>(
    simd: Simd,
    pairs: &mut Pairs,
    len: usize,
    pair: impl Fn(usize) -> [Text<'a>; 2],
) -> Vec<u32> {
    let mut out = vec![u32::MAX; len];
    for at in 0..len {
        pairs.push(simd, at, pair(at), &mut out);
    }
    pairs.flush(simd, &mut out);
    out
}

fn check(seed: u64, rounds: usize, most: usize, lens: &[usize]) {
    let mut random = Random(seed);
    let mut lanes = COUNTS.map(Pairs::new);
    for round in 0..rounds {
        let most = 1 + random.below(most);
        let mut strings: Vec<(Vec<u32>, Vec<u32>)> =
            (0..most).map(|_| random.pair(lens, [2, 20][round % 2])).collect();
        strings.retain(|(a, b)| a.len().max(b.len()) <= LONGEST);
        // Some symbols beyond ASCII: the greatest, too.
        let byte = |x: &u32| match x % 7 {
            3 => MAX_SYMBOL - *x as u8 % 3,
            _ => *x as u8,
        };
        // Strings one behind another, as in an array, then each for itself.
        let mut bytes = vec![];
        let mut place = |s: &[u32]| {
            bytes.extend(s.iter().map(byte));
            (bytes.len() - s.len(), s.len())
        };
        let places: Vec<_> = strings.iter().map(|(a, b)| [place(a), place(b)]).collect();
        for (count, lanes) in COUNTS.into_iter().zip(&mut lanes) {
            // Texts of one length, if others have no count.
            let places: Vec<_> = places
                .iter()
                .map(|&[a, b]| match lanes.counts(a.1, b.1) {
                    true => [a, b],
                    false => [a, b].map(|(start, _)| (start, a.1.min(b.1))),
                })
                .collect();
            let symbols =
                |(start, len)| bytes[start..start + len].iter().map(|&x| x.into()).collect();
            let expected: Vec<u32> = places
                .iter()
                .map(|&[a, b]| -> [Vec<u32>; 2] { [symbols(a), symbols(b)] })
                .map(|[a, b]| expected(count, &a, &b))
                .collect();
            for simd in super::forms() {
                let joined =
                    |i: usize| places[i].map(|(start, len)| Text::new(&bytes[start..], len));
                let found = counted(simd, lanes, places.len(), joined);
                assert_eq!(found, expected, "{count:?} {simd}");
                let apart =
                    |i: usize| places[i].map(|(start, len)| Text::from(&bytes[start..start + len]));
                let found = counted(simd, lanes, places.len(), apart);
                assert_eq!(found, expected, "{count:?} {simd}");
            }
        }
    }
}

#[test]
fn pairs_of_each_width_equal_the_textbook() {
    check(71, 60, 150, &[0, 1, 2, 3, 7, 8, 14, 15, 16]);
    check(72, 40, 80, &[15, 16, 17, 20, 30, 31, 32]);
    check(73, 30, 60, &[31, 32, 33, 40, 62, 63, 64]);
}

#[test]
fn pairs_of_mixed_widths_equal_the_textbook() {
    check(74, 40, 200, &[0, 1, 9, 16, 17, 32, 33, 63, 64]);
}
