//! The join whose strategies are compared, and the figures that they share.

use std::ops::Range;
use std::sync::Arc;

use super::boxes::{Codes, Elements, StringBoxes};
use super::collection::{Run, Strings};
use super::decide::Decider;
use super::finder::{Finder, ProbeCodes, SearchWork, Sought, boxes_bytes};
use super::gather::not_cancelled;
use super::threshold::{AllowedDifferences, Threshold};
use crate::engine::{ItemId, MatchSpec, Pairing, PrepareContext, SAMPLE_SHARE};
use crate::error::Result;
use crate::simd::{Form, Simd};
use crate::util::parallel::{map, threads_for};

/// A build side and what is asked of it.
#[derive(Debug, Clone)]
pub struct StringJoin {
    pub build: Arc<Strings>,
    pub threshold: Threshold,
    pub spec: MatchSpec,
    /// The index, once it has been made.
    boxes: Option<Arc<StringBoxes>>,
    /// The pairs of texts that match, for an index of deletions, once they have been estimated.
    sampled_pairs: Option<f64>,
    /// The work with boxes, which devices do too, once it has been sampled.
    sampled_work: Option<SampledWork>,
}

/// The work of a join, as a sample of build items shows it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampledWork {
    /// Nanoseconds of a core for all of it, and for the pairs that are decided one by one.
    pub cpu: f64,
    pub undecided: f64,
    /// Pairs whose lengths allow a match, and those that boxes leave.
    pub pairs: f64,
    pub compared: f64,
}

/// Probe texts of a sample, about, and the most of a larger one.
const SAMPLE: usize = 128;
const MOST_SAMPLE: usize = 2048;

/// Texts of a group.
const GROUP: f64 = 8.0;

/// Nanoseconds of the steps of a join, on an Intel Xeon with AVX-512.
mod rates {
    /// The time to take up a probe text, and a run for it.
    pub(super) const PROBE: f64 = 150.0;
    pub(super) const RUN: f64 = 60.0;
    /// The time to test eight boxes.
    pub(super) const BOXES: f64 = 2.5;
    /// The time to gather and compare 64 texts by lanes, and for each column of them.
    pub(super) const LANES: f64 = 10.0;
    pub(super) const COLUMN: f64 = 5.5;
    /// The time to begin comparing two texts by themselves, and for 64 pairs of their characters.
    pub(super) const PAIR: f64 = 40.0;
    pub(super) const WORD: f64 = 3.0;
    /// The time to index a text, and each of its characters.
    pub(super) const TEXT: f64 = 25.0;
    pub(super) const CHARACTER: f64 = 1.5;
}

/// The factor by which lanes and boxes are slower in a form than with AVX-512.
fn slowness(simd: Simd) -> f64 {
    match simd.form() {
        Form::Avx512 => 1.0,
        Form::Avx2 => 3.0,
        Form::Portable => 12.0,
    }
}

/// The nanoseconds to compare the pairs of a text of about `len` characters that are left one by one.
fn cost_of_open(met: &SearchWork, len: u32) -> f64 {
    let len = f64::from(len);
    met.open * (rates::PAIR + rates::WORD * len * (len / 64.0).ceil())
}

/// The nanoseconds to look at a slice for one text of about `len` characters, but for these pairs.
fn cost(met: &SearchWork, len: u32, simd: Simd) -> f64 {
    let len = f64::from(len);
    // Most lanes end after some columns.
    let columns = len.min(12.0);
    slowness(simd)
        * (rates::BOXES * (met.boxes + met.groups / 8.0)
            + met.lanes * (rates::LANES + rates::COLUMN * columns))
}

impl StringJoin {
    pub fn new(build: Arc<Strings>, threshold: Threshold, spec: MatchSpec) -> Self {
        Self { build, threshold, spec, boxes: None, sampled_pairs: None, sampled_work: None }
    }

