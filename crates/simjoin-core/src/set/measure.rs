//! The similarity measures and the exact integer bounds that follow from a threshold.
//!
//! [`Measure::value`] is the one definition of every measure: the scalar functions, the bounds
//! below and the scores of the join all call it. A [`Bounds`] pairs a measure with the least
//! qualifying value `t*` and answers, in integers, which sizes, prefixes and overlaps can still
//! reach it. No bound is computed as `ceil(t * x)`: each one is the least or greatest integer for
//! which `Measure::value(..) >= t*` holds, found on the monotone function itself, so that no pair
//! exactly at the threshold is lost to rounding.

use std::fmt;
use std::str::FromStr;

use arrow::datatypes::DataType;

use crate::error::{Result, internal_err};
use crate::predicate::{Call, Function, FunctionInfo, Order, Predicate, Side};

/// The name of the family.
pub(crate) const FAMILY: &str = "set";

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
        least_similar: "disjoint sets, whose similarity is 0, satisfy it; the threshold must be above 0",
    }
}

/// By the number of the measure.
static FUNCTIONS: [FunctionInfo; 6] = [
    info("jaccard"),
    info("dice"),
    info("set_cosine"),
    FunctionInfo {
        data_type: |_| DataType::Int64,
        example: ">= 3",
        range: [0.0, u32::MAX as f64],
        ..info("overlap")
    },
    info("overlap_coefficient"),
    FunctionInfo { is_symmetric: false, ..info("containment") },
];

/// A similarity measure over two sets `a`, `b` with overlap `o = |a ∩ b|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// `o / (|a| + |b| - o)`
    Jaccard,
    /// `2o / (|a| + |b|)`
    Dice,
    /// `o / sqrt(|a| * |b|)`, the product taken in `u64`
    Cosine,
    /// `o`
    Overlap,
    /// `o / min(|a|, |b|)`
    OverlapCoefficient,
    /// `o / |a|`: the share of the first argument that the second contains
    Containment,
}

/// The argument of the measure that a set is. It matters for [`Measure::Containment`] only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The first argument.
    First,
    /// The second argument.
    Second,
}

impl Role {
    /// The role of the argument that `side` gives.
    pub fn of(call: Call, side: Side) -> Self {
        if side == call.first { Role::First } else { Role::Second }
    }

    /// The role of the partner.
    pub fn other(self) -> Self {
        match self {
            Role::First => Role::Second,
            Role::Second => Role::First,
        }
    }
}

impl Measure {
    /// Every measure, in the order of the documentation.
    pub const ALL: [Measure; 6] = [
        Measure::Jaccard,
        Measure::Dice,
        Measure::Cosine,
        Measure::Overlap,
        Measure::OverlapCoefficient,
        Measure::Containment,
    ];

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
            None => internal_err!("{function:?} is no measure of sets"),
        }
    }

    /// The name of the SQL function.
    pub fn name(self) -> &'static str {
        self.function().name()
    }

    /// The other names under which SQL knows the function.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            Measure::Jaccard => {
                &["array_jaccard", "list_jaccard", "jaccard_similarity", "jaccard_index"]
            }
            Measure::Dice => &["sorensen_dice"],
            Measure::Overlap => &["intersection_size"],
            Measure::Cosine | Measure::OverlapCoefficient | Measure::Containment => &[],
        }
    }

    /// Whether the value is an integer (`Int64` in SQL) rather than a `Float64`.
    pub fn is_integer(self) -> bool {
        self == Self::Overlap
    }

    /// Whether both arguments may be swapped without changing the value.
    pub fn is_symmetric(self) -> bool {
        self.function().is_symmetric()
    }

    /// The value for overlap `o` and sizes `a`, `b`; 0 when either set is empty.
    ///
    /// `o <= min(a, b)`. Monotone (never falling) in `o` for fixed sizes.
    #[inline]
    pub fn value(self, o: u64, a: u64, b: u64) -> f64 {
        if a == 0 || b == 0 {
            return 0.0;
        }
        match self {
            Measure::Jaccard => o as f64 / (a + b - o) as f64,
            Measure::Dice => (2 * o) as f64 / (a + b) as f64,
            Measure::Cosine => o as f64 / ((a * b) as f64).sqrt(),
            Measure::Overlap => o as f64,
            Measure::OverlapCoefficient => o as f64 / a.min(b) as f64,
            Measure::Containment => o as f64 / a as f64,
        }
    }

    /// The measure of a set in role `role` and size `size` with a partner of size `partner`.
    #[inline]
    pub fn value_in_role(self, o: u64, role: Role, size: u64, partner: u64) -> f64 {
        match role {
            Role::First => self.value(o, size, partner),
            Role::Second => self.value(o, partner, size),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Measure {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Measure::ALL.into_iter().find(|m| m.name() == name || m.aliases().contains(&name)).ok_or(())
    }
}

/// A measure with its least qualifying value `t*`: a pair matches iff `value >= t*`.
///
/// `t*` must be positive or NaN; NaN and values beyond the measure's range qualify no pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The measure.
    pub measure: Measure,
    /// The least value that qualifies.
    pub threshold: f64,
}

