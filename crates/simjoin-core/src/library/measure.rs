//! The functions by which rows are joined, under one name each.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use super::devices::Devices;
use crate::engine::{AnyMatcher, Argument, Family, Origin, Placement};
use crate::error::{Error, Result, plan_err, plan_error};
use crate::predicate::{Call, Function, NanScore, Order, Predicate, Side};
use crate::set::{self, SetFamily};
use crate::string::{StringFamily, StringFunction};
use crate::values::{TextTokenizer, list_element_type};
use crate::vector::{Metric, VectorFamily};
use crate::weighted::{WeightedFamily, WeightedMeasure};

/// A similarity or a distance of two rows: of two sets, two texts, two vectors or two weighted sets.
///
/// The value is the stated expression, computed in `f64` from left to right. `o` is the number of
/// common elements of two sets `a` and `b`, `|a|` the number of distinct elements of `a`. Texts are
/// sequences of Unicode scalar values. Weighted sets are lists of structs with the fields `token` and `weight`, a whole
/// number; `A` is the sum of the weights of `a`, `a²` that of their squares, `m` the sum of the lesser weights of common
/// tokens, `p` that of the products of their weights.
///
/// A NULL row has no value, and so matches nothing. NULL elements of a set are ignored; a set without
/// elements has the similarity 0 to every set. A vector with a NULL element or with NaN matches
/// nothing.
///
/// ```
/// use simjoin_core::Measure;
///
/// let measure: Measure = "jaccard".parse()?;
/// assert_eq!(measure, Measure::Jaccard);
/// assert!(Measure::Levenshtein.is_distance() && !measure.is_distance());
/// # Ok::<(), simjoin_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Measure {
    /// Sets: o / (|a| + |b| − o).
    Jaccard,
    /// Sets: 2o / (|a| + |b|).
    Dice,
    /// Sets: o / √(|a| · |b|).
    SetCosine,
    /// Sets: o.
    Overlap,
    /// Sets: o / min(|a|, |b|).
    OverlapCoefficient,
    /// Sets: o / |a|, the share of the left set that the right one contains.
    Containment,
    /// Texts: the fewest insertions, deletions and replacements.
    Levenshtein,
    /// Texts: 1 − levenshtein / max(|a|, |b|); 1 for two empty texts.
    LevenshteinSimilarity,
    /// Texts: the fewest insertions, deletions, replacements and exchanges of neighbours, between
    /// which edits may stand.
    DamerauLevenshtein,
    /// Texts: 1 − (fewest insertions and deletions) / (|a| + |b|); 1 for two empty texts.
    IndelSimilarity,
    /// Texts: the number of places that differ. Texts of different lengths that meet are an error.
    Hamming,
    /// Texts: Jaro's similarity.
    Jaro,
    /// Texts: Jaro's similarity, where it is above 0.7 raised by 0.1 of what it lacks to 1 for each of
    /// up to four characters that both begin with.
    JaroWinkler,
    /// Vectors: the Euclidean distance.
    Euclidean,
    /// Vectors: 1 − the cosine of the angle. A vector of zeros matches nothing.
    CosineDistance,
    /// Vectors: the inner product, a similarity.
    InnerProduct,
    /// Weighted sets: m / (A + B − m).
    WeightedJaccard,
    /// Weighted sets: 2m / (A + B).
    WeightedDice,
    /// Weighted sets: p / √(a² · b²), at most 1.
    WeightedCosine,
    /// Weighted sets: m / A, the share of the left set that the right one contains.
    WeightedContainment,
    /// Weighted sets: p.
    WeightedOverlap,
}

/// The content of the rows that a measure compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparedContent {
    Sets,
    Texts,
    Vectors,
    WeightedSets,
}

