//! One text for all the spellings of it that differ in form, in accents or in case.

use std::borrow::Cow;
use std::fmt;

use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use unicase::UniCase;

use super::latin;

/// A normal form of Unicode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NormalForm {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl NormalForm {
    const ALL: [Self; 4] = [Self::Nfc, Self::Nfd, Self::Nfkc, Self::Nfkd];

    /// The form of a name in any case.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.to_string().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for NormalForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nfc => "NFC",
            Self::Nfd => "NFD",
            Self::Nfkc => "NFKC",
            Self::Nfkd => "NFKD",
        })
    }
}

static NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
static NFKC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfkc();
static NFD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfd();
static NFKD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfkd();
static CLASSES: CanonicalCombiningClassMapBorrowed<'static> =
    CanonicalCombiningClassMapBorrowed::new();

/// The text in a normal form.
pub(super) fn normalize(text: &str, form: NormalForm) -> Cow<'_, str> {
    match form {
        _ if text.is_ascii() => Cow::Borrowed(text),
        NormalForm::Nfc => NFC.normalize(text),
        NormalForm::Nfd => NFD.normalize(text),
        NormalForm::Nfkc => NFKC.normalize(text),
        NormalForm::Nfkd => NFKD.normalize(text),
    }
}

/// The text without accents, in normal form C: without the marks that [`is_accent`] names, and with plain
/// letters for [Latin ones](latin) that Unicode does not decompose.
pub(super) fn unaccent(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut bare = String::with_capacity(text.len());
    for c in NFD.normalize_iter(text.chars()).filter(|c| !is_accent(*c)) {
        match latin::plain(c) {
            Some(letters) => bare.push_str(letters),
            None => bare.push(c),
        }
    }
    match NFC.normalize(&bare) {
        Cow::Borrowed(_) => Cow::Owned(bare),
        Cow::Owned(composed) => Cow::Owned(composed),
    }
}

/// Whether a mark is an accent, by its canonical combining class: marks that stand above or below letters
/// or are attached to them (202 to 240), and the points of Hebrew, Arabic and Syriac (10 to 36), without which
/// these are usually written. The vowel signs, tone marks, viramas and nuktas of South and Southeast Asia, and
/// the voicing marks of kana, spell other words, and have other classes.
fn is_accent(c: char) -> bool {
    matches!(CLASSES.get_u8(c), 10..=36 | 202..=240)
}

