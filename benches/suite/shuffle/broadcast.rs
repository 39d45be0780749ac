//! Broadcast: every task reads the whole build side, and its share of the probe side.

use datafusion_simjoin::internals::set::Bounds;

use super::load::Load;
use super::postings::{Lists, Sample, prefix_of};
use super::rates::Rates;
use super::rows::{Input, Partners, Side, mix};

/// Probe sets that a task of a self-join takes at a time, at most.
const MAX_RANGE: usize = 1024;

/// A join of which one side is sent to every task.
pub struct Broadcast<'a> {
    input: &'a Input,
    probe: &'a Side,
    build: &'a Side,
    /// What each probe set does, by place.
    work: Vec<Load>,
    sample: Sample,
}

impl<'a> Broadcast<'a> {
    /// Builds the side with fewer tokens.
    pub fn new(input: &'a Input, bounds: Bounds, lists: &Lists) -> Self {
        let (content, self_join) = (&input.content, input.is_self_join());
        let (mut probe, mut build, mut lists_of_build) = (&input.left, input.right(), &lists.right);
        if !self_join && build.all().1 > probe.all().1 {
            (probe, build, lists_of_build) = (build, probe, lists.left());
        }
        let partners = Partners::new(probe, build, bounds, self_join);
        let sample = Sample::of(probe, bounds, 1.0);
        let work = |place: usize| {
            let mut load = Load::default();
            let mut partners = partners.of(place);
            if self_join {
                partners.end = partners.end.min(place);
            } else {
                load.add_rows(probe.rows(place..place + 1));
            }
            load.pairs = partners.len() as u64;
            if sample.takes(place) {
                let prefix = prefix_of(content, probe, place, bounds);
                let found: usize = prefix.iter().map(|&t| lists_of_build.count(t, &partners)).sum();
                load.lookups = sample.weight() * prefix.len() as f64;
                load.postings = sample.weight() * found as f64;
            }
            load
        };
        let work = (0..probe.len()).map(work).collect();
        Self { input, probe, build, work, sample }
    }

    /// The task that probes with a set: in a self-join ranges are dealt out in turn, otherwise
    /// rows lie where they were read.
    pub fn task(&self, place: usize, tasks: usize) -> usize {
        match self.input.is_self_join() {
            true => place / (self.probe.len() / (tasks * 32)).clamp(1, MAX_RANGE) % tasks,
            false => (mix(self.input.content.hash(self.probe.sets[place])) % tasks as u64) as usize,
        }
    }

    /// What each task holds and does, the probe rows included, which stay where they are.
    pub fn loads(&self, tasks: usize) -> Vec<Load> {
        let mut loads = vec![Load::default(); tasks];
        loads.iter_mut().for_each(|load| load.add_rows(self.build.all()));
        for (place, work) in self.work.iter().enumerate() {
            loads[self.task(place, tasks)].add(work);
        }
        loads
    }

    /// How many postings pairs meet, by size, as far as the sample says.
    pub fn rates(&self, bounds: Bounds) -> Rates {
        let partners = Partners::new(self.probe, self.build, bounds, self.input.is_self_join());
        let sampled = (0..self.probe.len()).filter(|&place| self.sample.takes(place));
        let sets = sampled.map(|place| {
            let postings = self.work[place].postings / self.sample.weight();
            (self.probe.size(place), partners.of(place), postings)
        });
        let sizes: Vec<u32> = (0..self.build.len()).map(|place| self.build.size(place)).collect();
        Rates::fit(&sets.collect::<Vec<_>>(), &sizes)
    }

    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// Rows, and their tokens, that are sent.
    pub fn sent(&self, tasks: usize) -> (u64, u64) {
        let (rows, tokens) = self.build.all();
        (rows * tasks as u64, tokens * tasks as u64)
    }
}
