//! The naive oracle: a nested loop over rows, measures written again from the contract's table.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A token as a value, without a width or a layout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Token {
    Int(i128),
    Text(String),
    Bytes(Vec<u8>),
}

/// A list cell: NULL, or elements that may be NULL and may repeat.
pub type List = Option<Vec<Option<Token>>>;

/// A row of the tables under test.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: i64,
    pub toks: List,
    pub key: Option<i64>,
    pub name: Option<String>,
    pub w: Option<i64>,
}

impl Row {
    /// A row that has a list and nothing else.
    pub fn of(id: i64, toks: List) -> Self {
        Self { id, toks, key: None, name: None, w: None }
    }
}

/// A list of integers, none of them NULL.
pub fn ints(tokens: impl IntoIterator<Item = i64>) -> List {
    Some(tokens.into_iter().map(|t| Some(Token::Int(t.into()))).collect())
}

/// The set that a list stands for: NULL elements are ignored, repeats count once.
pub fn set(list: &List) -> Option<Vec<&Token>> {
    let list = list.as_ref()?;
    Some(list.iter().flatten().collect::<BTreeSet<_>>().into_iter().collect())
}

/// The words of a text in lower case, character by character: letters and digits, the marks behind them, and
/// the joiners and format characters between them.
pub fn words(text: &str) -> Vec<String> {
    use icu_properties::CodePointMapData;
    use icu_properties::props::GeneralCategory as Kind;
    let kinds = CodePointMapData::<Kind>::new();
    let mut words: Vec<String> = vec![];
    let mut word = String::new();
    // Characters that belong to the word if it goes on.
    let mut between = String::new();
    for c in text.to_lowercase().chars().chain([' ']) {
        let kind = kinds.get(c);
        let is_mark =
            matches!(kind, Kind::NonspacingMark | Kind::SpacingMark | Kind::EnclosingMark);
        if c.is_alphanumeric() || is_mark && !word.is_empty() {
            word.push_str(&std::mem::take(&mut between));
            word.push(c);
        } else if kind == Kind::Format && c != '\u{200b}' && !word.is_empty() {
            between.push(c);
        } else {
            between.clear();
            words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
        }
    }
    words
}

/// The sizes by which a measure knows two sets: `|a ∩ b|`, `|a|`, `|b|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub o: u64,
    pub a: u64,
    pub b: u64,
}

impl Sizes {
    /// Compares two sorted sets.
    pub fn of<T: Ord>(a: &[T], b: &[T]) -> Self {
        let (mut i, mut j, mut o) = (0, 0, 0);
        while i < a.len() && j < b.len() {
            match a[i].cmp(&b[j]) {
                Ordering::Less => i += 1,
                Ordering::Greater => j += 1,
                Ordering::Equal => (i, j, o) = (i + 1, j + 1, o + 1),
            }
        }
        Self { o, a: a.len() as u64, b: b.len() as u64 }
    }

    pub fn swapped(self) -> Self {
        Self { o: self.o, a: self.b, b: self.a }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Jaccard,
    Dice,
    Cosine,
    Overlap,
    OverlapCoefficient,
    Containment,
}

impl Measure {
    pub const ALL: [Self; 6] = [
        Self::Jaccard,
        Self::Dice,
        Self::Cosine,
        Self::Overlap,
        Self::OverlapCoefficient,
        Self::Containment,
    ];

    pub fn sql(self) -> &'static str {
        match self {
            Self::Jaccard => "jaccard",
            Self::Dice => "dice",
            Self::Cosine => "set_cosine",
            Self::Overlap => "overlap",
            Self::OverlapCoefficient => "overlap_coefficient",
            Self::Containment => "containment",
        }
    }

    pub fn value(self, Sizes { o, a, b }: Sizes) -> f64 {
        if a == 0 || b == 0 {
            return 0.0;
        }
        let o_real = o as f64;
        match self {
            Self::Jaccard => o_real / ((a + b - o) as f64),
            Self::Dice => ((2 * o) as f64) / ((a + b) as f64),
            Self::Cosine => o_real / f64::sqrt((a * b) as f64),
            Self::Overlap => o_real,
            Self::OverlapCoefficient => o_real / (u64::min(a, b) as f64),
            Self::Containment => o_real / (a as f64),
        }
    }

    /// The value as SQL shows it: `overlap` is an integer.
    pub fn cell(self, sizes: Option<Sizes>) -> Cell {
        match sizes {
            None => Cell::Null,
            Some(s) if self == Self::Overlap => Cell::Int(self.value(s) as i64),
            Some(s) => Cell::Float(self.value(s)),
        }
    }
}