/// Sets larger than this many tokens do not fit the `u32` overlaps of the engine.
pub const MAX_SET_SIZE: u32 = u32::MAX - 1;

impl Bounds {
    /// The bounds of a predicate of the family.
    ///
    /// # Errors
    ///
    /// An internal error when another family has the function.
    pub fn of(predicate: &Predicate) -> Result<Self> {
        Ok(Self::new(Measure::of(predicate.call.function)?, predicate.bound))
    }

    /// The bounds of `measure(x, y) >= threshold`.
    pub fn new(measure: Measure, threshold: f64) -> Self {
        Self { measure, threshold }
    }

    #[inline]
    fn qualifies(&self, o: u64, role: Role, size: u64, partner: u64) -> bool {
        self.measure.value_in_role(o, role, size, partner) >= self.threshold
    }

    /// Whether sets of these sizes can match at all (when one contains the other).
    #[inline]
    pub fn sizes_can_match(&self, role: Role, size: u32, partner: u32) -> bool {
        let (s, p) = (u64::from(size), u64::from(partner));
        s > 0 && p > 0 && self.qualifies(s.min(p), role, s, p)
    }

    /// The least overlap with which sets of these sizes match; `None` if none does.
    pub fn min_overlap(&self, role: Role, size: u32, partner: u32) -> Option<u32> {
        if !self.sizes_can_match(role, size, partner) {
            return None;
        }
        let (s, p) = (u64::from(size), u64::from(partner));
        let most = s.min(p);
        // A guess by the measure's real-valued inverse, then steps on the exact predicate. The
        // guess is within a step or two of the answer, so the loops are short.
        let t = self.threshold;
        let guess = match self.measure {
            Measure::Jaccard => t / (1.0 + t) * (s + p) as f64,
            Measure::Dice => t * (s + p) as f64 / 2.0,
            Measure::Cosine => t * ((s * p) as f64).sqrt(),
            Measure::Overlap => t,
            Measure::OverlapCoefficient => t * most as f64,
            Measure::Containment => {
                t * match role {
                    Role::First => s as f64,
                    Role::Second => p as f64,
                }
            }
        };
        // `as` saturates, so that infinities and NaN stay in range.
        let mut o = (guess as u64).clamp(1, most);
        while o > 1 && self.qualifies(o - 1, role, s, p) {
            o -= 1;
        }
        while !self.qualifies(o, role, s, p) {
            o += 1;
        }
        Some(o as u32)
    }

    /// [`Self::min_overlap`] of sizes that can match, when it is known to be no less than `least`:
    /// for partners of ascending sizes, the required overlap of the one before.
    #[inline]
    pub fn min_overlap_from(&self, role: Role, size: u32, partner: u32, least: u32) -> u32 {
        let (s, p) = (u64::from(size), u64::from(partner));
        let mut o = u64::from(least);
        if o + 8 < s.min(p) && !self.qualifies(o + 8, role, s, p) {
            return self.min_overlap(role, size, partner).unwrap_or(u32::MAX);
        }
        while o < s.min(p) && !self.qualifies(o, role, s, p) {
            o += 1;
        }
        o as u32
    }

    /// The sizes `(least, greatest)` that a partner of a set of this size can have, both
    /// inclusive and within `1..=MAX_SET_SIZE`; `None` when no partner matches.
    pub fn size_range(&self, role: Role, size: u32) -> Option<(u32, u32)> {
        // The best value, with one set inside the other, never falls while the partner grows up
        // to `size`, and never rises beyond: two binary searches around `size`.
        if !self.sizes_can_match(role, size, size) {
            // `overlap(a, b) >= t` with t > size, or a threshold beyond the measure's range.
            return None;
        }
        let least = partition(1, size, |p| self.sizes_can_match(role, size, p));
        // The greatest is a small multiple of `size` mostly.
        let mut high = size;
        while high < MAX_SET_SIZE && self.sizes_can_match(role, size, high) {
            high = high.saturating_mul(2).min(MAX_SET_SIZE);
        }
        let low = (high / 2).max(size);
        let beyond = partition(low, high, |p| !self.sizes_can_match(role, size, p));
        let greatest = if self.sizes_can_match(role, size, beyond) { beyond } else { beyond - 1 };
        Some((least, greatest))
    }

