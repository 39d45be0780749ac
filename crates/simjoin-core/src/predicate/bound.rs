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

/// The place of a score that is NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NanScore {
    /// Beyond all numbers, on the side of its sign, as DataFusion compares it: in a plain join.
    Ordered,
    /// None. Like NULL, it matches nothing and does not rank: in SIMJOIN and NEAREST.
    Null,
}

/// `function(arguments) >= bound` for a similarity, `<= bound` for a distance.
#[derive(Debug, Clone, Copy)]
pub struct Predicate {
    /// The function and its arguments.
    pub call: Call,
    /// `t*`, the least similar value that qualifies; NaN when none does.
    pub bound: f64,
    /// Whether a score that is NaN may match. [`NanScore::Ordered`] for functions that
    /// [never give one](super::Function::may_be_nan).
    pub nan: NanScore,
}

impl Predicate {
    /// A predicate that compares NaN in DataFusion's order.
    pub fn new(call: Call, bound: f64) -> Self {
        Self { call, bound, nan: NanScore::Ordered }
    }

    /// The predicate with another bound.
    pub fn with_bound(self, bound: f64) -> Self {
        Self { bound, ..self }
    }

    /// The predicate without scores that are NaN.
    pub fn without_nan(self) -> Self {
        match self.call.function.may_be_nan() {
            true => Self { nan: NanScore::Null, ..self },
            false => self,
        }
    }

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
        let leaves_out = other.nan == NanScore::Ordered || self.nan == NanScore::Null;
        self.call == other.call
            && (self.bound.is_nan() || (follows && leaves_out && !other.bound.is_nan()))
    }
}

/// Bounds are compared bit for bit: NaN equals NaN.
impl PartialEq for Predicate {
    fn eq(&self, other: &Self) -> bool {
        let key = |predicate: &Self| (predicate.call, predicate.bound.to_bits(), predicate.nan);
        key(self) == key(other)
    }
}

impl Eq for Predicate {}
