//! Scalars as codes of six bits, by script and frequency.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem::size_of;

use foldhash::fast::FixedState;

use super::page::{Page, script};
use crate::error::Result;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::{Threads, map};

/// The number of codes.
pub(super) const CODES: usize = 64;

/// The most codes of scalars of no script.
const MOST_COMMON: usize = CODES / 2;

/// Scalars that are ASCII.
const ASCII: usize = 128;

/// The code of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code {
    pub code: u8,
    pub page: Page,
}

/// The codes of scalars. Up to 64 scalars of a build side have one each. Of more, frequent scalars of no script,
/// such as digits, have one each, and the letters of each script share the others with those of other scripts:
/// the frequent ones with the rare ones, so that texts of two scripts differ by their codes.
#[derive(Debug)]
pub struct Alphabet {
    ascii: [Code; ASCII],
    others: HashMap<char, Code, FixedState>,
    /// The distinct scalars.
    count: usize,
}

/// A bit for each scalar of a text, the same for some of them: what a text lacks of the bits of another one, it
/// lacks of its scalars.
pub(super) fn scalar_bits(text: &str) -> u64 {
    let bit = |scalar| u32::from(scalar).wrapping_mul(0x9e37_79b1) >> 26;
    text.chars().fold(0, |bits, scalar| bits | 1 << bit(scalar))
}

/// The number of occurrences of each scalar.
struct ScalarCounts {
    ascii: [u64; ASCII],
    others: HashMap<char, u64, FixedState>,
}

