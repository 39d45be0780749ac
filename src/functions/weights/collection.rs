//! Weights of tokens by the rows that have them.
//!
//! Logarithms are integers, and what else there is are sums, products and quotients in one fixed order: every
//! processor computes the same weights, whatever the batches of its input.

use std::f64::consts::LN_2;
use std::fmt;

use datafusion::common::{Result, exec_err};

use super::bags::Bags;
use super::logarithm::log2_ratio;

/// A rule by which tokens get weights from the rows of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weighting {
    /// `tfidf(tokens)`, the occurrences in the row times `idf`.
    Tfidf,
    /// `idf(tokens)`, the smooth inverse document frequency `log2((1 + n) / (1 + df)) + 1 / ln 2`.
    Idf,
    /// `bm25_weights(tokens, k1, b)`, the parts of BM25 that do not depend on a query.
    Bm25,
}

impl Weighting {
    /// Every rule, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Tfidf, Self::Idf, Self::Bm25];

    /// The name of the SQL function.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tfidf => "tfidf",
            Self::Idf => "idf",
            Self::Bm25 => "bm25_weights",
        }
    }
}

impl fmt::Display for Weighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parameters of BM25.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bm25Parameters {
    /// The most that repeats add: a token weighs less than `k1 + 1` times its inverse document frequency.
    pub(super) k1: f64,
    /// The share of the length in the weights.
    pub(super) b: f64,
}

impl Default for Bm25Parameters {
    fn default() -> Self {
        Self { k1: 1.2, b: 0.75 }
    }
}

/// Binary places of weights.
const PLACES: u32 = 16;
/// `2^PLACES / ln 2`, the 1 of the smooth inverse document frequency in logarithms to base 2.
const ONE: u64 = 94_548;
/// Binary places of the logarithms of BM25, which is rounded after a product.
const BM25_PLACES: u32 = 40;
/// Numbers of rows up to which a logarithm is computed once for all tokens with so many rows.
const COMMON: u32 = 1 << 10;

/// The weight of each entry of `bags`, which are the rows of a collection.
pub(super) fn weights(
    weighting: Weighting,
    parameters: Bm25Parameters,
    bags: &Bags,
) -> Result<Vec<u32>> {
    let rows = bags.rows().count() as u64;
    let mut frequencies = vec![0; bags.tokens()];
    for &id in bags.ids() {
        frequencies[id as usize] += 1;
    }
    if weighting == Weighting::Bm25 {
        // 1 + (n - df + 1/2) / (df + 1/2)
        let log = |df| log2_ratio(2 * rows + 2, 2 * df + 1, BM25_PLACES);
        let unit = LN_2 / f64::from(1 << (BM25_PLACES - PLACES));
        return bm25(
            bags,
            rows,
            &by_frequency(&frequencies, |df| log(df) as f64 * unit),
            parameters,
        );
    }
    let idf = by_frequency(&frequencies, |df| log2_ratio(1 + rows, 1 + df, PLACES) + ONE);
    let entries = bags.ids().iter().zip(bags.amounts());
    let weight = |(&id, &count): (&u32, &u32)| {
        let idf = idf[id as usize];
        let weight = if weighting == Weighting::Idf { idf } else { u64::from(count) * idf };
        match u32::try_from(weight) {
            Ok(weight) => Ok(weight),
            Err(_) => exec_err!(
                "{weighting}: a token stands {count} times in one row, and its weight would be {weight}, more than \
                 {}; idf(tokens) counts a token once, bm25_weights(tokens) limits what repeats add",
                u32::MAX
            ),
        }
    };
    entries.map(weight).collect()
}

/// A value for each token by the number of rows that have it.
fn by_frequency<T: Copy>(frequencies: &[u32], value: impl Fn(u64) -> T) -> Vec<T> {
    let greatest = frequencies.iter().copied().max().unwrap_or(0);
    let common: Vec<T> = (0..=greatest.min(COMMON)).map(|df| value(u64::from(df))).collect();
    let of = |&df: &u32| common.get(df as usize).copied().unwrap_or_else(|| value(u64::from(df)));
    frequencies.iter().map(of).collect()
}

/// The weights of BM25, where `idf` are the inverse document frequencies of the tokens in units of the weights.
fn bm25(
    bags: &Bags,
    rows: u64,
    idf: &[f64],
    Bm25Parameters { k1, b }: Bm25Parameters,
) -> Result<Vec<u32>> {
    let total: u64 = bags.amounts().iter().map(|&count| u64::from(count)).sum();
    let average = total as f64 / rows as f64;
    let mut weights = Vec::with_capacity(bags.ids().len());
    for entries in bags.rows() {
        let (ids, counts) = (&bags.ids()[entries.clone()], &bags.amounts()[entries]);
        let length: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let norm = k1 * (1.0 - b + b * (length as f64 / average));
        for (&id, &count) in ids.iter().zip(counts) {
            let count = f64::from(count);
            let weight = (idf[id as usize] * (count * (k1 + 1.0) / (count + norm))).round();
            // Not a number either, of a k1 near the greatest number.
            if weight.is_nan() || weight > f64::from(u32::MAX) {
                return exec_err!(
                    "{}: a token stands {count} times in one row, and its weight would be more than {}; take a \
                     smaller k1 than {k1}",
                    Weighting::Bm25,
                    u32::MAX
                );
            }
            weights.push((weight as u32).max(1));
        }
    }
    Ok(weights)
}
