use super::super::{Scratch, jaro, jaro_winkler};
use super::{ALPHABETS, Random, textbook};

fn chars(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

#[test]
fn similarities_equal_the_textbook_bit_for_bit() {
    let mut random = Random(31);
    let mut scratch = Scratch::new();
    for case in 0..30_000 {
        let lens: &[usize] = match case % 5 {
            0 => &[0, 1, 2, 3, 4],
            4 => &[63, 64, 65, 66, 127, 128, 129, 200],
            _ => &[5, 6, 7, 8, 9, 12, 16, 20, 31, 64],
        };
        let (a, b) = random.pair(lens, ALPHABETS[case % 3]);
        let (j, w) = (jaro(&mut scratch, &a, &b), jaro_winkler(&mut scratch, &a, &b));
        assert_eq!(j, textbook::jaro(&a, &b), "{a:?} {b:?}");
        assert_eq!(w, textbook::jaro_winkler(&a, &b), "{a:?} {b:?}");
    }
}

/// The expected values are those of rapidfuzz 3.14.6, and of DuckDB 2.0.1 but for two empty strings, which
/// are 0 there.
#[test]
fn similarities_equal_those_of_rapidfuzz() {
    let mut scratch = Scratch::new();
    for (a, b, expected_jaro, expected_winkler) in [
        ("", "", 1.0, 1.0),
        ("", "a", 0.0, 0.0),
        ("a", "a", 1.0, 1.0),
        ("a", "b", 0.0, 0.0),
        ("ab", "ba", 0.0, 0.0),
        ("MARTHA", "MARHTA", 0.9444444444444445, 0.9611111111111111),
        ("DIXON", "DICKSONX", 0.7666666666666666, 0.8133333333333332),
        ("Angela Myers", "Angelica Palmerino", 0.75, 0.85),
    ] {
        let (a, b) = (chars(a), chars(b));
        assert_eq!(jaro(&mut scratch, &a, &b), expected_jaro, "{a:?} {b:?}");
        assert_eq!(jaro_winkler(&mut scratch, &a, &b), expected_winkler, "{a:?} {b:?}");
    }
}
