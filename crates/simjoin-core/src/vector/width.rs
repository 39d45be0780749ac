//! Numbers of vectors, of either width.
//!
//! A vector is a list of `f64`. Numbers that were given in 32 bits or less stay `f32` where they lie, which
//! takes half the memory, and become `f64` where something is computed of them: nothing is lost.

use std::mem::size_of;
use std::ops::Range;

use crate::engine::RowContent;
use crate::simd::prefetch;

/// Bytes of a line of the cache.
const CACHE_LINE: usize = 64;

/// A number of a vector.
pub(super) trait Number: Copy + Send + Sync + 'static {
    /// The number as an `f64`, which is the same one.
    fn wide(self) -> f64;
}

impl Number for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Number for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

/// The numbers of a vector, where they lie.
#[derive(Debug, Clone, Copy)]
pub enum Vector<'a> {
    Narrow(&'a [f32]),
    Wide(&'a [f64]),
}

/// Evaluates an expression with the numbers of a vector as a slice of their type.
macro_rules! by_width {
    ($vector:expr, |$numbers:ident| $value:expr) => {
        match $vector {
            $crate::vector::width::Vector::Narrow($numbers) => $value,
            $crate::vector::width::Vector::Wide($numbers) => $value,
        }
    };
}
pub(crate) use by_width;

impl<'a> Vector<'a> {
    /// A vector of no dimensions.
    pub const EMPTY: Self = Self::Wide(&[]);

    #[inline]
    pub fn len(self) -> usize {
        by_width!(self, |numbers| numbers.len())
    }

    /// The number of a dimension, where it has one.
    #[inline]
    pub fn get(self, dimension: usize) -> Option<f64> {
        by_width!(self, |numbers| numbers.get(dimension).map(|number| number.wide()))
    }

    /// The numbers of some dimensions.
    ///
    /// # Panics
    ///
    /// When the vector has fewer.
    #[inline]
    pub fn part(self, dimensions: Range<usize>) -> Self {
        match self {
            Self::Narrow(numbers) => Self::Narrow(&numbers[dimensions]),
            Self::Wide(numbers) => Self::Wide(&numbers[dimensions]),
        }
    }

    #[inline]
    pub fn iter(self) -> Iter<'a> {
        match self {
            Self::Narrow(numbers) => Iter::Narrow(numbers.iter()),
            Self::Wide(numbers) => Iter::Wide(numbers.iter()),
        }
    }

    /// Has the first numbers brought near, `bytes` of them about.
    #[inline]
    pub fn prefetch(self, bytes: usize) {
        by_width!(self, |numbers| {
            let whole = std::mem::size_of_val(numbers).min(bytes);
            let first = numbers.as_ptr().cast::<u8>();
            (0..whole).step_by(CACHE_LINE).for_each(|at| prefetch(first.wrapping_add(at)));
        });
    }

    /// Whether the numbers of both are the same to the bit, as `f64`.
    pub(super) fn is_same(self, other: Self) -> bool {
        let are_same = by_width!(self, |a| by_width!(other, |b| {
            a.iter().zip(b).all(|(a, b)| a.wide().to_bits() == b.wide().to_bits())
        }));
        self.len() == other.len() && are_same
    }
}

impl<'a, N: AsRef<[f64]> + ?Sized> From<&'a N> for Vector<'a> {
    fn from(numbers: &'a N) -> Self {
        Self::Wide(numbers.as_ref())
    }
}

impl<'a> IntoIterator for Vector<'a> {
    type Item = f64;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Two vectors of one length.
pub(super) type VectorPair<'a> = [Vector<'a>; 2];