/// The scalar function over two lists; `None` is NULL.
pub fn similarity(measure: Measure, a: &List, b: &List) -> Option<f64> {
    Some(measure.value(Sizes::of(&set(a)?, &set(b)?)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    LeftSemi,
    LeftAnti,
    RightSemi,
    RightAnti,
}

impl JoinKind {
    pub const ALL: [Self; 8] = [
        Self::Inner,
        Self::Left,
        Self::Right,
        Self::Full,
        Self::LeftSemi,
        Self::LeftAnti,
        Self::RightSemi,
        Self::RightAnti,
    ];

    pub fn sql(self) -> &'static str {
        match self {
            Self::Inner => "INNER",
            Self::Left => "LEFT",
            Self::Right => "RIGHT",
            Self::Full => "FULL",
            Self::LeftSemi => "LEFT SEMI",
            Self::LeftAnti => "LEFT ANTI",
            Self::RightSemi => "RIGHT SEMI",
            Self::RightAnti => "RIGHT ANTI",
        }
    }

    /// Whether the answer has columns of the left, of the right input.
    pub fn sides(self) -> (bool, bool) {
        match self {
            Self::LeftSemi | Self::LeftAnti => (true, false),
            Self::RightSemi | Self::RightAnti => (false, true),
            _ => (true, true),
        }
    }
}

/// A row of a join: row numbers of both inputs, `None` where that side is padded or absent.
pub type Joined = (Option<usize>, Option<usize>);

/// A join condition over two rows and the sizes of their sets; three-valued, as SQL has it.
pub type Condition<'a> = dyn Fn(&Row, &Row, Option<Sizes>) -> Option<bool> + 'a;

/// Every row of the join. `condition` is SQL's: NULL does not match.
pub fn join(kind: JoinKind, left: &[Row], right: &[Row], condition: &Condition<'_>) -> Vec<Joined> {
    let left_sets: Vec<_> = left.iter().map(|r| set(&r.toks)).collect();
    let right_sets: Vec<_> = right.iter().map(|r| set(&r.toks)).collect();
    let mut pairs = Vec::new();
    for (i, l) in left.iter().enumerate() {
        for (j, r) in right.iter().enumerate() {
            let sizes = match (&left_sets[i], &right_sets[j]) {
                (Some(a), Some(b)) => Some(Sizes::of(a, b)),
                _ => None,
            };
            if condition(l, r, sizes) == Some(true) {
                pairs.push((i, j));
            }
        }
    }
    join_of_pairs(kind, left.len(), right.len(), &pairs)
}

/// The rows of a join whose matching pairs are known.
pub fn join_of_pairs(
    kind: JoinKind,
    left_rows: usize,
    right_rows: usize,
    pairs: &[(usize, usize)],
) -> Vec<Joined> {
    let left_matched: BTreeSet<usize> = pairs.iter().map(|p| p.0).collect();
    let right_matched: BTreeSet<usize> = pairs.iter().map(|p| p.1).collect();
    let left_alone = (0..left_rows).filter(|i| !left_matched.contains(i));
    let right_alone = (0..right_rows).filter(|j| !right_matched.contains(j));
    let left_padded = left_alone.clone().map(|i| (Some(i), None));
    let right_padded = right_alone.clone().map(|j| (None, Some(j)));
    let inner = pairs.iter().map(|&(i, j)| (Some(i), Some(j)));
    match kind {
        JoinKind::Inner => inner.collect(),
        JoinKind::Left => inner.chain(left_padded).collect(),
        JoinKind::Right => inner.chain(right_padded).collect(),
        JoinKind::Full => inner.chain(left_padded).chain(right_padded).collect(),
        JoinKind::LeftSemi => left_matched.iter().map(|&i| (Some(i), None)).collect(),
        JoinKind::LeftAnti => left_padded.collect(),
        JoinKind::RightSemi => right_matched.iter().map(|&j| (None, Some(j))).collect(),
        JoinKind::RightAnti => right_padded.collect(),
    }
}

/// SQL's AND of two conditions.
pub fn and(x: Option<bool>, y: Option<bool>) -> Option<bool> {
    match (x, y) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// SQL's OR of two conditions.
pub fn or(x: Option<bool>, y: Option<bool>) -> Option<bool> {
    match (x, y) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

/// SQL's comparison: NULL when either operand is.
pub fn compare<T: PartialOrd>(
    x: Option<T>,
    y: Option<T>,
    holds: impl Fn(&T, &T) -> bool,
) -> Option<bool> {
    Some(holds(&x?, &y?))
}

/// A cell of an answer. Two cells are the same when they print alike: floats print their bits.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Null,
    Int(i64),
    Float(f64),
    Text(String),
    Other(String),
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Int(v) => write!(f, "{v}"),
            Self::Float(v) => write!(f, "{v:?}#{:016x}", v.to_bits()),
            Self::Text(v) => write!(f, "{v:?}"),
            Self::Other(v) => f.write_str(v),
        }
    }
}

impl From<Option<i64>> for Cell {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Int)
    }
}

impl From<Option<&String>> for Cell {
    fn from(value: Option<&String>) -> Self {
        value.map_or(Self::Null, |v| Self::Text(v.clone()))
    }
}

/// One line for a row of an answer.
pub fn line(cells: &[Cell]) -> String {
    cells.iter().map(Cell::to_string).collect::<Vec<_>>().join(" | ")
}
