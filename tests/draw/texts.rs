//! Texts for tests, drawn at random.

use rand::Rng;
use rand::rngs::StdRng;

/// The characters and the lengths of random texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Two letters, up to seven of them: texts are often equal, or empty.
    Few,
    /// Words of small letters.
    Words,
    /// Characters of many scripts, combining marks among them: more than there are codes.
    Unicode,
    /// Words of one script of several, with more letters than there are codes.
    Scripts,
    /// Texts about as long as a word of the processor has bits, or twice as long.
    Long,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Few, Self::Words, Self::Unicode, Self::Scripts, Self::Long];
}

/// The first letters of some scripts.
const SCRIPTS: [char; 4] = ['a', 'а', 'α', 'א'];

/// A letter of a script or, seldom, a digit.
fn letter(rng: &mut StdRng, first: char) -> char {
    let (first, count) = if rng.random_bool(0.1) { ('0', 4) } else { (first, 24) };
    char::from_u32(u32::from(first) + rng.random_range(0..count)).unwrap()
}

pub fn character(rng: &mut StdRng, kind: Kind) -> char {
    let any = |rng: &mut StdRng, first: char, count: u32| {
        char::from_u32(u32::from(first) + rng.random_range(0..count)).unwrap()
    };
    match kind {
        Kind::Few => any(rng, 'a', 2),
        Kind::Words | Kind::Long => any(rng, 'a', 26),
        Kind::Scripts => {
            let first = SCRIPTS[rng.random_range(0..SCRIPTS.len())];
            letter(rng, first)
        }
        Kind::Unicode => match rng.random_range(0..6) {
            0 => any(rng, 'a', 3),
            1 => any(rng, '\u{4e00}', 90),
            2 => any(rng, 'À', 30),
            3 => any(rng, '\u{300}', 4),
            4 => any(rng, '😀', 5),
            _ => any(rng, 'А', 20),
        },
    }
}

/// A random text.
pub fn text(rng: &mut StdRng, kind: Kind) -> String {
    let len = match kind {
        Kind::Few => rng.random_range(0..8),
        Kind::Words => rng.random_range(0..14),
        Kind::Unicode | Kind::Scripts => rng.random_range(0..10),
        Kind::Long => match rng.random_range(0..3) {
            0 => rng.random_range(60..68),
            1 => rng.random_range(120..140),
            _ => rng.random_range(0..80),
        },
    };
    if kind == Kind::Scripts {
        let first = SCRIPTS[rng.random_range(0..SCRIPTS.len())];
        return (0..len).map(|_| letter(rng, first)).collect();
    }
    (0..len).map(|_| character(rng, kind)).collect()
}

/// A text after some edits, exchanges of neighbours among them.
pub fn edited(rng: &mut StdRng, kind: Kind, text: &str, edits: u32) -> String {
    let mut scalars: Vec<char> = text.chars().collect();
    for _ in 0..edits {
        let place = rng.random_range(0..=scalars.len());
        match rng.random_range(0..4) {
            0 => scalars.insert(place, character(rng, kind)),
            1 if place < scalars.len() => {
                scalars.remove(place);
            }
            2 if place + 1 < scalars.len() => scalars.swap(place, place + 1),
            _ if place < scalars.len() => scalars[place] = character(rng, kind),
            _ => {}
        }
    }
    scalars.into_iter().collect()
}

/// How many cases a test draws: `usual`, or as many as the environment asks for.
pub fn rounds(usual: usize) -> usize {
    let cases = std::env::var("SIMJOIN_TEST_CASES").ok().and_then(|v| v.parse::<usize>().ok());
    cases.map_or(usual, |cases| usual / 8 * cases)
}

/// A test's own seed, or another one for each number in `SIMJOIN_TEST_SEED`.
pub fn seed(own: u64) -> u64 {
    let more = std::env::var("SIMJOIN_TEST_SEED").ok().and_then(|v| v.parse::<u64>().ok());
    own + 1000 * more.unwrap_or_default()
}
