//! The join whose strategies are compared, and the figures that they share.

use std::ops::Range;
use std::sync::Arc;

use super::boxes::{Codes, Elements, StringBoxes};
use super::collection::{Run, Strings};
use super::decide::Decider;
use super::finder::{Finder, ProbeCodes, SearchWork, Sought, boxes_bytes};
use super::gather::not_cancelled;
use super::threshold::{AllowedDifferences, Threshold};
use crate::engine::{ItemId, MatchSpec, Pairing, PrepareContext};
use crate::error::Result;
use crate::simd::{Form, Simd};

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

/// The part of the work of a join that a larger sample may take, a nanosecond for each item that it looks at.
const SAMPLE_SHARE: f64 = 0.01;

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
        let (build, items) = (&self.build, self.build.len() as usize);
        let mut sample = ProbeSample::new(self, self.finder(&boxes, uses_boxes), uses_boxes);
        let take = |sample: &mut ProbeSample, count: usize| -> Result<f64> {
            let step = (items / count.max(1)).max(1);
            for item in (step / 2..items).step_by(step) {
                context.cancel.check()?;
                sample.add(self, item as ItemId);
            }
            Ok(items as f64 * build.probe_ratio(&self.spec) / sample.probes.max(1.0))
        };
        let mut scale = take(&mut sample, SAMPLE)?;
        // A long join pays for a larger sample.
        let each = sample.looked_at / sample.probes.max(1.0);
        let worth =
            SAMPLE_SHARE * scale * (sample.work.cpu + sample.work.undecided) / each.max(1.0);
        let more = (worth as usize).min(MOST_SAMPLE);
        if more > SAMPLE {
            scale = take(&mut sample, more)?;
        }
        let ProbeSample { work, decider, matches, .. } = sample;
        let index = rates::TEXT * items as f64 + rates::CHARACTER * build.codes.len() as f64;
        if decider.is_some() {
            self.sampled_pairs = Some(matches * scale);
        }
        let work = SampledWork {
            cpu: index + scale * (work.cpu + work.undecided),
            undecided: scale * work.undecided,
            pairs: scale * work.pairs,
            compared: scale * work.compared,
        };
        if uses_boxes {
            self.sampled_work = Some(work);
        }
        Ok(work)
    }
}

/// A sample of build texts as probes.
struct ProbeSample {
    finder: Finder,
    /// Decides what lanes leave, where an index of deletions is a choice: its candidates follow the matches.
    decider: Option<Decider>,
    found: Vec<(ItemId, u32)>,
    work: SampledWork,
    matches: f64,
    probes: f64,
    /// The items that have been looked at.
    looked_at: f64,
}

impl ProbeSample {
    fn new(join: &StringJoin, finder: Finder, uses_boxes: bool) -> Self {
        let decides = uses_boxes && join.threshold.deletions().is_some();
        Self {
            finder,
            decider: decides.then(|| Decider::new(join.threshold, join.spec.need)),
            found: vec![],
            work: SampledWork::default(),
            matches: 0.0,
            probes: 0.0,
            looked_at: 0.0,
        }
    }

    /// Adds the work of a build text as a probe.
    fn add(&mut self, join: &StringJoin, item: ItemId) {
        let Some(run) = join.build.run_of(item) else { return };
        self.probes += 1.0;
        self.work.cpu += rates::PROBE;
        for place in join.partners(run) {
            let partner = &join.build.runs()[place];
            self.work.cpu += rates::RUN;
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
            self.matches += share * self.found.iter().filter_map(decide).count() as f64;
            met.open = (decider.verified() - before) as f64;
        }
        let work = &mut self.work;
        work.cpu += share * cost(&met, len, join.spec.simd);
        work.undecided += share * cost_of_open(&met, len);
        work.pairs += all;
        work.compared += share * GROUP * met.groups;
        self.looked_at += looked_at;
    }
}
