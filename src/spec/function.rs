//! The functions whose comparison with a constant a similarity join can run.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use arrow::datatypes::DataType;

/// Which values of a function are similar.
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
    /// The value is an `Int64` rather than a `Float64`.
    pub is_integer: bool,
    /// Both arguments may be swapped without changing the value, but for what `orders_nan` says.
    pub is_symmetric: bool,
    /// The order of the arguments may decide the sign of a value that is NaN.
    pub orders_nan: bool,
    /// Which values are similar.
    pub order: Order,
    /// The least and the greatest value.
    pub range: [f64; 2],
    /// The value may be NULL, or an error, for two arguments that are not NULL: then a match by
    /// another function of the family does not tell it.
    pub is_partial: bool,
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

    /// Whether the value is an `Int64` rather than a `Float64`.
    pub fn is_integer(self) -> bool {
        self.0.is_integer
    }

    /// The type of the value.
    pub fn data_type(self) -> DataType {
        if self.0.is_integer { DataType::Int64 } else { DataType::Float64 }
    }

    /// A correct join by this function, for error messages.
    pub fn example(self) -> String {
        let condition = match (self.0.order, self.0.is_integer) {
            (Order::Distance, _) => "<= 0.5",
            (Order::Similarity, true) => ">= 3",
            (Order::Similarity, false) => ">= 0.8",
        };
        format!("a SIMJOIN b ON {self}(a.x, b.x) {condition}")
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

    fn key(self) -> (&'static str, &'static str) {
        (self.0.family, self.0.name)
    }
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
