//! Scalars as codes of six bits, by frequency.

use std::collections::HashMap;
use std::mem::size_of;

use datafusion::common::Result;
use foldhash::fast::FixedState;

use crate::util::cancel::CancelFlag;
use crate::util::parallel::map;

/// The number of codes.
pub(super) const CODES: u32 = 64;

/// Scalars that are ASCII.
const ASCII: usize = 128;

/// The code of a scalar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Code {
    pub code: u8,
    /// Whether other scalars of the alphabet may have the code.
    pub is_shared: bool,
}

/// The codes of scalars: the 64 most frequent ones of a build side have one each, and the others share
/// these. Two scalars of different codes differ; two of one code are equal unless one of them is shared.
#[derive(Debug)]
pub(super) struct Alphabet {
    ascii: [Code; ASCII],
    others: HashMap<char, Code, FixedState>,
    /// The distinct scalars.
    count: usize,
}

/// How often each scalar occurs.
struct Counts {
    ascii: [u64; ASCII],
    others: HashMap<char, u64, FixedState>,
}

impl Counts {
    fn new() -> Self {
        Self { ascii: [0; ASCII], others: HashMap::default() }
    }

    fn add(&mut self, text: &str) {
        for scalar in text.chars() {
            match self.ascii.get_mut(scalar as usize) {
                Some(count) => *count += 1,
                None => *self.others.entry(scalar).or_default() += 1,
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.ascii.iter_mut().zip(other.ascii).for_each(|(count, more)| *count += more);
        for (scalar, more) in other.others {
            *self.others.entry(scalar).or_default() += more;
        }
    }
}

/// The code of a scalar that the build side does not have: any one will do, and it is shared.
fn code_of_stranger(scalar: char) -> Code {
    Code { code: (u32::from(scalar) % CODES) as u8, is_shared: true }
}

impl Alphabet {
    /// The alphabet of some texts, those of each task counted by a thread of its own. It depends on what
    /// the texts are, not on their order.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(super) fn of<'a, T: Iterator<Item = &'a str> + Send>(
        tasks: Vec<T>,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        /// Bytes counted between two looks at the flag.
        const CHECK_EVERY: usize = 1 << 18;
        let counted = map(threads, tasks, |texts| {
            let (mut counts, mut bytes) = (Counts::new(), CHECK_EVERY);
            for text in texts {
                bytes += text.len();
                if bytes >= CHECK_EVERY {
                    cancel.check()?;
                    bytes = 0;
                }
                counts.add(text);
            }
            Ok(counts)
        })?;
        let mut counts = Counts::new();
        counted.into_iter().for_each(|more| counts.merge(more));
        let ascii = (0_u8..).zip(counts.ascii).map(|(byte, count)| (char::from(byte), count));
        let mut ranked: Vec<(char, u64)> =
            ascii.filter(|(_, count)| *count > 0).chain(counts.others).collect();
        ranked.sort_unstable_by_key(|&(scalar, count)| (u64::MAX - count, scalar));
        let mut alphabet = Self {
            ascii: std::array::from_fn(|byte| code_of_stranger(char::from(byte as u8))),
            others: HashMap::with_capacity_and_hasher(ranked.len(), FixedState::default()),
            count: ranked.len(),
        };
        for (rank, (scalar, _)) in (0..).zip(ranked) {
            let code = Code { code: (rank % CODES) as u8, is_shared: rank >= CODES };
            match alphabet.ascii.get_mut(scalar as usize) {
                Some(of_ascii) => *of_ascii = code,
                None => {
                    alphabet.others.insert(scalar, code);
                }
            }
        }
        Ok(alphabet)
    }

    /// The number of distinct scalars.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn code(&self, scalar: char) -> Code {
        match self.ascii.get(scalar as usize) {
            Some(code) => *code,
            None => self.others.get(&scalar).copied().unwrap_or_else(|| code_of_stranger(scalar)),
        }
    }

    /// Writes the codes of a text, one for each scalar, and whether one of them is shared; how many
    /// there are.
    pub(super) fn encode(&self, text: &str, codes: &mut [u8], shared: Option<&mut bool>) -> usize {
        let (mut is_shared, mut len) = (false, 0);
        for (to, scalar) in codes.iter_mut().zip(text.chars()) {
            let code = self.code(scalar);
            is_shared |= code.is_shared;
            *to = code.code;
            len += 1;
        }
        if let Some(shared) = shared {
            *shared = is_shared;
        }
        len
    }

    /// The bytes allocated.
    pub(super) fn size_in_bytes(&self) -> usize {
        self.others.capacity() * (size_of::<(char, Code)>() + 1) + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_scalars_have_codes_of_their_own() {
        let rare: String = ('\u{4e00}'..'\u{4e80}').collect();
        let texts = ["eee", "ee tt", rare.as_str()];
        let cancel = CancelFlag::default();
        let one = Alphabet::of(vec![texts.into_iter()], 1, &cancel).unwrap();
        let split = texts.iter().rev().map(|text| std::iter::once(*text)).collect();
        let other = Alphabet::of(split, 3, &cancel).unwrap();
        assert_eq!(one.len(), 3 + 128);
        let mut seen = [0; 64];
        for scalar in ['e', 't', ' '].into_iter().chain(rare.chars()) {
            let code = one.code(scalar);
            assert_eq!(code, other.code(scalar), "{scalar}");
            seen[usize::from(code.code)] += usize::from(!code.is_shared);
        }
        assert_eq!(seen, [1; 64]);
        assert_eq!(one.code('e'), Code { code: 0, is_shared: false });
        assert!(one.code('z').is_shared && one.code('é').is_shared);
        let (mut codes, mut shared) = ([0; 8], [true; 2]);
        assert_eq!(one.encode("tete", &mut codes, Some(&mut shared[0])), 4);
        assert_eq!(one.encode("teté", &mut codes[4..], Some(&mut shared[1])), 4);
        assert_eq!(shared, [false, true]);
        assert_eq!(codes[..3], codes[4..7]);
    }
}
