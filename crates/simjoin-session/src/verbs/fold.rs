//! Spellings that are compared as one.

use std::fmt;
use std::str::FromStr;

use datafusion_simjoin::config::nearest;

/// A difference of spellings that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fold {
    /// The case of letters.
    Lower,
    /// Accents.
    Accents,
    /// Marks that are neither letters, digits nor spaces: apostrophes and full stops are left out, others are spaces.
    Punctuation,
    /// Spaces at the ends, and their number.
    Spaces,
}

impl Fold {
    const ALL: [Self; 4] = [Self::Lower, Self::Accents, Self::Punctuation, Self::Spaces];

    /// The text `value` without these differences. They go in one order, however they are given.
    pub(super) fn apply(folds: &[Self], value: &str) -> String {
        let given = Self::ALL.into_iter().filter(|fold| folds.contains(fold));
        given.fold(value.to_string(), |value, fold| match fold {
            Self::Lower => format!("casefold({value})"),
            Self::Accents => format!("unaccent({value})"),
            Self::Punctuation => format!(
                "regexp_replace(regexp_replace({value}, '[''’ʼ.]', '', 'g'), '[\\p{{P}}\\p{{S}}]+', ' ', 'g')"
            ),
            Self::Spaces => format!("trim(regexp_replace({value}, '\\s+', ' ', 'g'))"),
        })
    }
}

impl fmt::Display for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lower => "lower",
            Self::Accents => "accents",
            Self::Punctuation => "punctuation",
            Self::Spaces => "spaces",
        })
    }
}

impl FromStr for Fold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let given = text.trim().to_lowercase();
        let named = Self::ALL.into_iter().find(|fold| fold.to_string() == given);
        named.ok_or_else(|| {
            let names = Self::ALL.map(|fold| fold.to_string());
            let meant = nearest(&given, names.iter().map(String::as_str));
            let meant = meant.map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
            format!("{meant}spellings may differ in {}", names.join(", "))
        })
    }
}
