//! The similarity predicate of a join.

use super::{Function, Order, Side};

/// A function over the join's two arguments, with the side that gives its first argument.
///
/// `containment(a.x, b.y)` has `first: Left`, `containment(b.y, a.x)` has `first: Right`. For
/// functions whose order of arguments [does not matter](Function::is_ordered) `first` is `Left`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    /// The function.
    pub function: Function,
    /// The side that gives the first argument.
    pub first: Side,
}

/// `function(arguments) >= bound` for a similarity, `<= bound` for a distance.
#[derive(Debug, Clone, Copy)]
pub struct Predicate {
    /// The function and its arguments.
    pub call: Call,
    /// `t*`, the least similar value that qualifies; NaN when none does.
    pub bound: f64,
}

impl Predicate {
    /// The name of the family that joins by this predicate.
    pub fn family(&self) -> &'static str {
        self.call.function.family()
    }

    /// Whether pairs with this value of the function match.
    #[inline]
    pub fn admits(&self, value: f64) -> bool {
        self.call.function.satisfies(value, self.bound)
    }

    /// Whether every pair matches: the least similar ones do.
    pub fn admits_all(&self) -> bool {
        self.admits(self.call.function.extremes()[0])
    }

    /// Whether a pair that matches has a value of `function`, over the same arguments.
    pub fn tells(&self, function: Function) -> bool {
        function.family() == self.family()
            && (function == self.call.function || !function.info().is_partial)
    }

    /// Whether `other` follows from this predicate.
    pub fn implies(&self, other: &Self) -> bool {
        // As DataFusion compares: -0.0 is less than 0.0.
        let order = self.bound.total_cmp(&other.bound);
        let follows = match self.call.function.info().order {
            Order::Similarity => order.is_ge(),
            Order::Distance => order.is_le(),
        };
        self.call == other.call && (self.bound.is_nan() || (follows && !other.bound.is_nan()))
    }
}

/// Bounds are compared bit for bit: NaN equals NaN.
impl PartialEq for Predicate {
    fn eq(&self, other: &Self) -> bool {
        self.call == other.call && self.bound.to_bits() == other.bound.to_bits()
    }
}

impl Eq for Predicate {}