impl ScalarCounts {
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

/// The code of a scalar that the build side does not have: any one will do.
fn code_of_stranger(scalar: char) -> Code {
    Code { code: (scalar as usize % CODES) as u8, page: Page::NONE }
}

/// The numbers of occurrences of the scalars of a script: of all together, and of each.
type Counted = (u64, Vec<(char, u64)>);

/// The codes of some scalars, which are ranked from the most frequent on.
fn codes(ranked: &[(char, u64)]) -> Vec<(char, Code)> {
    let code = |code: usize, page| Code { code: code as u8, page };
    if ranked.len() <= CODES {
        return (0..).zip(ranked).map(|(at, &(scalar, _))| (scalar, code(at, Page::ANY))).collect();
    }
    let is_common =
        |(at, (scalar, _)): &(usize, &(char, u64))| *at < CODES && !scalar.is_alphabetic();
    let common = ranked.iter().enumerate().filter(is_common).take(MOST_COMMON);
    let common: Vec<char> = common.map(|(_, &(scalar, _))| scalar).collect();
    let first = common.len();
    let mut codes: Vec<_> =
        (0..).zip(&common).map(|(at, &scalar)| (scalar, code(at, Page::ANY))).collect();
    let mut scripts: HashMap<u32, Counted, FixedState> = HashMap::default();
    for &(scalar, count) in ranked.iter().filter(|(scalar, _)| !common.contains(scalar)) {
        let (total, scalars) = scripts.entry(script(scalar)).or_default();
        *total += count;
        scalars.push((scalar, count));
    }
    let mut scripts: Vec<_> = scripts.into_iter().collect();
    scripts.sort_unstable_by_key(|&(script, (total, _))| (Reverse(total), script));
    // How often the scalars of each code occur.
    let mut loads = [0; CODES];
    for (number, (_, (_, scalars))) in (0..).zip(scripts) {
        let page = Page::of(number);
        let mut free: Vec<usize> = (first..CODES).collect();
        free.sort_by_key(|&code| loads[code]);
        for (at, (scalar, count)) in (0..).zip(scalars) {
            let to = free[at % free.len()];
            let page = if at < free.len() { page } else { Page::NONE };
            loads[to] += count;
            codes.push((scalar, code(to, page)));
        }
    }
    codes
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
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        /// Bytes counted between two looks at the flag.
        const CHECK_EVERY: usize = 1 << 18;
        let counted = map(threads, tasks, |texts| {
            let (mut counts, mut bytes) = (ScalarCounts::new(), CHECK_EVERY);
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
        let mut counts = ScalarCounts::new();
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
        for (scalar, code) in codes(&ranked) {
            match alphabet.ascii.get_mut(scalar as usize) {
                Some(of_ascii) => *of_ascii = code,
                None => {
                    alphabet.others.insert(scalar, code);
                }
            }
        }
        Ok(alphabet)
    }

    /// Whether each scalar has a code of its own.
    pub(super) fn is_small(&self) -> bool {
        self.count <= CODES
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

    /// Writes the codes of a text, one for each scalar, and its page; how many codes there are.
    pub(super) fn encode(&self, text: &str, codes: &mut [u8], to_page: Option<&mut Page>) -> usize {
        let (mut page, mut len) = (Page::ANY, 0);
        for (to, scalar) in codes.iter_mut().zip(text.chars()) {
            let code = self.code(scalar);
            page = page.and(code.page);
            *to = code.code;
            len += 1;
        }
        if let Some(to_page) = to_page {
            *to_page = page;
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

    fn alphabet(texts: &[&str]) -> Alphabet {
        let cancel = CancelFlag::default();
        Alphabet::of(vec![texts.iter().copied()], Threads::small(1), &cancel).unwrap()
    }

    #[test]
    fn few_scalars_have_a_code_each() {
        let letters: String = ('\u{4e00}'..'\u{4e3e}').chain("e1".chars()).collect();
        let few = alphabet(&[&letters, "eee", "e1"]);
        assert_eq!(few.len(), 64);
        let mut seen = [0; CODES];
        for scalar in letters.chars() {
            assert_eq!(few.code(scalar).page, Page::ANY);
            seen[usize::from(few.code(scalar).code)] += 1;
        }
        assert_eq!(seen, [1; CODES]);
        assert!(['z', 'é'].map(|stranger| few.code(stranger).page) == [Page::NONE; 2]);
    }

    #[test]
    fn codes_tell_the_scalars_of_a_script_apart() {
        let latin: String = ('a'..='z').chain('à'..='ý').collect();
        let cyrillic: String = ('а'..='я').collect();
        let han: String = ('\u{4e00}'..'\u{4e80}').collect();
        let texts = [&latin, &latin, &cyrillic, &han, "2026 - 11"];
        let many = alphabet(&texts);
        let halves = texts.map(std::iter::once).into_iter().rev().collect();
        let same = Alphabet::of(halves, Threads::small(3), &CancelFlag::default()).unwrap();
        let mut pages = vec![];
        for text in texts {
            let mut of_text: HashMap<u8, Vec<char>> = HashMap::new();
            for scalar in text.chars() {
                let code = many.code(scalar);
                assert_eq!(code, same.code(scalar), "{scalar}");
                if code.page == Page::NONE {
                    continue;
                }
                let of_code = of_text.entry(code.code).or_default();
                if !of_code.contains(&scalar) {
                    of_code.push(scalar);
                }
                pages.push((scalar, code));
            }
            assert!(of_text.values().all(|scalars| scalars.len() == 1), "{of_text:?}");
        }
        let page = |text: &str| many.encode_alone(text).1;
        assert_eq!(page(""), Page::ANY);
        assert_eq!(page("11 -"), Page::ANY);
        assert!(page("abc 1").tells(page("2 zyx")) && page("эта").tells(page("и та")));
        assert!(page("э").tells(page("1")) && !page("э").tells(page("a")));
        assert!(!page("эa").tells(page("эa")) && !page(&han).tells(page("1")));
        // A digit has its code alone.
        let digit = many.code('1').code;
        assert!(pages.iter().all(|(scalar, code)| *scalar == '1' || code.code != digit));
    }

    #[test]
    fn equal_pages_and_codes_are_equal_texts() {
        let scripts =
            ["abcdefgh", "абвгдежз", "αβγδεζηθ", "אבגדהוזח", "0123 -'.", "漢字仮名交文中国"];
        let fill: String = ('a'..='z').chain('а'..='я').chain('\u{4e00}'..'\u{4f00}').collect();
        let many = alphabet(&[&scripts.concat(), &fill]);
        let scalars: Vec<char> = scripts.concat().chars().chain(fill.chars()).collect();
        let mut told = 0;
        for &a in &scalars {
            for &b in &scalars {
                let ((of_a, page), (of_b, other)) =
                    (many.encode_alone(&a.to_string()), many.encode_alone(&b.to_string()));
                if page.tells(other) {
                    told += 1;
                    assert_eq!(a == b, of_a == of_b, "{a} {b}");
                }
            }
        }
        assert!(told > 1_000);
    }

    impl Alphabet {
        fn encode_alone(&self, text: &str) -> (Vec<u8>, Page) {
            let (mut codes, mut page) = (vec![0; text.len()], Page::ANY);
            let len = self.encode(text, &mut codes, Some(&mut page));
            codes.truncate(len);
            (codes, page)
        }
    }
}
