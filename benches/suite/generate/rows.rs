//! The rows of a generated data set, one after the other.

use std::collections::HashSet;

use super::collection::{Collection, Content};
use super::random::Random;
use super::sizes::Sizes;
use super::text::{self, Titles};
use super::zipf::Zipf;

/// Copies are taken from about as many earlier rows.
const RING: usize = 8192;

/// How much a copy differs, in shares of its tokens; one in five is exact.
const TOKEN_NOISE: &[f64] = &[0.0, 0.03, 0.08, 0.15, 0.3];
/// The same for the characters of a text: a character is part of two 2-grams.
const TEXT_NOISE: &[f64] = &[0.0, 0.01, 0.03, 0.08, 0.15];

/// A row of either kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    Tokens(Vec<i32>),
    Text(String),
}

enum Source {
    Tokens { sizes: Sizes, tokens: Zipf, names: Names, common: f64 },
    Titles(Box<Titles>),
}

/// Draws rows.
pub struct Rows {
    source: Source,
    copies: f64,
    random: Random,
    ring: Vec<Row>,
    /// The tokens of the set that is being drawn.
    seen: HashSet<u64>,
}

impl Rows {
    pub fn new(collection: &Collection, copies: f64, seed: u64) -> Self {
        let source = match (collection.content, collection.sizes(), collection.tokens()) {
            (Content::Tokens { common, .. }, Some(sizes), Some(tokens)) => {
                Source::Tokens { sizes, tokens, names: Names::new(tokens.len()), common }
            }
            _ => Source::Titles(Box::new(Titles::new())),
        };
        let random = Random::new(seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1));
        Self { source, copies, random, ring: vec![], seen: HashSet::new() }
    }

    pub fn is_text(&self) -> bool {
        matches!(self.source, Source::Titles(_))
    }

    pub fn next(&mut self) -> Row {
        if !self.ring.is_empty() && self.random.chance(self.copies) {
            let at = self.random.below(self.ring.len());
            return self.copy(at);
        }
        let row = match &self.source {
            Source::Titles(titles) => {
                let mut text = String::new();
                titles.draw(&mut self.random, &mut text);
                Row::Text(text)
            }
            Source::Tokens { sizes, tokens, names, common } => {
                let size = sizes.draw(&mut self.random);
                self.seen.clear();
                let mut list = Vec::with_capacity(size);
                // Draws nothing where no token is common, so that data stays as it was.
                if *common > 0.0 && self.random.chance(*common) {
                    list.push(names.of(0) as i32);
                    self.seen.insert(names.of(0));
                }
                extend_distinct(&mut list, size, tokens, names, &mut self.seen, &mut self.random);
                Row::Tokens(list)
            }
        };
        if self.copies > 0.0 {
            match self.ring.len() < RING {
                true => self.ring.push(row.clone()),
                false => {
                    let at = self.random.below(RING);
                    self.ring[at] = row.clone();
                }
            }
        }
        row
    }

    fn copy(&mut self, at: usize) -> Row {
        match (&self.ring[at], &self.source) {
            (Row::Text(text), _) => {
                let noise = *self.random.pick(TEXT_NOISE);
                Row::Text(text::perturb(text, noise, &mut self.random))
            }
            (Row::Tokens(original), Source::Tokens { tokens, names, .. }) => {
                let noise = *self.random.pick(TOKEN_NOISE);
                let mut list = original.clone();
                list.retain(|_| !self.random.chance(noise));
                self.seen.clear();
                self.seen.extend(list.iter().map(|&token| token as u64));
                let size = original.len();
                extend_distinct(&mut list, size, tokens, names, &mut self.seen, &mut self.random);
                Row::Tokens(list)
            }
            (Row::Tokens(original), Source::Titles(_)) => Row::Tokens(original.clone()),
        }
    }
}

/// Draws tokens until the list has `size` different ones, or the universe is used up.
fn extend_distinct(
    list: &mut Vec<i32>,
    size: usize,
    tokens: &Zipf,
    names: &Names,
    seen: &mut HashSet<u64>,
    random: &mut Random,
) {
    let size = size.min(tokens.len() as usize);
    let mut failures = 0;
    while list.len() < size {
        // In a large set the frequent tokens are soon all there: then any token will do.
        let rank = match failures < 64 {
            true => tokens.draw(random),
            false => random.below(tokens.len() as usize) as u64,
        };
        let name = names.of(rank);
        match seen.insert(name) {
            true => {
                list.push(name as i32);
                failures = 0;
            }
            false => failures += 1,
        }
    }
}

/// Scatters ranks over token numbers, so that these tell nothing of the frequency: a
/// permutation of `0..universe`.
struct Names {
    universe: u64,
    factor: u64,
}

impl Names {
    fn new(universe: u64) -> Self {
        // The golden section scatters well; the next number without a common divisor permutes.
        let mut factor = ((universe as f64 * 0.618_033_988_749) as u64).max(1);
        while gcd(factor, universe) != 1 {
            factor += 1;
        }
        Self { universe, factor }
    }

    fn of(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.factor) % u128::from(self.universe)) as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
