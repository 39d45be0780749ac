//! Chunks of random candidates for a device, and what must come of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};

use datafusion_simjoin::internals::engine::Match;
use datafusion_simjoin::internals::set::Candidate;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use simjoin_gpu::runtime::{Device, DeviceError};
use simjoin_gpu::set::device::abi::Found;
use simjoin_published::verified::abi::{Group, NarrowCandidate};
use simjoin_published::verified::{
    Capacities, Form, Launch, Layout, Outcome, Reply, Section, Staging, VerifyJob,
};

/// Words of shared memory: none, too few for anything, for some sets, more than a block can have.
const SHARED_WORDS: [u32; 5] = [0, 40, 600, 8192, 1 << 20];
/// Blocks: few take up several groups, one after another.
const MOST_BLOCKS: [u32; 3] = [1, 3, u32::MAX];

/// Sets in CSR form with the number of rows of each.
pub struct Sets {
    tokens: Vec<u32>,
    offsets: Vec<u64>,
    rows: Vec<u32>,
}

impl Sets {
    /// A set for each size, of tokens below `universe`.
    pub fn random(rng: &mut StdRng, sizes: &[usize], universe: usize) -> Self {
        let mut sets = Self { tokens: vec![], offsets: vec![0], rows: vec![] };
        for &size in sizes {
            let mut tokens = rand::seq::index::sample(rng, universe, size).into_vec();
            tokens.sort_unstable();
            sets.tokens.extend(tokens.into_iter().map(|token| token as u32));
            sets.offsets.push(sets.tokens.len() as u64);
            sets.rows.push(rng.random_range(1..5));
        }
        sets
    }

    /// Puts gaps between tokens, which decides how a kernel represents a set.
    pub fn spread(&mut self, factor: u32) {
        self.tokens.iter_mut().for_each(|token| *token *= factor);
    }

    fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    fn tokens(&self, set: u32) -> &[u32] {
        let [start, end] = [0, 1].map(|next| self.offsets[set as usize + next] as usize);
        &self.tokens[start..end]
    }
}

/// The candidate that a filter makes of a pair after `steps` steps of the merge.
fn candidate_after(probe: &[u32], build: &[u32], number: u32, steps: usize) -> Candidate {
    let (mut p, mut b, mut overlap) = (0, 0, 0);
    for _ in 0..steps {
        let (Some(left), Some(right)) = (probe.get(p), build.get(b)) else { break };
        overlap += u32::from(left == right);
        let (on_left, on_right) = (left <= right, right <= left);
        p += usize::from(on_left);
        b += usize::from(on_right);
    }
    let (probe_at, build_at) = (p as u32, b as u32);
    Candidate { build: number, overlap, required: 0, probe_at, build_at }
}

fn overlap_of(probe: &[u32], build: &[u32]) -> u32 {
    candidate_after(probe, build, 0, usize::MAX).overlap
}

/// A chunk's content and what must come of it.
pub struct Chunk {
    probe: Sets,
    build: Sets,
    groups: Vec<Group>,
    candidates: Vec<Candidate>,
    required: Vec<u32>,
    /// The candidates that match, by the name of the probe set and the build set, with their
    /// overlap and the least that qualifies.
    expected: BTreeMap<(u32, u32), (u32, u32)>,
    same: bool,
}

/// The name of a probe set in matches, which is not its number in the chunk.
fn name_of(probe: u32) -> u32 {
    1000 + 3 * probe
}