    /// The index of the build side, made where it is first asked for.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub(super) fn boxes(&mut self, context: PrepareContext<'_>) -> Result<Arc<StringBoxes>> {
        if let Some(boxes) = &self.boxes {
            return Ok(Arc::clone(boxes));
        }
        let PrepareContext { reservation, cancel, .. } = context;
        let build = &self.build;
        let longest = build.longest();
        let keys = build.runs().chunk_by(|a, b| a.key == b.key).count().max(1);
        let (items, by_prefix) = (build.len() as usize, self.threshold.by_prefix());
        let bytes = boxes_bytes(items, build.codes.len(), longest, keys, by_prefix);
        reservation.try_grow(bytes)?;
        let stop = &mut || cancel.check().is_err();
        let codes = Codes { codes: &build.codes, starts: &build.code_starts };
        let bounds = build.bounds();
        let elements = match &build.elements {
            Some(elements) => elements.clone(),
            None => {
                let elements = Elements::choose(codes, &bounds, by_prefix, stop);
                not_cancelled(elements, cancel)?
            }
        };
        let boxes = StringBoxes::build(codes, &build.pages, &bounds, elements, stop);
        let boxes = not_cancelled(boxes, cancel)?;
        reservation.shrink(bytes.saturating_sub(boxes.bytes()).min(reservation.size()));
        let boxes = Arc::new(boxes);
        self.boxes = Some(Arc::clone(&boxes));
        Ok(boxes)
    }

    /// An estimate of the pairs of texts that match, if an index of deletions is a choice and the cost of boxes has
    /// been estimated.
    pub(super) fn sampled_pairs(&self) -> Option<f64> {
        self.sampled_pairs
    }

    /// The bytes of the index, if it has been made.
    pub(super) fn index_bytes(&self) -> usize {
        self.boxes.as_ref().map_or(0, |boxes| boxes.bytes())
    }

    /// Finds partners by an index of this build side.
    pub(super) fn finder(&self, boxes: &Arc<StringBoxes>, uses_boxes: bool) -> Finder {
        Finder::new(Arc::clone(boxes), uses_boxes, self.threshold, self.spec.simd)
    }

    /// The places of the runs that may match the items of a run of probe items, up to it where these are
    /// the build items and each pair is met once.
    pub fn partners(&self, run: &Run) -> Range<usize> {
        let mut runs = self.build.runs_within(run.key, &self.threshold.partner_lens(run.len));
        if self.spec.pairing() == Pairing::Unordered {
            let own = self.build.runs().partition_point(|of| of.items.start <= run.items.start);
            runs.end = runs.end.min(own);
        }
        runs
    }

    /// This join with another question.
    pub fn with_spec(&self, spec: MatchSpec) -> Self {
        Self { spec, sampled_work: None, ..self.clone() }
    }

    /// The work to make the index and to look all probe items up in it, by a sample of build items.
    ///
    /// # Errors
    ///
    /// When memory is refused, or the work cancelled.
    pub fn sampled_work(
        &mut self,
        uses_boxes: bool,
        context: PrepareContext<'_>,
    ) -> Result<SampledWork> {
        if let Some(work) = self.sampled_work.filter(|_| uses_boxes) {
            return Ok(work);
        }
        let boxes = self.boxes(context)?;
        let (build, items) = (&self.build, self.build.len() as f64);
        let take = |count| self.sample((&boxes, uses_boxes), count, context);
        let all = items * build.probe_ratio(&self.spec);
        let nanos = |sum: &SampleSum| (sum.work.cpu + sum.work.undecided) / sum.probes.max(1.0);
        // Where the quicker boxes are far ahead, few texts tell it.
        let least = self.sampled_work.map_or(f64::INFINITY, |work| work.cpu);
        let mut sum = SampleSum::default();
        if least.is_finite() {
            sum = take(SAMPLE / 8)?;
        }
        if all * nanos(&sum) < 2.0 * least {
            sum = take(SAMPLE)?;
            // A long join pays for a larger sample, which takes a nanosecond for each item that it looks at.
            let each = (sum.looked_at / sum.probes.max(1.0)).max(1.0);
            let more = ((SAMPLE_SHARE * all * nanos(&sum) / each) as usize).min(MOST_SAMPLE);
            if more > SAMPLE {
                sum.add(&take(more)?);
            }
        }
        let scale = all / sum.probes.max(1.0);
        let index = rates::TEXT * items + rates::CHARACTER * build.codes.len() as f64;
        let SampleSum { work, matches, .. } = sum;
        let work = SampledWork {
            cpu: index + scale * (work.cpu + work.undecided),
            undecided: scale * work.undecided,
            pairs: scale * work.pairs,
            compared: scale * work.compared,
        };
        if uses_boxes {
            self.sampled_pairs = self.threshold.deletions().map(|_| matches * scale);
            self.sampled_work = Some(work);
        }
        Ok(work)
    }

    /// The work of about `count` build texts as probes.
    fn sample(
        &self,
        (boxes, uses_boxes): (&Arc<StringBoxes>, bool),
        count: usize,
        context: PrepareContext<'_>,
    ) -> Result<SampleSum> {
        /// Probe texts that a thread takes at a time.
        const SHARE: usize = 8;
        let items = self.build.len() as usize;
        let step = (items / count).max(1);
        let probes: Vec<_> = (step / 2..items).step_by(step).map(|item| item as ItemId).collect();
        let threads = threads_for(context.threads, probes.len().saturating_mul(items));
        let sums = map(threads, probes.chunks(SHARE).collect(), |probes: &[ItemId]| {
            let mut sample = ProbeSample::new(self, self.finder(boxes, uses_boxes), uses_boxes);
            for &item in probes {
                context.cancel.check()?;
                sample.add(self, item);
            }
            Ok(sample.sum)
        })?;
        let mut all = SampleSum::default();
        sums.iter().for_each(|sum| all.add(sum));
        Ok(all)
    }
}