/// The numbers of pairs whose vectors are all narrow.
#[inline]
pub(super) fn narrow_pairs<const N: usize>(
    pairs: [VectorPair<'_>; N],
) -> Option<[(&[f32], &[f32]); N]> {
    let mut all: [(&[f32], &[f32]); N] = [(&[], &[]); N];
    for (to, pair) in all.iter_mut().zip(pairs) {
        let [Vector::Narrow(x), Vector::Narrow(y)] = pair else { return None };
        *to = (x, y);
    }
    Some(all)
}

/// The numbers of pairs whose vectors are all wide.
#[inline]
pub(super) fn wide_pairs<const N: usize>(
    pairs: [VectorPair<'_>; N],
) -> Option<[(&[f64], &[f64]); N]> {
    let mut all: [(&[f64], &[f64]); N] = [(&[], &[]); N];
    for (to, pair) in all.iter_mut().zip(pairs) {
        let [Vector::Wide(x), Vector::Wide(y)] = pair else { return None };
        *to = (x, y);
    }
    Some(all)
}

/// The numbers of a vector one after the other.
#[derive(Debug, Clone)]
pub enum Iter<'a> {
    Narrow(std::slice::Iter<'a, f32>),
    Wide(std::slice::Iter<'a, f64>),
}

impl Iterator for Iter<'_> {
    type Item = f64;

    #[inline]
    fn next(&mut self) -> Option<f64> {
        match self {
            Self::Narrow(numbers) => numbers.next().map(|number| number.wide()),
            Self::Wide(numbers) => numbers.next().copied(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Narrow(numbers) => numbers.size_hint(),
            Self::Wide(numbers) => numbers.size_hint(),
        }
    }

    #[inline]
    fn fold<B, G: FnMut(B, f64) -> B>(self, first: B, mut with: G) -> B {
        match self {
            Self::Narrow(numbers) => numbers.fold(first, |all, number| with(all, number.wide())),
            Self::Wide(numbers) => numbers.fold(first, |all, number| with(all, *number)),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// The numbers of vectors, one vector behind the other.
#[derive(Debug, Clone)]
pub enum VectorNumbers {
    Narrow(Vec<f32>),
    Wide(Vec<f64>),
}

impl VectorNumbers {
    /// Nothing yet, with room for some numbers.
    pub(super) fn with_room(is_narrow: bool, count: usize) -> Self {
        match is_narrow {
            true => Self::Narrow(Vec::with_capacity(count)),
            false => Self::Wide(Vec::with_capacity(count)),
        }
    }

    pub(super) fn is_narrow(&self) -> bool {
        matches!(self, Self::Narrow(_))
    }

    /// All numbers.
    #[inline]
    pub(super) fn all(&self) -> Vector<'_> {
        match self {
            Self::Narrow(numbers) => Vector::Narrow(numbers),
            Self::Wide(numbers) => Vector::Wide(numbers),
        }
    }

    /// The number of numbers.
    #[inline]
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Some of the numbers.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    #[inline]
    pub(super) fn vector(&self, places: Range<usize>) -> Vector<'_> {
        self.all().part(places)
    }

    /// The bytes allocated.
    pub(super) fn size_in_bytes(&self) -> usize {
        self.room() * self.element_bytes()
    }

    /// Adds numbers: `narrow` adds `f32`, `wide` adds `f64`. A list of one width takes numbers of the other as
    /// `f64`, to which its own are converted.
    pub(super) fn add(
        &mut self,
        is_narrow: bool,
        narrow: impl FnOnce(&mut Vec<f32>),
        wide: impl FnOnce(&mut Vec<f64>),
    ) {
        match self {
            Self::Wide(numbers) if is_narrow && numbers.is_empty() => {
                let mut own = vec![];
                narrow(&mut own);
                *self = Self::Narrow(own);
            }
            Self::Wide(numbers) => wide(numbers),
            Self::Narrow(numbers) if is_narrow => narrow(numbers),
            Self::Narrow(numbers) => {
                let mut all = numbers.iter().map(|number| number.wide()).collect();
                wide(&mut all);
                *self = Self::Wide(all);
            }
        }
    }
}

impl Default for VectorNumbers {
    fn default() -> Self {
        Self::Wide(vec![])
    }
}

impl From<Vec<f64>> for VectorNumbers {
    fn from(numbers: Vec<f64>) -> Self {
        Self::Wide(numbers)
    }
}

impl RowContent for VectorNumbers {
    fn element_bytes(&self) -> usize {
        match self {
            Self::Narrow(_) => size_of::<f32>(),
            Self::Wide(_) => size_of::<f64>(),
        }
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn room(&self) -> usize {
        match self {
            Self::Narrow(numbers) => numbers.capacity(),
            Self::Wide(numbers) => numbers.capacity(),
        }
    }

    fn truncate(&mut self, count: usize) {
        match self {
            Self::Narrow(numbers) => numbers.truncate(count),
            Self::Wide(numbers) => numbers.truncate(count),
        }
    }
}

/// Makes all numbers `f32`.
#[cfg(test)]
pub(super) fn round(vector: &mut [f64]) {
    vector.iter_mut().for_each(|number| *number = f64::from(*number as f32));
}

#[cfg(test)]
impl VectorNumbers {
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        match self {
            Self::Wide(numbers) => numbers.iter_mut(),
            Self::Narrow(_) => panic!("numbers that are no f64"),
        }
    }
}

impl VectorNumbers {
    /// Makes the numbers `f32`, where all of them are that.
    pub(super) fn narrowed(self) -> Self {
        let narrow: Vec<f32> = self.all().iter().map(|number| number as f32).collect();
        match narrow.iter().zip(self.all()).all(|(a, b)| a.wide().to_bits() == b.to_bits()) {
            true => Self::Narrow(narrow),
            false => self,
        }
    }

    /// Adds numbers.
    pub fn extend(&mut self, numbers: impl IntoIterator<Item = f64>) {
        self.add(false, |_| {}, |wide| wide.extend(numbers));
    }

    /// Adds numbers.
    pub fn extend_from_slice(&mut self, numbers: &[f64]) {
        self.extend(numbers.iter().copied());
    }
}
