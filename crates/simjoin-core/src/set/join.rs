//! A join whose strategies are compared, and what they share for it.

use std::any::Any;
use std::sync::Arc;

use crate::engine::PrepareContext;
use crate::error::Result;
use crate::set::collection::SetCollection;
use crate::set::filter::{SignatureScheme, SuffixTest};
use crate::set::join_spec::JoinSpec;
use crate::set::sample::{SampleExtent, Sampled, expected_share};
use crate::set::statistics::Statistics;

/// Joins estimated to take less (nanoseconds of a core) are not worth a sample.
const WORTH_SAMPLING: f64 = 3e6;

/// A build collection, the join it is for, and the figures that several strategies need.
#[derive(Debug)]
pub struct SetJoin {
    pub build: Arc<SetCollection>,
    pub spec: JoinSpec,
    pub statistics: Statistics,
    /// The nanoseconds of a core that an index of prefixes takes, by the statistics alone.
    pub indexed: f64,
    /// The least of this and what sliced columns take.
    pub quickest: f64,
    /// Estimates of the nanoseconds of an index of prefixes and of sliced columns.
    estimates: [fn(&Self) -> f64; 2],
    /// Pairs of sets that have been tried, once a strategy needs them.
    sampled: Option<Sampled>,
    /// Figures of which the strategies alone know the types.
    figures: Vec<Arc<dyn Any + Send + Sync>>,
}

impl SetJoin {
    /// A join of which no pairs have been tried. `indexed` gives [`Self::indexed`], `sliced` the nanoseconds of
    /// a core that sliced columns take.
    pub fn new(
        build: Arc<SetCollection>,
        spec: JoinSpec,
        statistics: Statistics,
        indexed: fn(&Self) -> f64,
        sliced: fn(&Self) -> f64,
    ) -> Self {
        let mut join = Self {
            build,
            spec,
            statistics,
            indexed: 0.0,
            quickest: 0.0,
            estimates: [indexed, sliced],
            sampled: None,
            figures: vec![],
        };
        join.indexed = indexed(&join);
        join.quickest = join.quickest_so_far();
        join
    }

    /// [`Self::quickest`] by the pairs that have been tried, too.
    pub(crate) fn quickest_so_far(&self) -> f64 {
        self.estimates.iter().fold(f64::INFINITY, |least, nanos| least.min(nanos(self)))
    }

    /// Whether the join takes so long that a sample pays.
    pub fn is_long(&self) -> bool {
        self.quickest > WORTH_SAMPLING
    }

    /// Tries pairs of sets, unless that has been done, in about a hundredth of the time that the join
    /// takes: some hundred microseconds at most.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub fn sample(&mut self, context: PrepareContext<'_>) -> Result<()> {
        self.sample_to(SampleExtent::Full, context)
    }

    /// Tries the signatures of a few pairs, in some ten microseconds, where no pairs have been tried and `nanos`,
    /// the time of a strategy for which no signature lets a pair pass, is not far above that of the quickest other.
    ///
    /// # Errors
    ///
    /// When the work is cancelled.
    pub(crate) fn sample_signatures(
        &mut self,
        nanos: f64,
        context: PrepareContext<'_>,
    ) -> Result<()> {
        /// Shorter joins are not worth it.
        const LEAST: f64 = 5e5;
        const FAR: f64 = 2.0;
        if self.quickest > LEAST && nanos < FAR * self.quickest {
            self.sample_to(SampleExtent::Brief, context)?;
        }
        Ok(())
    }

    fn sample_to(&mut self, extent: SampleExtent, context: PrepareContext<'_>) -> Result<()> {
        if self.sampled.is_none() {
            let Self { build, spec, statistics, quickest, .. } = self;
            let how = (*quickest, extent);
            self.sampled = Some(Sampled::draw(build, spec, statistics, how, context)?);
        }
        Ok(())
    }

    /// The figures of a type, which are made once: strategies of one name share them.
    ///
    /// # Errors
    ///
    /// Where `make` fails.
    pub(crate) fn figure<T: Any + Send + Sync>(
        &mut self,
        make: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Arc<T>> {
        if let Some(figure) =
            self.figures.iter().find_map(|known| Arc::clone(known).downcast().ok())
        {
            return Ok(figure);
        }
        let figure = Arc::new(make(self)?);
        self.figures.push(Arc::clone(&figure) as _);
        Ok(figure)
    }

    /// Whether pairs of sets have been tried.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampled.is_some()
    }

    /// The share of admissible pairs that the first `words` words of their signatures let pass;
    /// 0 where nothing was sampled.
    pub fn signature_share(&self, words: usize) -> f64 {
        self.sampled.as_ref().map_or(0.0, |s| s.signatures.get(words - 1).copied().unwrap_or(0.0))
    }

    /// The scheme by which signatures are made.
    pub fn scheme(&self) -> SignatureScheme {
        match &self.sampled {
            Some(sampled) => sampled.scheme.clone(),
            None => SignatureScheme::fit(&self.build),
        }
    }

    /// Whether the signatures of a fitted scheme tell the overlap of every pair.
    pub(crate) fn has_exact_scheme(&self) -> bool {
        SignatureScheme::exact_words(&self.build).is_some()
    }

    /// Words of a signature.
    pub fn signature_words(&self) -> usize {
        self.sampled.as_ref().map_or(1, |s| s.scheme.words())
    }

    /// The share of postings that pass with signatures of `SuffixTest::WIDTHS[width]` words.
    pub fn suffix_share(&self, width: usize) -> f64 {
        match &self.sampled {
            Some(sampled) => sampled.suffixes[width],
            None => expected_share(self.statistics.average_size(), SuffixTest::WIDTHS[width]),
        }
    }

    /// The share of these whose sets' signatures let the pair pass.
    pub fn signed_share(&self, width: usize) -> f64 {
        self.sampled.as_ref().map_or(0.5, |s| s.signed[width])
    }
}
