//! The search for the partners of a set.

use std::ops::Range;
use std::sync::Arc;

use super::best::Best;
use super::lists::TokenLists;
use crate::engine::{NearestPartners, Pairing};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::set::collection::SetCollection;
use crate::set::join_spec::JoinSpec;
use crate::set::runs::SetId;
use crate::set::verify::intersect::intersect;
use crate::tuning::Size;

/// Sets that are found before there is a bound, and sets, for each row that is wanted, that are decided to raise it.
const FIRST_SETS: Size = Size { usual: 128, small: 4 };
const RAISING_SETS: usize = 2;

/// Entries of lists that are read, for each set found, so that sets with one token in common need not be decided.
const ENTRIES_OF_SET: Size<u64> = Size { usual: 8, small: 2 };

/// Steps of deciding a set, where reading an entry is one.
const DECISION: u64 = 16;

/// The set that is searched for: its known tokens, rarest first, its size, unknown tokens included, and the sets of its
/// key.
#[derive(Debug, Clone)]
pub(super) struct Sought<'a> {
    pub tokens: &'a [u32],
    pub size: u32,
    /// The places of the runs of the key.
    pub runs: Range<usize>,
    /// The sets that may be partners.
    pub sets: Range<SetId>,
}

/// Searches for one set after the other.
#[derive(Debug)]
pub(super) struct SetScan {
    build: Arc<SetCollection>,
    lists: Arc<TokenLists>,
    spec: JoinSpec,
    best: Best,
    /// By build set, how many tokens it is known to share, and whether it has been decided ([`DECIDED`]).
    counts: Vec<u16>,
    /// The sets that share a token, and those that share two.
    once: Pile,
    twice: Pile,
    /// The sets that shared two when the bound was raised last.
    raised_at: usize,
    /// By token, behind the last set for which it was looked up.
    ends: Vec<SetId>,
    steps: u64,
    decided: u64,
    _memory: Reservation,
}

/// The mark of a set whose value was offered.
const DECIDED: u16 = 1 << 15;

/// Some of the sets, without order.
#[derive(Debug)]
struct Pile {
    /// A place more than there are sets: the place behind the last one is written to.
    sets: Vec<SetId>,
    len: usize,
}

impl Pile {
    fn new(most: usize) -> Self {
        Self { sets: vec![0; most + 1], len: 0 }
    }

    /// Adds a set where `is_new`.
    #[inline]
    fn add(&mut self, set: SetId, is_new: bool) {
        self.sets[self.len] = set;
        self.len += usize::from(is_new);
    }

    fn sets(&self) -> &[SetId] {
        &self.sets[..self.len]
    }
}

impl SetScan {
    /// The most tokens of a build set.
    pub(super) const MOST_TOKENS: u32 = DECIDED as u32 - 1;

    /// The bytes of a scan among `sets` sets.
    pub(super) fn bytes(sets: usize, nearest: Option<NearestPartners>) -> usize {
        sets * (size_of::<u16>() + 2 * size_of::<SetId>()) + Best::most_bytes(sets, nearest)
    }