/// The text by Unicode's full case folding, which is the same for texts that differ in case alone.
pub(super) fn casefold(text: &str) -> Cow<'_, str> {
    match text.is_ascii() {
        true if !text.bytes().any(|byte| byte.is_ascii_uppercase()) => Cow::Borrowed(text),
        true => Cow::Owned(text.to_ascii_lowercase()),
        false => Cow::Owned(UniCase::unicode(text).to_folded_case()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_names_in_any_case() {
        for form in NormalForm::ALL {
            assert_eq!(NormalForm::named(&form.to_string().to_lowercase()), Some(form));
        }
        assert_eq!(NormalForm::named("NFX"), None);
        assert_eq!(NormalForm::named(""), None);
    }

    #[test]
    fn normal_forms_are_those_of_unicode() {
        for (text, nfc, nfd, nfkc, nfkd) in [
            ("abc", "abc", "abc", "abc", "abc"),
            ("é", "é", "e\u{301}", "é", "e\u{301}"),
            ("e\u{301}", "é", "e\u{301}", "é", "e\u{301}"),
            // Marks of one base in their order.
            (
                "q\u{307}\u{323}",
                "q\u{323}\u{307}",
                "q\u{323}\u{307}",
                "q\u{323}\u{307}",
                "q\u{323}\u{307}",
            ),
            ("ﬁ²Ａ①", "ﬁ²Ａ①", "ﬁ²Ａ①", "fi2A1", "fi2A1"),
            ("\u{212b}", "Å", "A\u{30a}", "Å", "A\u{30a}"),
            ("한", "한", "\u{1112}\u{1161}\u{11ab}", "한", "\u{1112}\u{1161}\u{11ab}"),
            ("ｶﾞ", "ｶﾞ", "ｶﾞ", "ガ", "カ\u{3099}"),
        ] {
            let forms = NormalForm::ALL.map(|form| normalize(text, form).into_owned());
            assert_eq!(forms, [nfc, nfd, nfkc, nfkd], "{text:?}");
        }
    }

    #[test]
    fn accents_are_dropped_and_other_marks_are_not() {
        for (text, expected) in [
            ("plain", "plain"),
            ("Café cafe\u{301} Ngọc Nguyễn", "Cafe cafe Ngoc Nguyen"),
            ("Łukasz Møller Đặng Straße STRASSE ẞ", "Lukasz Moller Dang Strasse STRASSE SS"),
            ("Æsir œuvre Þór Ðór ǿ Kılıç İzmir", "AEsir oeuvre THor Dor o Kilic Izmir"),
            ("Ελλάδα ᾠδή", "Ελλαδα ωδη"),
            ("Ёлкин йод", "Елкин иод"),
            ("שָׁלוֹם عَرَبِيّ", "שלום عربي"),
            // Marks that spell vowels, tones and voiced sounds.
            ("सत्य हिन्दी ज़", "सत्य हिन्दी ज़"),
            ("ป้ารัตน์ ガギグ ベトナム", "ป้ารัตน์ ガギグ ベトナム"),
            ("ស្រ្តី မြန်မာ 한국어 中文", "ស្រ្តី မြန်မာ 한국어 中文"),
            ("😀 ½ ≠", "😀 ½ ≠"),
        ] {
            let expected = normalize(expected, NormalForm::Nfc);
            assert_eq!(unaccent(text), expected, "{text}");
            assert_eq!(unaccent(&normalize(text, NormalForm::Nfd)), expected, "{text}");
            assert_eq!(unaccent(&expected), expected, "{text}: once is enough");
        }
    }

    #[test]
    fn cases_are_folded() {
        for (text, expected) in [
            ("ABC abc", "abc abc"),
            ("abc", "abc"),
            ("Straße STRASSE ẞ", "strasse strasse ss"),
            ("ΟΔΟΣ οδος", "οδοσ οδοσ"),
            ("İ ı I", "i\u{307} ı i"),
            ("ǅ ﬃ", "ǆ ffi"),
            ("Ꭰ ꭰ", "Ꭰ Ꭰ"),
            ("日本 ЁЖ", "日本 ёж"),
        ] {
            assert_eq!(casefold(text), expected, "{text}");
            assert_eq!(casefold(expected), expected, "{text}: once is enough");
        }
        // Texts that differ in case alone.
        for text in ["Straße", "ΟΔΟΣ'Α", "İzmir ǅ", "ﬃ ŉ Ꭰ"] {
            assert_eq!(casefold(&text.to_lowercase()), casefold(text), "{text}");
        }
        assert_eq!(casefold(&"Straße".to_uppercase()), casefold("Straße"));
    }

    /// Each of the characters, alone and before a mark, against the properties that the forms have.
    #[test]
    fn forms_and_folds_of_characters_are_stable() {
        // Of the large blocks of characters that Unicode treats alike, a part.
        let is_alike = |c: char| {
            matches!(c, '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{e000}'..='\u{f8ff}'
                | '\u{12000}'..='\u{1cfff}' | '\u{20000}'..)
        };
        let all = (0..=0x10_ffff).filter_map(char::from_u32);
        for c in all.filter(|c| !is_alike(*c) || (*c as u32).is_multiple_of(61)) {
            let text = format!("{c}\u{301}");
            for form in NormalForm::ALL {
                let normal = normalize(&text, form);
                assert_eq!(normalize(&normal, form), normal, "{c:?} {form}");
            }
            let nfd = normalize(&text, NormalForm::Nfd);
            assert_eq!(
                normalize(&nfd, NormalForm::Nfc),
                normalize(&text, NormalForm::Nfc),
                "{c:?}"
            );
            let bare = unaccent(&text);
            assert_eq!(unaccent(&bare), bare, "{c:?}");
            assert_eq!(unaccent(&nfd), bare, "{c:?}");
            assert_eq!(casefold(&casefold(&text)), casefold(&text), "{c:?}");
            if c.is_alphabetic() && !is_accent(c) {
                assert!(bare.chars().any(char::is_alphabetic), "{c:?}");
            }
        }
    }
}
