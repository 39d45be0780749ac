//! The similarities of weighted sets.

use arrow::datatypes::DataType;

use crate::error::{Result, internal_err};
use crate::predicate::{Function, FunctionInfo, Order};

/// The name of the family.
pub(super) const FAMILY: &str = "weighted set";

const fn info(name: &'static str) -> FunctionInfo {
    FunctionInfo {
        family: FAMILY,
        name,
        data_type: |_| DataType::Float64,
        example: ">= 0.8",
        is_symmetric: true,
        orders_nan: false,
        is_partial: false,
        order: Order::Similarity,
        range: [0.0, 1.0],
        is_reflexive: true,
        least_is_far: true,
        rounds: &[],
        least_similar: "sets without a common token, whose similarity is 0, satisfy it; the threshold must be above 0",
    }
}

/// By the number of the measure. The squares of weights may exceed 64 bits, which is an error of the functions that
/// add products: a match by another function does not tell their value.
static FUNCTIONS: [FunctionInfo; 5] = [
    info("weighted_jaccard"),
    info("weighted_dice"),
    FunctionInfo { is_partial: true, ..info("weighted_cosine") },
    FunctionInfo { is_symmetric: false, ..info("weighted_containment") },
    FunctionInfo {
        is_partial: true,
        is_reflexive: false,
        example: ">= 3",
        range: [0.0, u64::MAX as f64],
        ..info("weighted_overlap")
    },
];

/// A similarity of two weighted sets `a` and `b`. `A` and `B` are the sums of their weights, `m` is the sum of the
/// lesser weights of common tokens, `p` the sum of the products of their weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WeightedMeasure {
    /// `m / (A + B - m)`
    Jaccard,
    /// `2m / (A + B)`
    Dice,
    /// `p / sqrt(a · a  b · b)`, at most 1
    Cosine,
    /// `m / A`
    Containment,
    /// `p`
    Overlap,
}

/// The sums over the tokens of a weighted set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mass {
    /// The sum of the weights; 0 of a set without tokens.
    pub total: u64,
    /// The sum of the squares of the weights; the greatest number where it has more than 64 bits.
    pub squares: u64,
}

impl Mass {
    pub(super) fn of(weights: &[u32]) -> Self {
        let mut mass = Self::default();
        for &weight in weights {
            let weight = u64::from(weight);
            mass.total = mass.total.saturating_add(weight);
            mass.squares = mass.squares.saturating_add(weight * weight);
        }
        mass
    }
}

impl WeightedMeasure {
    /// Every measure, in the order of the documentation.
    pub const ALL: [Self; 5] =
        [Self::Jaccard, Self::Dice, Self::Cosine, Self::Containment, Self::Overlap];

    /// The measure as a function that rows can be joined by.
    pub fn function(self) -> Function {
        Function::new(&FUNCTIONS[self as usize])
    }

    /// The measure that a function is.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub fn of(function: Function) -> Result<Self> {
        match Self::ALL.into_iter().find(|measure| measure.function() == function) {
            Some(measure) => Ok(measure),
            None => internal_err!("{function:?} is no measure of weighted sets"),
        }
    }

    /// The name of the SQL function.
    pub fn name(self) -> &'static str {
        self.function().name()
    }

    /// Whether common tokens count by the product of their weights; otherwise by the lesser one.
    pub(super) fn adds_products(self) -> bool {
        matches!(self, Self::Cosine | Self::Overlap)
    }

    /// The share of a common token with these weights.
    #[inline(always)]
    pub(super) fn common(self, a: u32, b: u32) -> u64 {
        match self.adds_products() {
            true => u64::from(a) * u64::from(b),
            false => u64::from(a.min(b)),
        }
    }

    /// The value of sets that have `common` in common; 0 when either is empty.
    #[inline]
    pub(super) fn value(self, common: u64, a: Mass, b: Mass) -> f64 {
        if a.total == 0 || b.total == 0 {
            return 0.0;
        }
        let share = common as f64;
        match self {
            Self::Jaccard => share / (a.total + b.total - common) as f64,
            Self::Dice => (2 * common) as f64 / (a.total + b.total) as f64,
            Self::Cosine => (share / (a.squares as f64 * b.squares as f64).sqrt()).min(1.0),
            Self::Containment => share / a.total as f64,
            Self::Overlap => share,
        }
    }

    /// [`Self::value`] of a set and its partner, where `is_first` says that the set is the first argument.
    #[inline]
    pub(super) fn value_in(self, is_first: bool, common: u64, set: Mass, partner: Mass) -> f64 {
        match is_first {
            true => self.value(common, set, partner),
            false => self.value(common, partner, set),
        }
    }
}
