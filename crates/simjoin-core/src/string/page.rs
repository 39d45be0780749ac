//! Pages: which texts codes tell apart.

/// The scalars of a text among which each code stands for one: those of a script, and those of no script. Codes
/// tell whether two texts of pages that [agree](Page::tells) are equal, scalar by scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Page(u8);

impl Page {
    /// The page of scalars whose codes no others have, with which all pages agree.
    pub(super) const ANY: Self = Self(0);
    /// No page: codes may stand for others.
    pub(super) const NONE: Self = Self(u8::MAX);

    /// A page by its number; no page behind the last one.
    pub(super) fn of(number: u32) -> Self {
        match u8::try_from(number) {
            Ok(number) if number < u8::MAX - 1 => Self(number + 1),
            _ => Self::NONE,
        }
    }

    /// The number of the page, as kernels read it.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The page of the scalars of both.
    #[inline(always)]
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::ANY, page) | (page, Self::ANY) => page,
            (page, same) if page == same => page,
            _ => Self::NONE,
        }
    }

    /// Whether codes tell the scalars of this page and of another apart.
    #[inline(always)]
    pub(super) fn tells(self, other: Self) -> bool {
        self.and(other) != Self::NONE
    }
}

/// A number of the script of a scalar: scalars that stand in one text are mostly of one.
pub(super) fn script(scalar: char) -> u32 {
    /// Scripts that are not one block of 128 scalars.
    const LATIN: u32 = 0;
    const GREEK: u32 = 0x37f;
    const CYRILLIC: u32 = 0x400;
    const ARMENIAN: u32 = 0x530;
    const ARABIC: u32 = 0x600;
    const GEORGIAN: u32 = 0x10a0;
    const HANGUL: u32 = 0x1100;
    const EAST_ASIAN: u32 = 0x3000;
    match u32::from(scalar) {
        0..=0x2ff | 0x1e00..=0x1eff | 0xff21..=0xff5a => LATIN,
        0x370..=0x3ff | 0x1f00..=0x1fff => GREEK,
        0x400..=0x52f | 0x1c80..=0x1c8f | 0x2de0..=0x2dff => CYRILLIC,
        0x530..=0x58f => ARMENIAN,
        0x600..=0x6ff | 0x750..=0x77f | 0xfb50..=0xfdff | 0xfe70..=0xfeff => ARABIC,
        0x10a0..=0x10ff | 0x1c90..=0x1cbf | 0x2d00..=0x2d2f => GEORGIAN,
        0x1100..=0x11ff | 0x3130..=0x318f | 0xac00..=0xd7ff => HANGUL,
        0x2e80..=0x312f | 0x3190..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff => EAST_ASIAN,
        other => 0x10000 + (other >> 7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_agree_with_themselves_and_with_any() {
        let (one, two, none) = (Page::of(0), Page::of(1), Page::NONE);
        assert!(one.tells(one) && one.tells(Page::ANY) && Page::ANY.tells(Page::ANY));
        assert!(!one.tells(two) && !none.tells(none) && !none.tells(Page::ANY));
        assert_eq!([Page::of(253), Page::of(254), Page::of(1000)], [Page(254), none, none]);
    }

    #[test]
    fn letters_of_a_language_are_of_one_script() {
        let words =
            ["zażółć", "Ελλάδα", "Россия", "հայերեն", "עברית", "العربية", "ქართული", "한국어"];
        for word in words {
            let first = script(word.chars().next().unwrap());
            assert!(word.chars().all(|scalar| script(scalar) == first), "{word}");
        }
        let mut scripts: Vec<_> = words.map(|word| script(word.chars().next().unwrap())).into();
        scripts.push(script('字'));
        scripts.sort_unstable();
        scripts.dedup();
        assert_eq!(scripts.len(), 9);
        assert_eq!(script('か'), script('字'));
    }
}
