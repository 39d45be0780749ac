use crate::string::lanes::pairs::{LONGEST, Text};
use crate::string::lanes::{Characters, MOST_BYTES};
use crate::string::rules::tests::Random;

/// A random text: of ASCII alone, or of characters of up to `bytes` bytes.
fn text(random: &mut Random, bytes: usize) -> String {
    let ends = [0x80, 0x800, 0x1_0000, 0x11_0000];
    let longest = [4, 20, LONGEST + 1][random.below(3)];
    let len = random.below(longest);
    let most = 1 + random.below(bytes);
    let character = |_| loop {
        let end = ends[random.below(most)];
        let near = [end - 1 - random.below(3.min(end)), end / 16, random.below(end)];
        if let Some(character) = char::from_u32(near[random.below(3)] as u32) {
            return character;
        }
    };
    (0..len).map(character).collect()
}

#[test]
fn characters_have_their_bytes() {
    let mut random = Random(81);
    let mut characters = Characters::default();
    for round in 0..300 {
        let texts: Vec<String> =
            (0..random.below(80)).map(|_| text(&mut random, 3 + round % 2)).collect();
        let all = texts.concat();
        for simd in super::forms() {
            // Texts lie one behind another, or each for itself.
            let mut start = 0;
            characters.clear();
            let taken: Vec<Text<'_>> = texts
                .iter()
                .map(|text| {
                    start += text.len();
                    match round % 3 {
                        0 => Text::from(text.as_bytes()),
                        _ => Text::new(&all.as_bytes()[start - text.len()..], text.len()),
                    }
                })
                .collect();
            let (first, second) = taken.split_at(taken.len() / 3);
            characters.extend(first);
            characters.extend(second);
            let texts = || texts.iter().enumerate().filter(|(_, text)| text.len() <= MOST_BYTES);
            let is_narrow = texts().all(|(_, text)| text.chars().all(|c| c <= '\u{ffff}'));
            assert_eq!(characters.split(simd), is_narrow);
            for (number, text) in texts() {
                let [low, high] = characters.text(number).map(|text| text.bytes().to_vec());
                let expected: Vec<u32> = text.chars().map(u32::from).collect();
                assert_eq!([low.len(), high.len()], [expected.len(); 2], "{text:?} {simd}");
                for (i, &character) in expected.iter().enumerate().filter(|(_, c)| **c <= 0xffff) {
                    let found = u32::from(low[i]) | u32::from(high[i]) << 8;
                    assert_eq!(found, character, "{text:?} {i} {simd}");
                }
            }
        }
    }
}
