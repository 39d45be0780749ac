use crate::simd::Simd;
use crate::string::lanes::pairs::{LONGEST, LaneCount, MAX_SYMBOL, PendingPairs, Text};
use crate::string::rules::tests::{Random, textbook};

const COUNTS: [LaneCount; 5] = [
    LaneCount::Levenshtein,
    LaneCount::Damerau,
    LaneCount::Indel,
    LaneCount::Hamming,
    LaneCount::Jaro,
];

fn expected(count: LaneCount, a: &[u32], b: &[u32]) -> u32 {
    match count {
        LaneCount::Levenshtein => textbook::levenshtein(a, b),
        LaneCount::Damerau => textbook::damerau(a, b),
        LaneCount::Indel => textbook::indel(a, b),
        LaneCount::Hamming => a.iter().zip(b).filter(|(x, y)| x != y).count() as u32,
        LaneCount::Jaro => {
            let (common, transpositions) = textbook::common(a, b);
            common as u32 | (transpositions as u32) << 16
        }
    }
}

/// Counts all pairs by one set of lanes.
fn counted<'a, const P: usize>(
    simd: Simd,
    pairs: &mut PendingPairs<P>,
    len: usize,
    pair: impl Fn(usize) -> [[Text<'a>; P]; 2],
) -> Vec<u32> {
    let mut out = vec![u32::MAX; len];
    for at in 0..len {
        pairs.push(simd, at, pair(at), &mut out);
    }
    pairs.flush(simd, &mut out);
    out
}

/// A symbol of one byte, some beyond ASCII: the greatest, too.
fn narrow(symbol: u32) -> [u8; 1] {
    [match symbol % 7 {
        3 => MAX_SYMBOL - symbol as u8 % 3,
        _ => symbol as u8,
    }]
}

/// A symbol of two bytes, of which others have one; the greatest and the least, too.
fn wide(symbol: u32) -> [u8; 2] {
    [[0, 0xff, 0xfe, 0xd8][symbol as usize % 4], [0, 0xff, 0xd7, 4, 0xda][symbol as usize / 4 % 5]]
}

fn check<const P: usize>(
    seed: u64,
    rounds: usize,
    most: usize,
    lens: &[usize],
    bytes_of: fn(u32) -> [u8; P],
) {
    let mut random = Random(seed);
    let mut lanes = COUNTS.map(PendingPairs::<P>::new);
    for round in 0..rounds {
        let most = 1 + random.below(most);
        let mut strings: Vec<(Vec<u32>, Vec<u32>)> =
            (0..most).map(|_| random.pair(lens, [2, 20][round % 2])).collect();
        strings.retain(|(a, b)| a.len().max(b.len()) <= LONGEST);
        // Strings one behind another, as in an array, then each for itself.
        let mut bytes = [const { vec![] }; P];
        let mut place = |s: &[u32]| {
            for &symbol in s {
                bytes.iter_mut().zip(bytes_of(symbol)).for_each(|(bytes, byte)| bytes.push(byte));
            }
            (bytes[0].len() - s.len(), s.len())
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
            let symbols = |(start, len): (usize, usize)| -> Vec<u32> {
                let symbol =
                    |at| bytes.iter().fold(0, |low, bytes| low << 8 | u32::from(bytes[at]));
                (start..start + len).map(symbol).collect()
            };
            let expected: Vec<u32> =
                places.iter().map(|&[a, b]| expected(count, &symbols(a), &symbols(b))).collect();
            for simd in super::forms() {
                let joined = |i: usize| {
                    places[i].map(|(start, len)| {
                        bytes.each_ref().map(|bytes| Text::new(&bytes[start..], len))
                    })
                };
                let found = counted(simd, lanes, places.len(), joined);
                assert_eq!(found, expected, "{count:?} {simd}");
                let apart = |i: usize| {
                    places[i].map(|(start, len)| {
                        bytes.each_ref().map(|bytes| Text::from(&bytes[start..start + len]))
                    })
                };
                let found = counted(simd, lanes, places.len(), apart);
                assert_eq!(found, expected, "{count:?} {simd}");
            }
        }
    }
}

const SHORT: [usize; 9] = [0, 1, 2, 3, 7, 8, 14, 15, 16];
const MIDDLE: [usize; 7] = [15, 16, 17, 20, 30, 31, 32];
const LONG: [usize; 7] = [31, 32, 33, 40, 62, 63, 64];
const MIXED: [usize; 9] = [0, 1, 9, 16, 17, 32, 33, 63, 64];

#[test]
fn pairs_of_each_width_equal_the_textbook() {
    check(71, 60, 150, &SHORT, narrow);
    check(72, 40, 80, &MIDDLE, narrow);
    check(73, 30, 60, &LONG, narrow);
}

#[test]
fn pairs_of_mixed_widths_equal_the_textbook() {
    check(74, 40, 200, &MIXED, narrow);
}

#[test]
fn pairs_of_symbols_of_two_bytes_equal_the_textbook() {
    check(75, 40, 150, &SHORT, wide);
    check(76, 30, 80, &MIDDLE, wide);
    check(77, 20, 60, &LONG, wide);
    check(78, 20, 200, &MIXED, wide);
}
