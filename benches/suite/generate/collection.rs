//! The published collections and what is like them.

use super::sizes::{Shape, Sizes};
use super::zipf::Zipf;

/// The type of the rows of a collection.
#[derive(Debug, Clone, Copy)]
pub enum Content {
    /// Sets of integer tokens.
    Tokens {
        sizes: Shape,
        /// Different tokens: those met at full size, or where `fixed` those there are.
        universe: u64,
        fixed: bool,
        /// Exponent and shift of the tokens' frequencies, by rank.
        exponent: f64,
        shift: f64,
        /// The share of sets that are given the token of the first rank.
        common: f64,
    },
    /// Titles and authors, whose sets are their 2-grams; with their number at full size.
    Titles { universe: u64 },
}

/// A collection that the papers of the field measure on.
#[derive(Debug, Clone, Copy)]
pub struct Collection {
    pub name: &'static str,
    pub rows: u64,
    pub average_size: f64,
    pub max_size: usize,
    pub content: Content,
}

const fn tokens(deviation: f64, universe: u64, exponent: f64, shift: f64) -> Content {
    let sizes = Shape::LogNormal { deviation };
    Content::Tokens { sizes, universe, fixed: false, exponent, shift, common: 0.0 }
}

const fn zipf(universe: u64, exponent: f64) -> Content {
    skewed(Shape::Poisson, universe, exponent, 0.0)
}

const fn skewed(sizes: Shape, universe: u64, exponent: f64, common: f64) -> Content {
    Content::Tokens { sizes, universe, fixed: true, exponent, shift: 0.0, common }
}

/// Rows, average and greatest size and universe are those that Mann, Augsten and Bouros ("An
/// empirical evaluation of set similarity join techniques", PVLDB 9(9), 2016) and Bellas and
/// Gounaris publish. Deviations follow from average and maximum, exponents and shifts from real
/// data of the same kind: kosarak's first tenth, shop visits, words of reviews and mails, groups
/// whose largest has a hundredth to a tenth of the members.
pub const COLLECTIONS: &[Collection] = &[
    collection("aol", 10_000_000, 3.0, 245, tokens(0.93, 3_900_000, 1.0, 10.0)),
    collection("bms-pos", 320_000, 6.5, 164, tokens(0.85, 1_657, 1.0, 0.0)),
    collection("dblp", 100_000, 88.0, 869, Content::Titles { universe: 7_205 }),
    collection("enron", 250_000, 135.0, 3_162, tokens(0.80, 1_100_000, 1.2, 10.0)),
    collection("kosarak", 610_000, 8.0, 2_497, tokens(1.40, 41_000, 1.1, 0.0)),
    collection("livejournal", 3_100_000, 36.5, 300, tokens(1.20, 7_500_000, 1.0, 100.0)),
    collection("orkut", 2_700_000, 120.0, 40_425, tokens(1.35, 8_700_000, 1.0, 80.0)),
    collection("zipf10", 200_000, 9.8, 30, zipf(100_000, 0.9)),
    collection("zipf55", 200_000, 54.5, 100, zipf(400_000, 1.0)),
    // What a distributed plan may stumble on: one size for nine sets in ten, one token in as many.
    collection(
        "onesize",
        200_000,
        20.0,
        60,
        skewed(Shape::Mostly { size: 20, share: 0.9 }, 100_000, 0.9, 0.0),
    ),
    collection("onetoken", 200_000, 12.0, 40, skewed(Shape::Poisson, 100_000, 0.9, 0.9)),
];

const fn collection(
    name: &'static str,
    rows: u64,
    average_size: f64,
    max_size: usize,
    content: Content,
) -> Collection {
    Collection { name, rows, average_size, max_size, content }
}

impl Collection {
    pub fn find(name: &str) -> Option<&'static Collection> {
        COLLECTIONS.iter().find(|collection| collection.name == name)
    }

    /// The distribution of set sizes; that of texts follows from their words.
    pub fn sizes(&self) -> Option<Sizes> {
        match self.content {
            Content::Tokens { sizes, .. } => {
                Some(Sizes::new(sizes, self.average_size, self.max_size))
            }
            Content::Titles { .. } => None,
        }
    }

    /// The distribution of tokens, that of the full size however few rows are made.
    pub fn tokens(&self) -> Option<Zipf> {
        match self.content {
            Content::Tokens { universe, fixed: true, exponent, shift, .. } => {
                Some(Zipf::new(universe, exponent, shift))
            }
            Content::Tokens { universe, exponent, shift, .. } => {
                let draws = self.rows as f64 * self.average_size;
                Some(Zipf::with_distinct(universe, draws, exponent, shift))
            }
            Content::Titles { .. } => None,
        }
    }

    pub fn universe(&self) -> u64 {
        match self.content {
            Content::Tokens { universe, .. } | Content::Titles { universe } => universe,
        }
    }

    /// The sets of a row of a generated file, in SQL.
    pub fn sets(&self) -> &'static str {
        match self.content {
            Content::Tokens { .. } => "tokens",
            Content::Titles { .. } => "qgrams(text, 2)",
        }
    }
}
