//! The value of a function for two texts.

use super::function::StringFunction;
use super::rules::{
    self, Cancelled, Damerau, Edits, Indel, Levenshtein, Scratch, Symbol, similarity,
};

/// A distance or a similarity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A number of edits.
    Distance(u32),
    /// A number between 0 and 1.
    Similarity(f64),
}

impl Value {
    /// The value as a number.
    pub fn number(self) -> f64 {
        match self {
            Self::Distance(distance) => f64::from(distance),
            Self::Similarity(similarity) => similarity,
        }
    }
}

/// Text as the functions read it: a text of ASCII has its bytes for scalars.
#[derive(Debug, Default)]
pub(super) struct Scalars {
    is_ascii: bool,
    wide: Vec<u32>,
}

impl Scalars {
    /// Takes up a text.
    pub(super) fn begin(&mut self, text: &str) {
        self.wide.clear();
        self.is_ascii = text.is_ascii();
    }

    /// The scalars of the text that was taken up.
    fn wide(&mut self, text: &str) -> &[u32] {
        if self.wide.is_empty() {
            self.wide.reserve_exact(text.chars().count());
            self.wide.extend(text.chars().map(u32::from));
        }
        &self.wide
    }
}

/// Calls `work` with both texts, as bytes or as scalars.
pub(super) fn with_symbols<R>(
    scalars: &mut [Scalars; 2],
    [a, b]: [&str; 2],
    work: impl PairWork<Output = R>,
) -> R {
    if scalars.iter().all(|scalars| scalars.is_ascii) {
        return work.on(a.as_bytes(), b.as_bytes());
    }
    let [of_a, of_b] = scalars;
    work.on(of_a.wide(a), of_b.wide(b))
}

/// Work on two texts, whatever their symbols are.
pub(super) trait PairWork {
    type Output;

    fn on<T: Symbol>(self, a: &[T], b: &[T]) -> Self::Output;
}

/// Computes a function for one pair of texts after the other.
#[derive(Debug)]
pub struct PairEvaluator {
    function: StringFunction,
    scalars: [Scalars; 2],
    scratch: Scratch,
}

impl PairEvaluator {
    pub fn new(function: StringFunction) -> Self {
        Self { function, scalars: Default::default(), scratch: Scratch::new() }
    }

    /// The value for two texts; `None` where the function has none, for texts of different lengths.
    pub fn of(&mut self, a: &str, b: &str) -> Option<Value> {
        let Self { function, scalars, scratch } = self;
        scalars.iter_mut().zip([a, b]).for_each(|(scalars, text)| scalars.begin(text));
        with_symbols(scalars, [a, b], Evaluate { function: *function, scratch })
    }
}

struct Evaluate<'a> {
    function: StringFunction,
    scratch: &'a mut Scratch,
}

impl PairWork for Evaluate<'_> {
    type Output = Option<Value>;

    fn on<T: Symbol>(self, a: &[T], b: &[T]) -> Option<Value> {
        let Self { function, scratch } = self;
        let never = &mut || false;
        let (longer, sum) = (a.len().max(b.len()) as u64, (a.len() + b.len()) as u64);
        let counted = |edits: Result<u32, Cancelled>| edits.unwrap_or(u32::MAX);
        Some(match function {
            StringFunction::Levenshtein => {
                Value::Distance(counted(Levenshtein::distance(scratch, a, b, never)))
            }
            StringFunction::LevenshteinSimilarity => {
                let distance = counted(Levenshtein::distance(scratch, a, b, never));
                Value::Similarity(similarity(distance, longer))
            }
            StringFunction::DamerauLevenshtein => {
                Value::Distance(counted(Damerau::distance(scratch, a, b, never)))
            }
            StringFunction::IndelSimilarity => {
                Value::Similarity(similarity(counted(Indel::distance(scratch, a, b, never)), sum))
            }
            StringFunction::Hamming => Value::Distance(rules::hamming(a, b)?),
            StringFunction::Jaro => Value::Similarity(rules::jaro(scratch, a, b)),
            StringFunction::JaroWinkler => Value::Similarity(rules::jaro_winkler(scratch, a, b)),
        })
    }
}
