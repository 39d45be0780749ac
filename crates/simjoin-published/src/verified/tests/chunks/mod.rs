//! Chunks of candidates through the queue of a device, on a GPU or the emulator.

mod answers;
mod faults;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::index::sample;
use rand::{Rng, SeedableRng};
use simjoin_core::set::candidates::Candidate;
use simjoin_core::set::collection::SetCollection;
use simjoin_gpu::runtime::{Device, DeviceError};
use simjoin_gpu::set::device::ResidentSets;
use simjoin_gpu::set::device::abi::Found;

use crate::device_harness::Lent;
use crate::device_harness::sets::sets;
use crate::engine::Match;
use crate::verified::abi::{Group, NarrowCandidate};
use crate::verified::{
    Capacities, Form, Launch, Layout, Outcome, Reply, Section, Staging, VerifyJob,
};

/// A chunk of random candidates among the sets of one collection, and what a kernel must find.
struct Case {
    sets: Arc<SetCollection>,
    groups: Vec<(u32, Vec<Candidate>)>,
    wide: bool,
    exact: bool,
    same: bool,
    /// With the exact overlaps.
    expected: Vec<Match>,
    found: Found,
}

impl Case {
    fn draw(rng: &mut StdRng, sets: &Arc<SetCollection>, groups: usize) -> Self {
        let mut case = Self {
            sets: Arc::clone(sets),
            groups: vec![],
            wide: rng.random(),
            exact: rng.random(),
            same: rng.random(),
            expected: vec![],
            found: Found::default(),
        };
        for _ in 0..groups {
            let probe = rng.random_range(0..sets.len());
            let count = rng.random_range(1..80).min(sets.len() as usize);
            let slack = rng.random_range(1..3);
            let builds = sample(rng, sets.len() as usize, count);
            let candidates = builds.iter().map(|build| {
                let build = build as u32;
                let smaller = sets.size(probe).min(sets.size(build));
                let required = smaller.div_ceil(slack);
                Candidate { build, overlap: 0, required, probe_at: 0, build_at: 0 }
            });
            let candidates: Vec<_> = candidates.collect();
            for candidate in &candidates {
                case.expect(probe, candidate);
            }
            case.groups.push((probe, candidates));
        }
        case.expected.sort();
        case
    }

    fn expect(&mut self, probe: u32, candidate: &Candidate) {
        let sets = &self.sets;
        let (a, b) = (sets.tokens(probe), sets.tokens(candidate.build));
        let overlap = a.iter().filter(|t| b.binary_search(t).is_ok()).count() as u32;
        if overlap < candidate.required {
            return;
        }
        let rows = |set| u64::from(sets.row_count_of(set));
        self.expected.push(Match { probe, build: candidate.build, detail: overlap });
        self.found.matches += 1;
        if self.same && probe == candidate.build {
            self.found.squares += rows(probe) * rows(probe);
            self.found.rows += rows(probe);
        } else {
            self.found.cross += rows(probe) * rows(candidate.build);
        }
    }

    fn candidates(&self) -> usize {
        self.groups.iter().map(|(_, candidates)| candidates.len()).sum()
    }

