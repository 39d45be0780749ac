//! The functions whose comparison with a constant a similarity join can run.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array};
use arrow::datatypes::DataType;

use crate::error::{Result, internal_err};

/// The direction in which the values of a function are similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Greater values: a predicate bounds the function from below.
    Similarity,
    /// Lesser values: a predicate bounds the function from above.
    Distance,
}

/// The properties of a function, declared by its family.
#[derive(Debug)]
pub struct FunctionInfo {
    /// The name of the family that joins by this function.
    pub family: &'static str,
    /// The name in SQL.
    pub name: &'static str,
    /// The type of the value for arguments of these types, in either order: `Int32`, `Int64` or
    /// `Float64`.
    pub data_type: fn([&DataType; 2]) -> DataType,
    /// The comparison of an example, for errors: ">= 0.8".
    pub example: &'static str,
    /// Both arguments may be swapped without changing the value, but for what `orders_nan` says.
    pub is_symmetric: bool,
    /// A value may be NaN, and the order of the arguments may decide its sign.
    pub orders_nan: bool,
    /// The direction in which values are similar.
    pub order: Order,
    /// The least and the greatest value.
    pub range: [f64; 2],
    /// The value may be NULL, or an error, for two arguments that are not NULL: then a match by
    /// another function of the family does not tell it.
    pub is_partial: bool,
    /// A value that satisfies a bound with any other one satisfies it with itself.
    pub is_reflexive: bool,
    /// Pairs with the least similar value are no neighbours, however few better ones there are.
    pub least_is_far: bool,
    /// Bounds that a search for neighbours tries one after the other, where a join by a narrow bound costs
    /// little. Empty: bounds are taken from a sample.
    pub rounds: &'static [f64],
    /// The pairs with the least similar value, for errors: "disjoint sets, whose similarity is 0,".
    pub least_similar: &'static str,
}

/// A function of two arguments, one from each side, by which rows can be joined.
///
/// Two functions are equal when their families and their names are.
#[derive(Clone, Copy)]
pub struct Function(&'static FunctionInfo);

impl Function {
    /// The function that `info` declares.
    pub const fn new(info: &'static FunctionInfo) -> Self {
        Self(info)
    }

    /// The name of the family that joins by this function.
    pub fn family(self) -> &'static str {
        self.0.family
    }

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Whether both arguments may be swapped without changing the value, or but the sign of NaN.
    pub fn is_symmetric(self) -> bool {
        self.0.is_symmetric
    }

    /// Whether the order of the arguments may change the value: a call of the function has to say
    /// which side gives its first argument.
    pub fn is_ordered(self) -> bool {
        !self.0.is_symmetric || self.0.orders_nan
    }

    /// Whether a value may be NaN.
    pub fn may_be_nan(self) -> bool {
        self.0.orders_nan
    }

    /// The type of the value for arguments of these types, in either order.
    pub fn data_type(self, arguments: [&DataType; 2]) -> DataType {
        (self.0.data_type)(arguments)
    }

    /// A correct join by this function, for error messages.
    pub fn example(self) -> String {
        format!("a SIMJOIN b ON {self}(a.x, b.x) {}", self.0.example)
    }

    /// Everything that the family declares.
    pub fn info(self) -> &'static FunctionInfo {
        self.0
    }

    /// Whether `value` satisfies the bound `bound`. NaN satisfies none, and no value satisfies NaN.
    #[inline]
    pub fn satisfies(self, value: f64, bound: f64) -> bool {
        match self.0.order {
            Order::Similarity => value >= bound,
            Order::Distance => value <= bound,
        }
    }

    /// The value that is least similar, and the one that is most.
    pub fn extremes(self) -> [f64; 2] {
        let [least, greatest] = self.0.range;
        match self.0.order {
            Order::Similarity => [least, greatest],
            Order::Distance => [greatest, least],
        }
    }

    /// The widest bound by which rows are joined: every neighbour satisfies it, or else `false` comes with
    /// it, and pairs that do not are compared one by one. NaN does not rank.
    pub fn widest_bound(self) -> (f64, bool) {
        let least = self.extremes()[0];
        match self.0.order {
            Order::Similarity if least.is_nan() => (f64::NEG_INFINITY, true),
            Order::Similarity => (least.next_up(), self.0.least_is_far),
            Order::Distance if least.is_nan() => (f64::INFINITY, true),
            // No pair of values is as far apart as the greatest distance.
            Order::Distance => (least - 1.0, true),
        }
    }

    fn key(self) -> (&'static str, &'static str) {
        (self.0.family, self.0.name)
    }
}

/// Values of a function as an array of [their type](Function::data_type).
///
/// # Errors
///
/// An internal error for a type that no function has.
pub fn value_array(values: Vec<f64>, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Float64 => Arc::new(Float64Array::from(values)),
        DataType::Int64 => {
            Arc::new(Int64Array::from_iter_values(values.into_iter().map(|v| v as i64)))
        }
        DataType::Int32 => {
            Arc::new(Int32Array::from_iter_values(values.into_iter().map(|v| v as i32)))
        }
        other => return internal_err!("a function that joins rows gives {other}"),
    })
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for Function {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Function {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.0.family, self.0.name)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}