    /// The least overlap of a set of this size with any admissible partner of at least
    /// `least_partner` tokens; `None` when no such partner matches.
    pub fn least_overlap(&self, role: Role, size: u32, least_partner: u32) -> Option<u32> {
        let (least, greatest) = self.size_range(role, size)?;
        let partner = least.max(least_partner);
        if partner > greatest {
            return None;
        }
        // The required overlap never falls while the partner grows, for every measure and role.
        self.min_overlap(role, size, partner)
    }

    /// The number of the set's tokens, rarest first, that can hold its first common token with a
    /// partner of at least `least_partner` tokens: `size - least overlap + 1`, 0 when no partner
    /// matches.
    pub fn prefix_len(&self, role: Role, size: u32, least_partner: u32) -> u32 {
        match self.least_overlap(role, size, least_partner) {
            Some(overlap) => size - overlap + 1,
            None => 0,
        }
    }
}

/// The least `x` in `low..=high` with `holds(x)`, where `holds` is monotone; `high` when none.
fn partition(mut low: u32, mut high: u32, holds: impl Fn(u32) -> bool) -> u32 {
    while low < high {
        let mid = low + (high - low) / 2;
        if holds(mid) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: [f64; 14] = [
        f64::MIN_POSITIVE,
        0.1,
        0.3,
        0.5,
        2.0 / 3.0,
        0.7,
        0.75,
        0.8,
        0.9,
        0.95,
        1.0,
        1.0000000000000002,
        3.0,
        f64::NAN,
    ];

    /// Every bound is the one that trying all overlaps and sizes gives.
    #[test]
    fn bounds_equal_exhaustive_search() {
        const MAX: u32 = 40;
        for measure in Measure::ALL {
            for t in THRESHOLDS {
                let bounds = Bounds::new(measure, t);
                for role in [Role::First, Role::Second] {
                    for size in 1..=MAX {
                        let least = |p: u32| {
                            (1..=size.min(p)).find(|&o| {
                                measure.value_in_role(o.into(), role, size.into(), p.into()) >= t
                            })
                        };
                        let range = bounds.size_range(role, size);
                        for partner in 1..=4 * MAX {
                            let expected = least(partner);
                            assert_eq!(
                                bounds.min_overlap(role, size, partner),
                                expected,
                                "{measure} {t} {role:?} {size} {partner}"
                            );
                            if let (Some(o), true) = (expected, partner > 1) {
                                let before = least(partner - 1).unwrap_or(1);
                                for from in [1, before, o] {
                                    let found = bounds.min_overlap_from(role, size, partner, from);
                                    assert_eq!(found, o, "{measure} {t} {size} {partner}");
                                }
                            }
                            let inside =
                                range.is_some_and(|(lo, hi)| lo <= partner && partner <= hi);
                            assert_eq!(inside, expected.is_some(), "{measure} {t} {size}");
                        }
                        for least_partner in [1, size / 2 + 1, size, size + 3] {
                            let expected = (least_partner..=40 * MAX).filter_map(least).min();
                            let found = bounds.least_overlap(role, size, least_partner);
                            assert_eq!(found, expected, "{measure} {t} {role:?} {size}");
                        }
                    }
                }
            }
        }
    }

    /// The case that a well-known framework gets wrong by rounding `t * x` upwards.
    #[test]
    fn nineteen_tokens_at_nine_tenths_need_eighteen() {
        let bounds = Bounds::new(Measure::Jaccard, 0.9);
        assert_eq!(bounds.min_overlap(Role::First, 19, 19), Some(18));
    }

    #[test]
    fn large_sizes_stay_exact() {
        for measure in Measure::ALL {
            for t in [0.5, 0.9, 1.0] {
                let bounds = Bounds::new(measure, t);
                let (a, b) = (3_000_000_019_u32, 3_000_000_000_u32);
                if let Some(o) = bounds.min_overlap(Role::First, a, b) {
                    let value = |o: u32| measure.value(o.into(), a.into(), b.into());
                    assert!(value(o) >= t && (o == 1 || value(o - 1) < t), "{measure} {t}");
                }
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for measure in Measure::ALL {
            for name in measure.aliases().iter().chain([&measure.name()]) {
                assert_eq!(name.parse(), Ok(measure));
            }
        }
        assert_eq!("cosine_similarity".parse::<Measure>(), Err(()));
    }
}
