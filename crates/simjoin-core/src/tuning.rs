//! Sizes that tests make small.
//!
//! Searches and strategies begin to pay at sizes that take tests too long, and work is divided into pieces
//! that small inputs do not fill. Tests pass [`Tuning::small`] to reach every part with few rows.

/// The sizes from which on parts of a search are taken, and those of pieces of work: the usual ones by
/// default. Answers do not depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tuning {
    is_small: bool,
}

impl Tuning {
    /// The sizes of the product.
    pub const USUAL: Self = Self { is_small: false };

    /// Small sizes, for tests.
    pub const fn small() -> Self {
        Self { is_small: true }
    }

    /// Whether sizes are small.
    pub fn is_small(self) -> bool {
        self.is_small
    }

    /// The value that a size has.
    pub fn size<T>(self, size: Size<T>) -> T {
        if self.is_small { size.small } else { size.usual }
    }
}

/// A size, or a figure like one, that tests make small.
#[derive(Debug, Clone, Copy)]
pub struct Size<T = usize> {
    /// The value of the product.
    pub usual: T,
    /// The value for [`Tuning::small`].
    pub small: T,
}