impl Chunk {
    /// Pairs of all probe sets with most build sets. The required overlap of a group's pairs
    /// depends on the build set's size alone, as narrow candidates have it: that of some pair of
    /// this size, or one more or less.
    pub fn random(rng: &mut StdRng, probe: Sets, build: Sets, same: bool) -> Self {
        let mut chunk = Self {
            groups: vec![],
            candidates: vec![],
            required: vec![],
            expected: BTreeMap::new(),
            probe,
            build,
            same,
        };
        for set in 0..chunk.probe.len() {
            let partners: Vec<u32> =
                (0..chunk.build.len()).filter(|_| rng.random_bool(0.8)).collect();
            let tokens = chunk.probe.tokens(set);
            let mut required = BTreeMap::new();
            for &partner in &partners {
                let other = chunk.build.tokens(partner);
                let overlap = overlap_of(tokens, other) as i64;
                let least = (overlap + rng.random_range(-1..=1)).max(1) as u32;
                if rng.random_bool(0.5) || !required.contains_key(&other.len()) {
                    required.insert(other.len(), least);
                }
            }
            let start = chunk.candidates.len() as u32;
            let table = chunk.required.len() as u32;
            let least_size = required.keys().next().copied().unwrap_or(0);
            let most_size = required.keys().next_back().copied().unwrap_or(0);
            // A size that no pair has must not be asked for.
            chunk.required.extend(
                (least_size..=most_size).map(|size| required.get(&size).copied().unwrap_or(0)),
            );
            let table = table.wrapping_sub(least_size as u32);
            chunk.groups.push(Group { set, probe: name_of(set), start, table });
            for &partner in &partners {
                let other = chunk.build.tokens(partner);
                let least = required[&other.len()];
                let steps = [0, 1, rng.random_range(0..=tokens.len() + other.len())];
                let steps = *steps.choose(rng).expect("three");
                let mut candidate = candidate_after(tokens, other, partner, steps);
                candidate.required = least;
                chunk.candidates.push(candidate);
                let overlap = overlap_of(tokens, other);
                if overlap >= least {
                    chunk.expected.insert((name_of(set), partner), (overlap, least));
                }
            }
        }
        let start = chunk.candidates.len() as u32;
        chunk.groups.push(Group { start, ..Group::default() });
        chunk
    }

    /// Has the filter merge the pairs of some probe sets to the end: nothing of them is left to
    /// compare.
    pub fn merge_all(&mut self, probes: impl Fn(u32) -> bool) {
        let groups = self.groups.windows(2).map(|pair| (pair[0].set, pair[0].start..pair[1].start));
        for (set, places) in groups.filter(|&(set, _)| probes(set)) {
            for candidate in &mut self.candidates[places.start as usize..places.end as usize] {
                let Candidate { build, required, .. } = *candidate;
                let tokens = [self.probe.tokens(set), self.build.tokens(build)];
                let merged = candidate_after(tokens[0], tokens[1], build, usize::MAX);
                *candidate = Candidate { required, ..merged };
            }
        }
    }

    pub fn expected_found(&self) -> Found {
        let mut found = Found { matches: self.expected.len() as u64, ..Found::default() };
        for &(name, build) in self.expected.keys() {
            let probe = (name - 1000) / 3;
            let [probe_rows, build_rows] = [
                u64::from(self.probe.rows[probe as usize]),
                u64::from(self.build.rows[build as usize]),
            ];
            if self.same && probe == build {
                found.squares += build_rows * build_rows;
                found.rows += build_rows;
            } else {
                found.cross += probe_rows * build_rows;
            }
        }
        found
    }

    /// The chunk in pinned memory.
    pub fn staging(&self, device: &Device, wide: bool) -> Result<Staging, DeviceError> {
        let count = self.candidates.len();
        let capacities = Capacities {
            groups: size_of_val(&self.groups[..]),
            candidates: count * size_of::<Candidate>(),
            required: size_of_val(&self.required[..]),
            probe_tokens: size_of_val(&self.probe.tokens[..]),
            probe_offsets: size_of_val(&self.probe.offsets[..]),
            probe_rows: size_of_val(&self.probe.rows[..]),
            build_tokens: size_of_val(&self.build.tokens[..]),
            build_offsets: size_of_val(&self.build.offsets[..]),
            build_rows: size_of_val(&self.build.rows[..]),
        };
        let mut staging = Staging::pin(device, &capacities)?;
        let mut whole = staging.extend(Section::Groups, &self.groups);
        for candidate in &self.candidates {
            whole &= match wide {
                true => staging.push(Section::Candidates, *candidate),
                false => {
                    let Candidate { build, overlap, probe_at, build_at, .. } = *candidate;
                    let packed = overlap | probe_at << 10 | build_at << 21;
                    staging.push(Section::Candidates, NarrowCandidate { build, packed })
                }
            };
        }
        whole &= staging.extend(Section::Required, &self.required);
        whole &= staging.extend(Section::ProbeTokens, &self.probe.tokens);
        whole &= staging.extend(Section::ProbeOffsets, &self.probe.offsets);
        whole &= staging.extend(Section::ProbeRows, &self.probe.rows);
        whole &= staging.extend(Section::BuildTokens, &self.build.tokens);
        whole &= staging.extend(Section::BuildOffsets, &self.build.offsets);
        whole &= staging.extend(Section::BuildRows, &self.build.rows);
        assert!(whole);
        Ok(staging)
    }