/// The sums over the probe texts of a sample.
#[derive(Debug, Clone, Copy, Default)]
struct SampleSum {
    work: SampledWork,
    matches: f64,
    probes: f64,
    /// The items that have been looked at.
    looked_at: f64,
}

impl SampleSum {
    fn add(&mut self, other: &Self) {
        let SampledWork { cpu, undecided, pairs, compared } = other.work;
        self.work.cpu += cpu;
        self.work.undecided += undecided;
        self.work.pairs += pairs;
        self.work.compared += compared;
        self.matches += other.matches;
        self.probes += other.probes;
        self.looked_at += other.looked_at;
    }
}

/// A sample of build texts as probes.
struct ProbeSample {
    finder: Finder,
    /// Decides what lanes leave, where an index of deletions is a choice: its candidates follow the matches.
    decider: Option<Decider>,
    found: Vec<(ItemId, u32)>,
    sum: SampleSum,
}

impl ProbeSample {
    fn new(join: &StringJoin, finder: Finder, uses_boxes: bool) -> Self {
        let decides = uses_boxes && join.threshold.deletions().is_some();
        Self {
            finder,
            decider: decides.then(|| Decider::new(join.threshold, join.spec.need)),
            found: vec![],
            sum: SampleSum::default(),
        }
    }

    /// Adds the work of a build text as a probe.
    fn add(&mut self, join: &StringJoin, item: ItemId) {
        let Some(run) = join.build.run_of(item) else { return };
        self.sum.probes += 1.0;
        self.sum.work.cpu += rates::PROBE;
        for place in join.partners(run) {
            let partner = &join.build.runs()[place];
            self.sum.work.cpu += rates::RUN;
            let Some(limits) = join.threshold.limits([run.len, partner.len]) else { continue };
            let mut rest = partner.items.clone();
            if join.spec.pairing() == Pairing::Unordered {
                rest.end = rest.end.min(item + 1);
            }
            if !rest.is_empty() {
                let sought = self.finder.first_of(place, rest.clone(), limits);
                self.add_run(join, item, (sought, limits), rest.len() as f64);
            }
        }
    }

    /// Adds the work with `all` items of a run, for which the first part stands.
    fn add_run(
        &mut self,
        join: &StringJoin,
        item: ItemId,
        (sought, limits): (Sought, AllowedDifferences),
        all: f64,
    ) {
        let (build, len) = (&join.build, join.build.codes(item).len() as u32);
        let looked_at = (sought.items.len() as f64).max(1.0);
        let share = all / looked_at;
        let mut met = self.finder.sample(ProbeCodes::of(build, item), sought, &mut self.found);
        if let Some(decider) = &mut self.decider {
            // What codes do not tell is compared one by one, and most of it is no match.
            let (text, mut steps) = (build.text(item), 0);
            decider.begin(build, item);
            let before = decider.verified();
            let decide = |&found| decider.decide(text, build, found, limits, &mut steps);
            self.sum.matches += share * self.found.iter().filter_map(decide).count() as f64;
            met.open = (decider.verified() - before) as f64;
        }
        let work = &mut self.sum.work;
        work.cpu += share * cost(&met, len, join.spec.simd);
        work.undecided += share * cost_of_open(&met, len);
        work.pairs += all;
        work.compared += share * GROUP * met.groups;
        self.sum.looked_at += looked_at;
    }
}
