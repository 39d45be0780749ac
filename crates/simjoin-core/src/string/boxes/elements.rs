//! The choice of the (code, occurrence) elements that have a bit in signatures.

use std::collections::HashMap;
use std::ops::Range;

use super::{Codes, ITEMS};
use crate::string::lanes::CODES;
use crate::string::rules::{Cancelled, PREFIX};

/// Occurrences of a code that are told apart.
const OCCURRENCES: usize = 16;

/// Lengths of fewer strings share one choice of elements.
const OWN_CHOICE: usize = 512;

/// For each element its bit, or [`NO_BIT`].
type Bits = [u8; CODES * OCCURRENCES];

const NO_BIT: u8 = 64;

/// The elements of each run that have bits: the 64 of the greatest variance among strings of its
/// length, so that a probe needs one signature for all runs of a length.
///
/// They do not depend on the order of the items within a run.
#[derive(Debug, Clone)]
pub struct Elements {
    choices: Vec<Bits>,
    /// The choice of each run.
    of_run: Vec<u32>,
    /// Whether strings of a run are in the order of their first codes before that of their elements.
    by_prefix: bool,
}

impl Elements {
    /// Chooses elements for runs: run `r` has the items `runs[r]..runs[r + 1]`. `by_prefix` is for functions
    /// by which strings are the more alike, the longer their common prefix is.
    pub fn choose(
        codes: Codes<'_>,
        runs: &[u32],
        by_prefix: bool,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<Self, Cancelled> {
        let items = |run: &[u32]| run[0] as usize..run[1] as usize;
        let len = |run: &[u32]| codes.string(run[0] as usize).len();
        let filled = || runs.windows(2).filter(|run| run[0] < run[1]);
        let mut strings: HashMap<usize, usize> = HashMap::new();
        for run in filled() {
            *strings.entry(len(run)).or_default() += items(run).len();
        }
        // Choice 0 is that of all lengths with few strings.
        let mut counts = vec![ElementCounts::new()];
        let mut choices: HashMap<usize, u32> = HashMap::new();
        for run in filled() {
            let choice = match strings[&len(run)] {
                0..OWN_CHOICE => 0,
                _ => *choices.entry(len(run)).or_insert_with(|| {
                    counts.push(ElementCounts::new());
                    counts.len() as u32 - 1
                }),
            };
            counts[choice as usize].add(codes, items(run), stop)?;
        }
        let of_run = runs.windows(2).map(|run| {
            let own = (run[0] < run[1]).then(|| choices.get(&len(run)).copied());
            own.flatten().unwrap_or(0)
        });
        let of_run = of_run.collect();
        let choices = counts.iter().map(ElementCounts::choose).collect();
        Ok(Self { choices, of_run, by_prefix })
    }

    /// Whether boxes know the first codes of their strings.
    pub(super) fn by_prefix(&self) -> bool {
        self.by_prefix
    }

    /// By element, the bit that it has in the signatures of a run, 64 where it has none. Element
    /// `16 * code + n` is the occurrence of a code behind `n` others.
    pub fn bits(&self, run: usize) -> &[u8] {
        &self.choices[self.of_run[run] as usize]
    }

    /// The number of the choice that a run has, which other runs may have as well.
    pub(super) fn choice(&self, run: usize) -> u32 {
        self.of_run[run]
    }

    /// The signature of a string by a choice.
    #[inline]
    pub(super) fn signature(&self, choice: u32, string: &[u8]) -> u64 {
        let bits = &self.choices[choice as usize];
        let mut signature = 0;
        each_element(string, |element| {
            let bit = bits[element];
            signature |= u64::from(bit < NO_BIT) << (bit % NO_BIT);
        });
        signature
    }

    /// The bytes that the elements hold beyond their own size.
    pub(crate) fn bytes(&self) -> usize {
        self.choices.capacity() * size_of::<Bits>() + 4 * self.of_run.capacity()
    }
}

/// The codes of a prefix that boxes tell apart, as sets of bits: each code with its complement, so that two
/// are equal if the bits of one are among those of the other. A string that ends before has none.
#[inline]
pub(super) fn prefix_bits(string: &[u8]) -> u64 {
    string.iter().take(PREFIX).enumerate().fold(0, |bits, (place, &code)| {
        let code = u64::from(code) % CODES as u64;
        bits | (code | (!code % CODES as u64) << 6) << (PLACE_BITS as usize * place)
    })
}

/// The bits of a code in a prefix.
pub(super) const PLACE_BITS: u32 = 12;

/// Calls `element` for each element of a string, but for occurrences beyond those told apart.
#[inline(always)]
fn each_element(string: &[u8], mut element: impl FnMut(usize)) {
    let mut seen = [0_u8; CODES];
    for &code in string {
        let code = usize::from(code) % CODES;
        let occurrence = usize::from(seen[code]);
        if occurrence < OCCURRENCES {
            seen[code] += 1;
            element(code * OCCURRENCES + occurrence);
        }
    }
}

/// The numbers of strings that hold each element.
struct ElementCounts {
    strings: usize,
    of: Vec<u32>,
}

impl ElementCounts {
    fn new() -> Self {
        Self { strings: 0, of: vec![0; CODES * OCCURRENCES] }
    }

    fn add(
        &mut self,
        codes: Codes<'_>,
        items: Range<usize>,
        stop: &mut impl FnMut() -> bool,
    ) -> Result<(), Cancelled> {
        for item in items {
            if item.is_multiple_of(ITEMS) && stop() {
                return Err(Cancelled);
            }
            self.strings += 1;
            each_element(codes.string(item), |element| self.of[element] += 1);
        }
        Ok(())
    }

    /// Gives bits to the elements of the greatest variance, then to those that all strings have.
    fn choose(&self) -> Bits {
        let variance = |count: u32| u64::from(count) * (self.strings as u64 - u64::from(count));
        let mut held: Vec<usize> = (0..self.of.len()).filter(|&e| self.of[e] > 0).collect();
        held.sort_unstable_by_key(|&e| (std::cmp::Reverse(variance(self.of[e])), e));
        let mut bits = [NO_BIT; CODES * OCCURRENCES];
        for (bit, element) in held.into_iter().take(64).enumerate() {
            bits[element] = bit as u8;
        }
        bits
    }
}