    /// A scan. `memory` grows by its bytes.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub(super) fn try_new(
        build: &Arc<SetCollection>,
        lists: &Arc<TokenLists>,
        spec: JoinSpec,
        memory: Reservation,
    ) -> Result<Self> {
        let len = build.len() as usize;
        memory.try_grow(Self::bytes(len, spec.nearest))?;
        Ok(Self {
            build: Arc::clone(build),
            lists: Arc::clone(lists),
            spec,
            best: Best::new(spec.nearest),
            counts: vec![0; len],
            once: Pile::new(len),
            twice: Pile::new(len),
            raised_at: 0,
            ends: vec![],
            steps: 0,
            decided: 0,
            _memory: memory,
        })
    }

    /// The steps so far, of about a nanosecond.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The sets whose tokens have been compared so far.
    pub(super) fn decided(&self) -> u64 {
        self.decided
    }

    /// Finds the partners of a set of a collection, of a value of `bound` at least: those before it, where each unordered
    /// pair is decided once.
    pub(super) fn search(&mut self, sets: &SetCollection, set: SetId, bound: Option<f64>) {
        let threshold = self.spec.bounds.threshold;
        self.best.begin(match bound {
            Some(bound) if bound > threshold => bound,
            _ => threshold,
        });
        let Some((run, _)) = sets.runs().of_set(set) else { return };
        let (tokens, size) = (sets.tokens(set), sets.size(set));
        let runs = self.build.runs().places(run.key);
        let Range { start, end } = self.build.runs().of_one_key(run.key);
        let end = match self.spec.pairing {
            Pairing::All => end,
            Pairing::Unordered => end.min(set),
        };
        self.search_for(&Sought { tokens, size, runs, sets: start..end.max(start) });
    }

    /// The partners of the set searched for last, with the tokens in common.
    pub(super) fn found(&self) -> impl Iterator<Item = (SetId, u32)> + '_ {
        self.best.sets()
    }

    fn search_for(&mut self, sought: &Sought<'_>) {
        self.ends.clear();
        if sought.sets.is_empty() {
            return;
        }
        self.begin(sought);
        self.raise_bound(sought);
        let first = self.look_up(sought);
        let one = self.look_up_more(sought, first);
        self.decide(sought, first, one);
        for set in self.once.sets() {
            self.counts[*set as usize] = 0;
        }
        self.steps += 2 * self.once.len as u64;
        (self.once.len, self.twice.len, self.raised_at) = (0, 0, 0);
    }

    /// The value of a pair that shares `overlap` tokens with a set of a size.
    #[inline]
    fn value(&self, sought: &Sought<'_>, overlap: u32, size: u32) -> f64 {
        let (overlap, own, size) = (u64::from(overlap), u64::from(sought.size), u64::from(size));
        let JoinSpec { bounds, probe_role, .. } = self.spec;
        bounds.measure.value_in_role(overlap, probe_role, own, size)
    }

    /// Counts a token for some of its sets.
    #[inline]
    fn count(&mut self, token: u32, first: SetId, end: SetId) {
        let Self { lists, counts, once, twice, .. } = self;
        let entries = lists.within(token, first, end);
        for set in entries {
            let count = &mut counts[*set as usize];
            let shared = *count & !DECIDED;
            once.add(*set, shared == 0);
            twice.add(*set, shared == 1);
            *count += 1;
        }
        self.steps += entries.len() as u64 + 8;
    }

    /// Counts the rarest tokens for all sets of the key. Where all partners are wanted, no bound rises.
    fn begin(&mut self, sought: &Sought<'_>) {
        let Range { start, end } = sought.sets;
        for token in sought.tokens {
            if self.once.len >= self.spec.tuning.size(FIRST_SETS) || self.best.wanted().is_none() {
                break;
            }
            self.count(*token, start, end);
            self.ends.push(end);
        }
    }

    /// Offers the sets that share most of the tokens counted: their values raise the bound.
    fn raise_bound(&mut self, sought: &Sought<'_>) {
        /// The greatest number of tokens by which sets are told apart.
        const MOST: usize = 31;
        let Some(wanted) = self.best.wanted() else { return };
        let wanted = RAISING_SETS.saturating_mul(wanted);
        let level = |count: u16| match count & DECIDED {
            0 => usize::from(count).min(MOST),
            _ => 0,
        };
        let mut of_levels = [0_usize; MOST + 1];
        for set in self.twice.sets() {
            of_levels[level(self.counts[*set as usize])] += 1;
        }
        let (mut least, mut above) = (MOST, 0);
        while least > 2 && above + of_levels[least] < wanted {
            above += of_levels[least];
            least -= 1;
        }
        let mut of_least = wanted.saturating_sub(above);
        for place in 0..self.twice.len {
            let set = self.twice.sets[place];
            let level = level(self.counts[set as usize]);
            if level < least || level == least && of_least == 0 {
                continue;
            }
            of_least -= usize::from(level == least);
            self.offer(sought, set);
        }
        // With too few of these, others do for a first bound.
        let others = wanted.saturating_sub(of_levels[2..].iter().sum()).min(self.once.len);
        for place in 0..if self.raised_at == 0 { others } else { 0 } {
            let set = self.once.sets[place];
            if self.counts[set as usize] == 1 {
                self.offer(sought, set);
            }
        }
        self.raised_at = self.twice.len.max(1);
        self.steps += 2 * self.twice.len as u64;
    }

    /// The tokens that were counted for a set, but for sets that cannot reach the bound.
    #[inline]
    fn counted(&self, set: SetId) -> usize {
        self.ends.partition_point(|end| *end > set)
    }

    /// Computes the value of a set, and offers it.
    fn offer(&mut self, sought: &Sought<'_>, set: SetId) {
        let count = self.counts[set as usize];
        self.counts[set as usize] = count | DECIDED;
        let rest = &sought.tokens[self.counted(set)..];
        let mut overlap = u32::from(count);
        if !rest.is_empty() {
            let tokens = self.build.tokens(set);
            overlap = intersect(self.spec.simd, rest, tokens, overlap, 0, true).unwrap_or(overlap);
        }
        self.steps += DECISION;
        self.decided += 1;
        let value = self.value(sought, overlap, self.build.size(set));
        if value >= self.best.bound() {
            self.best.offer(value, set, overlap, self.build.row_count_of(set));
        }
    }

    /// The first set that may reach the bound, of those that are smaller than the one sought: the value of a set within
    /// it rises with its size.
    fn first(&self, sought: &Sought<'_>) -> SetId {
        let (bound, runs) = (self.best.bound(), self.build.runs());
        let reaches = |size: u32| size >= sought.size || self.value(sought, size, size) >= bound;
        let before = runs.at(sought.runs.clone()).partition_point(|run| !reaches(run.size));
        runs.start(sought.runs.start + before)
    }

    /// The place behind the last set that may reach the bound with `most` tokens in common.
    fn end(&self, sought: &Sought<'_>, most: u32) -> SetId {
        let (bound, runs) = (self.best.bound(), self.build.runs());
        let of_key = runs.at(sought.runs.clone());
        let smaller = of_key.partition_point(|run| run.size < most);
        let reaching =
            of_key[smaller..].partition_point(|run| self.value(sought, most, run.size) >= bound);
        runs.start(sought.runs.start + smaller + reaching).min(sought.sets.end)
    }

    /// Counts further tokens for the sets that may reach the bound without those before, and raises it. Returns the
    /// first set that may reach it.
    fn look_up(&mut self, sought: &Sought<'_>) -> SetId {
        let mut first = self.first(sought);
        for place in self.ends.len()..sought.tokens.len() {
            let end = self.end(sought, (sought.tokens.len() - place) as u32);
            if end <= first {
                break;
            }
            self.count(sought.tokens[place], first, end);
            self.ends.push(end);
            let step = self.best.wanted().map(|wanted| wanted.max(self.raised_at / 4));
            if step.is_some_and(|step| self.twice.len >= self.raised_at + step) {
                self.raise_bound(sought);
                first = self.first(sought);
            }
        }
        first
    }

    /// Counts tokens for further sets where that is less work than to decide sets with one token in common: so many that
    /// a set that may reach the bound has two among them, but for sets so small that one is enough. Returns the
    /// end of these sets, or that of all.
    fn look_up_more(&mut self, sought: &Sought<'_>, first: SetId) -> SetId {
        let known = sought.tokens.len();
        let (mut ends, mut entries) = (vec![], 0);
        for place in 0..known {
            let before = self.ends.get(place).copied().unwrap_or(first);
            let end = self.end(sought, (known - place + 1).min(known) as u32).max(before);
            if end <= first {
                break;
            }
            entries += self.lists.within(sought.tokens[place], before.max(first), end).len() as u64;
            ends.push(end);
        }
        if entries > self.spec.tuning.size(ENTRIES_OF_SET) * self.once.len as u64 {
            return SetId::MAX;
        }
        let one = self.end(sought, 1);
        for (place, end) in ends.into_iter().enumerate() {
            match self.ends.get(place).copied() {
                Some(before) if before >= end => continue,
                Some(before) => {
                    self.count(sought.tokens[place], before.max(first), end);
                    self.ends[place] = end;
                }
                None => {
                    self.count(sought.tokens[place], first, end);
                    self.ends.push(end);
                }
            }
        }
        one
    }

    /// Offers the sets found that may be among the best ones: from `first` on, those with one token in common before
    /// `one`.
    fn decide(&mut self, sought: &Sought<'_>, first: SetId, one: SetId) {
        let counts = self.twice.sets().iter().map(|set| self.counts[*set as usize] & !DECIDED);
        let most = counts.max().unwrap_or(0);
        // Those that share most raise the bound for the others.
        let many = (most - most / 3).max(2);
        self.steps += 3 * self.twice.len as u64;
        for shared in [many..=DECIDED - 1, 2..=many - 1] {
            for place in 0..self.twice.len {
                let set = self.twice.sets[place];
                if set >= first && shared.contains(&self.counts[set as usize]) {
                    self.offer_if_near(sought, set);
                }
            }
        }
        for place in 0..self.once.len {
            let set = self.once.sets[place];
            if (first..one).contains(&set) && self.counts[set as usize] == 1 {
                self.offer_if_near(sought, set);
            }
        }
    }

    /// Offers a set that may reach the bound with the tokens that were not counted for it.
    fn offer_if_near(&mut self, sought: &Sought<'_>, set: SetId) {
        let rest = sought.tokens.len() - self.counted(set);
        let size = self.build.size(set);
        let overlap = (u32::from(self.counts[set as usize]) + rest as u32).min(size);
        self.steps += 4;
        if self.value(sought, overlap, size) >= self.best.bound() {
            self.offer(sought, set);
        }
    }
}