impl Measure {
    /// Every measure.
    pub const ALL: [Self; 21] = [
        Self::Jaccard,
        Self::Dice,
        Self::SetCosine,
        Self::Overlap,
        Self::OverlapCoefficient,
        Self::Containment,
        Self::Levenshtein,
        Self::LevenshteinSimilarity,
        Self::DamerauLevenshtein,
        Self::IndelSimilarity,
        Self::Hamming,
        Self::Jaro,
        Self::JaroWinkler,
        Self::Euclidean,
        Self::CosineDistance,
        Self::InnerProduct,
        Self::WeightedJaccard,
        Self::WeightedDice,
        Self::WeightedCosine,
        Self::WeightedContainment,
        Self::WeightedOverlap,
    ];

    /// The name, which is that of the function in SQL: `jaccard`, `levenshtein`, `cosine_distance`.
    pub fn name(self) -> &'static str {
        self.function().name()
    }

    /// Whether lesser values are more similar, so that a threshold is an upper bound.
    pub fn is_distance(self) -> bool {
        self.function().info().order == Order::Distance
    }

    /// Whether the value is the same with both rows exchanged. All measures are symmetric but
    /// [`Measure::Containment`] and [`Measure::WeightedContainment`].
    pub fn is_symmetric(self) -> bool {
        self.function().is_symmetric()
    }

    /// The names of the strategies that run on the CPU and find pairs by a predicate.
    pub(super) fn strategies(self, predicate: Predicate) -> Vec<&'static str> {
        let data_type = match self.content() {
            ComparedContent::Sets => DataType::new_list(DataType::Int32, true),
            ComparedContent::Texts => DataType::Utf8,
            ComparedContent::Vectors => DataType::new_list(DataType::Float64, true),
            ComparedContent::WeightedSets => DataType::Null,
        };
        match self.bind(predicate, [&data_type, &data_type], (None, Devices::default())) {
            Ok(matcher) => {
                let all = matcher.strategies().into_iter();
                all.filter(|info| info.runs_on(Placement::Cpu)).map(|info| info.name()).collect()
            }
            Err(_) => vec![],
        }
    }

    fn content(self) -> ComparedContent {
        match self {
            Self::Jaccard
            | Self::Dice
            | Self::SetCosine
            | Self::Overlap
            | Self::OverlapCoefficient
            | Self::Containment => ComparedContent::Sets,
            Self::Levenshtein
            | Self::LevenshteinSimilarity
            | Self::DamerauLevenshtein
            | Self::IndelSimilarity
            | Self::Hamming
            | Self::Jaro
            | Self::JaroWinkler => ComparedContent::Texts,
            Self::Euclidean | Self::CosineDistance | Self::InnerProduct => ComparedContent::Vectors,
            Self::WeightedJaccard
            | Self::WeightedDice
            | Self::WeightedCosine
            | Self::WeightedContainment
            | Self::WeightedOverlap => ComparedContent::WeightedSets,
        }
    }

    pub(super) fn function(self) -> Function {
        match self {
            Self::Jaccard => set::Measure::Jaccard.function(),
            Self::Dice => set::Measure::Dice.function(),
            Self::SetCosine => set::Measure::Cosine.function(),
            Self::Overlap => set::Measure::Overlap.function(),
            Self::OverlapCoefficient => set::Measure::OverlapCoefficient.function(),
            Self::Containment => set::Measure::Containment.function(),
            Self::Levenshtein => StringFunction::Levenshtein.function(),
            Self::LevenshteinSimilarity => StringFunction::LevenshteinSimilarity.function(),
            Self::DamerauLevenshtein => StringFunction::DamerauLevenshtein.function(),
            Self::IndelSimilarity => StringFunction::IndelSimilarity.function(),
            Self::Hamming => StringFunction::Hamming.function(),
            Self::Jaro => StringFunction::Jaro.function(),
            Self::JaroWinkler => StringFunction::JaroWinkler.function(),
            Self::Euclidean => Metric::Euclidean.function(),
            Self::CosineDistance => Metric::Cosine.function(),
            Self::InnerProduct => Metric::InnerProduct.function(),
            Self::WeightedJaccard => WeightedMeasure::Jaccard.function(),
            Self::WeightedDice => WeightedMeasure::Dice.function(),
            Self::WeightedCosine => WeightedMeasure::Cosine.function(),
            Self::WeightedContainment => WeightedMeasure::Containment.function(),
            Self::WeightedOverlap => WeightedMeasure::Overlap.function(),
        }
    }

    /// The predicate that bounds the measure by a value that is included.
    pub(super) fn predicate(self, bound: f64) -> Predicate {
        let call = Call { function: self.function(), first: Side::Left };
        let nan = NanScore::Ordered;
        Predicate { call, bound, nan }.without_nan()
    }

    /// The predicate of a threshold, which is `strict` where the value itself is excluded.
    ///
    /// # Errors
    ///
    /// A plan error where the least similar rows satisfy the threshold, as all pairs would match.
    pub(super) fn threshold(self, threshold: f64, strict: bool) -> Result<Predicate> {
        let predicate = self.predicate(self.bound(threshold, strict));
        if predicate.admits_all() {
            return plan_err!(
                "{self} with the threshold {threshold} matches all rows: {}",
                predicate.call.function.info().least_similar
            );
        }
        Ok(predicate)
    }

    /// The bound of a threshold. Zeros are equal, whatever their sign; families tell them apart.
    pub(super) fn bound(self, threshold: f64, strict: bool) -> f64 {
        match (self.is_distance(), strict) {
            (false, false) if threshold == 0.0 => -0.0,
            (true, false) if threshold == 0.0 => 0.0,
            (_, false) => threshold,
            (false, true) if threshold == f64::INFINITY => f64::NAN,
            (true, true) if threshold == f64::NEG_INFINITY => f64::NAN,
            (false, true) => threshold.next_up(),
            (true, true) => threshold.next_down(),
        }
    }

    /// The family of the measure, with strategies on devices.
    pub(super) fn family(self, devices: Devices) -> Arc<dyn Family> {
        let Devices { of_sets, of_texts, of_vectors, nearest_vectors } = devices;
        match self.content() {
            ComparedContent::Sets => Arc::new(SetFamily::default().with_devices(of_sets)),
            ComparedContent::Texts => Arc::new(StringFamily::default().with_devices(of_texts)),
            ComparedContent::Vectors => {
                Arc::new(VectorFamily::default().with_devices(of_vectors, nearest_vectors))
            }
            ComparedContent::WeightedSets => Arc::new(WeightedFamily),
        }
    }

    /// The types of the arguments of columns of these types, each with what it is made of. A
    /// tokenizer makes sets of texts.
    pub(super) fn argument(
        self,
        data_type: &DataType,
        tokenizer: Option<TextTokenizer>,
    ) -> (DataType, Option<Origin>) {
        match (self.content(), tokenizer) {
            (ComparedContent::Sets, Some(tokenizer)) if is_text(data_type) => {
                let tokens = DataType::new_list(DataType::Utf8, true);
                (tokens, Some(Origin::Computed(Arc::new(tokenizer))))
            }
            (ComparedContent::Vectors, _) if has_numbers(data_type) => {
                let field = Arc::new(Field::new_list_field(DataType::Float64, true));
                (DataType::List(field), Some(Origin::Cast(data_type.clone())))
            }
            _ => (data_type.clone(), None),
        }
    }

    /// A predicate over columns of these types (left, right).
    ///
    /// # Errors
    ///
    /// A plan error that names the types when they cannot be joined.
    pub(super) fn bind(
        self,
        predicate: Predicate,
        types: [&DataType; 2],
        (tokenizer, devices): (Option<TextTokenizer>, Devices),
    ) -> Result<Arc<dyn AnyMatcher>> {
        let arguments = types.map(|data_type| self.argument(data_type, tokenizer));
        let arguments = arguments
            .each_ref()
            .map(|(data_type, origin)| Argument { data_type, origin: origin.as_ref() });
        self.family(devices).bind(predicate, arguments)
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

fn has_numbers(data_type: &DataType) -> bool {
    list_element_type(data_type).is_some_and(|e| e.is_integer() || e.is_floating())
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Measure {
    type Err = Error;

    /// The measure of a [name](Measure::name).
    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|measure| measure.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            plan_error!("{name:?} is no measure; use one of {names}")
        })
    }
}