    /// Has the chunk verified and compares.
    pub fn check(&self, device: &Device, trial: &Trial) {
        let staging = self.staging(device, trial.wide).expect("pinned memory");
        let outcome = self.submit(device, staging, trial).recv().expect("an answer");
        let outcome = outcome.unwrap_or_else(|error| panic!("{trial:?}: {error:?}"));
        self.compare(trial, &outcome);
    }

    /// Has the chunk verified; the receiver gets the answer.
    pub fn submit(
        &self,
        device: &Device,
        staging: Staging,
        trial: &Trial,
    ) -> Receiver<Result<Outcome, DeviceError>> {
        let (sender, receiver) = channel();
        VerifyJob {
            staging,
            launch: trial.launch,
            probe: None,
            build: None,
            wide: trial.wide,
            exact: trial.exact,
            first_only: trial.first_only,
            same: self.same,
            reply: Box::new(Answer(sender)),
        }
        .submit(device);
        receiver
    }

    /// Whether this is what had to be found.
    pub fn compare(&self, trial: &Trial, outcome: &Outcome) {
        let Outcome { found, matches, .. } = outcome;
        if trial.launch.form == Form::Count {
            assert_eq!(*found, self.expected_found(), "{trial:?}");
            return;
        }
        assert_eq!(matches.len() as u64, found.matches, "{trial:?}");
        let mut seen = BTreeSet::new();
        for &Match { probe, build, detail: overlap } in matches {
            let Some(&(exact, least)) = self.expected.get(&(probe, build)) else {
                panic!("{trial:?}: {probe} and {build} do not match");
            };
            assert!(seen.insert((probe, build)), "{trial:?}: {probe} and {build} twice");
            let allowed = if trial.exact { exact..=exact } else { least..=exact };
            assert!(allowed.contains(&overlap), "{trial:?}: {overlap} is not in {allowed:?}");
        }
        if trial.first_only {
            let probes = |pairs: &mut dyn Iterator<Item = &(u32, u32)>| -> BTreeSet<u32> {
                pairs.map(|&(probe, _)| probe).collect()
            };
            let expected = probes(&mut self.expected.keys());
            assert_eq!(probes(&mut seen.iter()), expected, "{trial:?}");
        } else {
            assert!(seen.iter().eq(self.expected.keys()), "{trial:?}");
        }
    }
}

/// How a chunk is verified.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    pub launch: Launch,
    pub wide: bool,
    pub exact: bool,
    pub first_only: bool,
}

impl Trial {
    pub fn random(rng: &mut StdRng, layout: Layout, block: u32) -> Self {
        let form = if rng.random_bool(0.5) { Form::Pairs } else { Form::Count };
        let shared_words = *SHARED_WORDS.choose(rng).expect("some");
        let most_blocks = *MOST_BLOCKS.choose(rng).expect("some");
        Self {
            launch: Launch { layout, form, block, shared_words, most_blocks },
            wide: rng.random_bool(0.5),
            exact: rng.random_bool(0.5),
            first_only: form == Form::Pairs && rng.random_bool(0.3),
        }
    }
}

#[derive(Debug)]
struct Answer(Sender<Result<Outcome, DeviceError>>);

impl Reply for Answer {
    fn done(self: Box<Self>, _: Staging, outcome: Result<Outcome, DeviceError>) {
        // A test that has failed listens no more.
        let _ = self.0.send(outcome);
    }
}
