//! DataFusion's functions over vectors, as its sources define them: `f64`, from left to right.

/// The functions that join vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    Euclidean,
    Cosine,
    InnerProduct,
}

impl Metric {
    pub const ALL: [Self; 3] = [Self::Euclidean, Self::Cosine, Self::InnerProduct];

    pub fn sql(self) -> &'static str {
        match self {
            Self::Euclidean => "array_distance",
            Self::Cosine => "cosine_distance",
            Self::InnerProduct => "inner_product",
        }
    }

    /// The function by its other name, where it has one.
    pub fn alias(self) -> &'static str {
        match self {
            Self::Euclidean => "list_distance",
            Self::Cosine => "cosine_distance",
            Self::InnerProduct => "dot_product",
        }
    }

    /// Whether greater values are less similar.
    pub fn is_distance(self) -> bool {
        self != Self::InnerProduct
    }

    /// `call` compared with `bound` so that equal and more similar values satisfy it.
    pub fn at_most(self, call: &str, bound: &str) -> String {
        let operator = if self.is_distance() { "<=" } else { ">=" };
        format!("{call} {operator} {bound}")
    }

    /// The value for two vectors of one length; `None` is NULL.
    pub fn value(self, x: &[f64], y: &[f64]) -> Option<f64> {
        assert_eq!(x.len(), y.len());
        let sum = |term: &dyn Fn(f64, f64) -> f64, start: f64| {
            x.iter().zip(y).fold(start, |sum, (&x, &y)| sum + term(x, y))
        };
        let product = sum(&|x, y| x * y, 0.0);
        match self {
            // The sum of no numbers is -0.0 in Rust's library.
            Self::Euclidean => Some(sum(&|x, y| (x - y) * (x - y), -0.0).sqrt()),
            Self::InnerProduct => Some(product),
            Self::Cosine => {
                let (xx, yy) = (sum(&|x, _| x * x, 0.0), sum(&|_, y| y * y, 0.0));
                (xx != 0.0 && yy != 0.0).then(|| 1.0 - product / (xx.sqrt() * yy.sqrt()))
            }
        }
    }
}

/// A number as SQL text.
pub fn literal(number: f64) -> String {
    match number.is_finite() {
        true => format!("{number:?}"),
        false => format!("CAST('{number}' AS DOUBLE)"),
    }
}