    /// The case in a chunk with just enough room.
    fn staging(&self, device: &Device, gathered: bool) -> Result<Staging, DeviceError> {
        let (offsets, tokens) = self.sets.csr();
        let travels = |bytes: usize| if gathered { bytes } else { 0 };
        let largest = (0..self.sets.len()).map(|set| self.sets.size(set)).max().unwrap_or(0);
        let capacities = Capacities {
            groups: (self.groups.len() + 1) * size_of::<Group>(),
            candidates: self.candidates()
                * if self.wide { size_of::<Candidate>() } else { size_of::<NarrowCandidate>() },
            required: self.groups.len() * largest as usize * size_of::<u32>(),
            probe_tokens: travels(size_of_val(tokens)),
            probe_offsets: travels(size_of_val(offsets)),
            probe_rows: travels(self.sets.len() as usize * size_of::<u32>()),
            build_tokens: travels(size_of_val(tokens)),
            build_offsets: travels(size_of_val(offsets)),
            build_rows: travels(self.sets.len() as usize * size_of::<u32>()),
        };
        let mut staging = Staging::pin(device, &capacities)?;
        let mut start = 0;
        for (set, candidates) in &self.groups {
            let sizes = candidates.iter().map(|c| self.sets.size(c.build));
            let least = sizes.clone().min().unwrap();
            let first = staging.len::<u32>(Section::Required) as u32;
            let mut table = vec![u32::MAX; (sizes.max().unwrap() - least + 1) as usize];
            for candidate in candidates {
                let size = self.sets.size(candidate.build);
                table[(size - least) as usize] = candidate.required;
                let narrow = NarrowCandidate { build: candidate.build, packed: 0 };
                assert!(match self.wide {
                    true => staging.push(Section::Candidates, *candidate),
                    false => staging.push(Section::Candidates, narrow),
                });
            }
            assert!(staging.extend(Section::Required, &table));
            let table = first.wrapping_sub(least);
            let group = Group { set: *set, probe: *set, start, table };
            assert!(staging.push(Section::Groups, group));
            start += candidates.len() as u32;
        }
        assert!(staging.push(Section::Groups, Group { start, ..Group::default() }));
        if gathered {
            let rows: Vec<u32> =
                (0..self.sets.len()).map(|set| self.sets.row_count_of(set)).collect();
            assert!(staging.extend(Section::ProbeTokens, tokens));
            assert!(staging.extend(Section::ProbeOffsets, offsets));
            assert!(staging.extend(Section::ProbeRows, &rows));
            assert!(staging.extend(Section::BuildTokens, tokens));
            assert!(staging.extend(Section::BuildOffsets, offsets));
            assert!(staging.extend(Section::BuildRows, &rows));
        }
        Ok(staging)
    }

    fn job(&self, staging: Staging, launch: Launch, inbox: &Inbox) -> VerifyJob {
        VerifyJob {
            staging,
            launch,
            probe: None,
            build: None,
            wide: self.wide,
            exact: self.exact,
            first_only: false,
            same: self.same,
            reply: inbox.reply(),
        }
    }

    /// Holds an answer to what must be found.
    fn check(&self, launch: &Launch, outcome: &Outcome) {
        if launch.form == Form::Count {
            assert_eq!(outcome.found, self.found, "{launch:?}");
            return;
        }
        assert_eq!(outcome.found.matches, self.found.matches, "{launch:?}");
        let mut matches = outcome.matches.clone();
        assert_eq!(matches.len(), self.expected.len());
        matches.sort();
        for (found, expected) in matches.iter().zip(&self.expected) {
            assert_eq!((found.probe, found.build), (expected.probe, expected.build));
            match self.exact {
                true => assert_eq!(found.detail, expected.detail, "{launch:?}"),
                false => assert!(found.detail <= expected.detail, "{launch:?}"),
            }
        }
    }
}

/// Answers of jobs, each with the number of its job.
struct Inbox {
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
    next: std::cell::Cell<usize>,
}

type Answer = (usize, Result<Outcome, DeviceError>);

#[derive(Debug)]
struct Forward {
    number: usize,
    sender: Sender<Answer>,
}

impl Reply for Forward {
    fn done(self: Box<Self>, _: Staging, outcome: Result<Outcome, DeviceError>) {
        // Nobody listens any more where a test gives up.
        let _ = self.sender.send((self.number, outcome));
    }
}

impl Inbox {
    fn new() -> Self {
        let (sender, answers) = channel();
        Self { sender, answers, next: Default::default() }
    }

    /// The reply of the next job.
    fn reply(&self) -> Box<dyn Reply> {
        let number = self.next.replace(self.next.get() + 1);
        Box::new(Forward { number, sender: self.sender.clone() })
    }

    fn wait(&self) -> Answer {
        self.answers.recv_timeout(Duration::from_secs(60)).expect("every job is answered")
    }

    /// The answers to all jobs so far; none is answered twice.
    fn wait_for_all(&self) -> Vec<Result<Outcome, DeviceError>> {
        let count = self.next.get();
        let mut answers: Vec<_> = (0..count).map(|_| None).collect();
        for _ in 0..count {
            let (number, outcome) = self.wait();
            assert!(answers[number].replace(outcome).is_none(), "answered twice");
        }
        assert!(self.answers.try_recv().is_err(), "answered twice");
        answers.into_iter().flatten().collect()
    }
}

fn launch(layout: Layout, form: Form) -> Launch {
    Launch { layout, form, block: 64, shared_words: 1024, most_blocks: u32::MAX }
}
