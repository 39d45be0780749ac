//! A fixed stream of candidates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
use datafusion_simjoin::internals::engine::{Funnel, PrepareContext};
use datafusion_simjoin::internals::set::JoinSpec;
use datafusion_simjoin::internals::set::SetCollection;
use datafusion_simjoin::internals::set::SetUnit;
use datafusion_simjoin::internals::set::filter::{PositionalIndex, PrefixIndex};
use datafusion_simjoin::internals::set::{
    Candidate, CandidateChunk, CandidateFilter, CandidateSource, SourceProgress,
};
use datafusion_simjoin::internals::util::cancel::CancelFlag;
use datafusion_simjoin::internals::util::parallel::Threads;
use simjoin_core::memory::Memory;

use crate::data;

/// The candidates of a filter, the bitmap filter off, as each thread found them.
#[derive(Debug)]
pub struct Stream {
    pub threads: Vec<Vec<CandidateChunk>>,
}

/// Gives a stream again, to each source the candidates of the next thread.
#[derive(Debug)]
pub struct Replay {
    stream: Arc<Stream>,
    next: AtomicU32,
}

impl Replay {
    pub fn new(stream: &Arc<Stream>) -> Self {
        Self { stream: Arc::clone(stream), next: AtomicU32::new(0) }
    }
}

impl CandidateFilter for Replay {
    fn open(
        self: Arc<Self>,
        _: &dyn Memory,
    ) -> simjoin_core::error::Result<Box<dyn CandidateSource>> {
        let thread = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        let stream = Arc::clone(&self.stream);
        Ok(Box::new(ReplaySource { stream, thread, chunk: 0, group: 0, at: 0 }))
    }
}

struct ReplaySource {
    stream: Arc<Stream>,
    thread: usize,
    /// The next candidate: its chunk, its group, and its place there.
    chunk: usize,
    group: usize,
    at: usize,
}

impl CandidateSource for ReplaySource {
    fn start(&mut self, _: SetUnit) {
        (self.chunk, self.group, self.at) = (0, 0, 0);
    }

    fn fill(&mut self, chunk: &mut CandidateChunk, capacity: usize) -> SourceProgress {
        while chunk.candidates.len() < capacity {
            let Some(stored) = self.stream.threads[self.thread].get(self.chunk) else {
                return SourceProgress::Done;
            };
            if self.group >= stored.groups.len() {
                (self.chunk, self.group) = (self.chunk + 1, 0);
                continue;
            }
            let (probe, candidates) = stored.group(self.group);
            let room = capacity - chunk.candidates.len();
            let end = candidates.len().min(self.at + room);
            candidates[self.at..end].iter().for_each(|&candidate| chunk.push(probe, candidate));
            self.at = end;
            if end == candidates.len() {
                (self.group, self.at) = (self.group + 1, 0);
            }
        }
        SourceProgress::More
    }

    fn retire(&mut self, _: u32) {}

    fn add_to(&self, _: &mut Funnel) {}
}

/// The tokens that verification by merging reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct Touched {
    /// Tokens of build sets until the decision, of each candidate.
    pub build_tokens: u64,
    /// Known tokens of probe sets, once for each of their groups.
    pub probe_tokens: u64,
}

impl Stream {
    /// Filters until there are `limit` candidates or no more.
    pub fn collect(
        sets: &Arc<SetCollection>,
        spec: &JoinSpec,
        by: Filter,
        threads: usize,
        limit: u64,
    ) -> Result<Self> {
        Ok(Self { threads: filter(sets, spec, by, threads, limit, Some)? })
    }

    pub fn candidates(&self) -> u64 {
        self.threads.iter().flatten().map(|chunk| chunk.candidates.len() as u64).sum()
    }

    pub fn groups(&self) -> u64 {
        self.threads.iter().flatten().map(|chunk| chunk.groups.len() as u64).sum()
    }

    /// Counts the tokens that a merge reads of each candidate until it is decided.
    pub fn touched(&self, sets: &SetCollection, exact: bool) -> Result<Touched> {
        let next = AtomicU32::new(0);
        let parts = data::on_threads(self.threads.len(), || {
            let mut touched = Touched::default();
            let mine = next.fetch_add(1, Ordering::Relaxed) as usize;
            for chunk in &self.threads[mine] {
                for place in 0..chunk.groups.len() {
                    let (probe, candidates) = chunk.group(place);
                    let tokens = sets.tokens(probe);
                    touched.probe_tokens += tokens.len() as u64;
                    for candidate in candidates {
                        let build = sets.tokens(candidate.build);
                        touched.build_tokens += merged(tokens, build, candidate, exact);
                    }
                }
            }
            Ok(touched)
        })?;
        Ok(parts.iter().fold(Touched::default(), |sum, part| Touched {
            build_tokens: sum.build_tokens + part.build_tokens,
            probe_tokens: sum.probe_tokens + part.probe_tokens,
        }))
    }
}

/// The build tokens that a merge reads.
fn merged(probe: &[u32], build: &[u32], candidate: &Candidate, exact: bool) -> u64 {
    let (mut i, mut j) = (candidate.probe_at as usize, candidate.build_at as usize);
    let (first, mut overlap) = (j, candidate.overlap);
    while i < probe.len() && j < build.len() {
        let left = (probe.len() - i).min(build.len() - j) as u32;
        if overlap + left < candidate.required || !exact && overlap >= candidate.required {
            break;
        }
        overlap += u32::from(probe[i] == build[j]);
        let (p, b) = (probe[i], build[j]);
        i += usize::from(p <= b);
        j += usize::from(b <= p);
    }
    (j - first) as u64
}

/// Which filter makes the candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Filter {
    /// Prefix and length filter: most candidates are out of reach after a token or two.
    Allpairs,
    /// And the positional filter, without signatures.
    Ppjoin,
}

/// Runs a filter alone on all threads; gives the chunks that `keep` keeps, by thread.
pub fn filter(
    sets: &Arc<SetCollection>,
    spec: &JoinSpec,
    filter: Filter,
    threads: usize,
    limit: u64,
    keep: impl Fn(CandidateChunk) -> Option<CandidateChunk> + Sync,
) -> Result<Vec<Vec<CandidateChunk>>> {
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    let reservation = MemoryConsumer::new("filter").register(&pool);
    let cancel = CancelFlag::default();
    let context = PrepareContext::new(&reservation, &cancel, Threads::usual(threads));
    match filter {
        Filter::Allpairs => {
            let index = Arc::new(PrefixIndex::try_new(Arc::clone(sets), *spec, context)?);
            let source = || Ok(PrefixIndex::source(&index, &reservation)?);
            run(sets, spec, threads, limit, source, keep)
        }
        Filter::Ppjoin => {
            let index = Arc::new(PositionalIndex::try_new(Arc::clone(sets), *spec, 0, context)?);
            let source = || Ok(PositionalIndex::source(&index, &reservation)?);
            run(sets, spec, threads, limit, source, keep)
        }
    }
}

fn run<S: CandidateSource>(
    sets: &Arc<SetCollection>,
    spec: &JoinSpec,
    threads: usize,
    limit: u64,
    source: impl Fn() -> Result<S> + Sync,
    keep: impl Fn(CandidateChunk) -> Option<CandidateChunk> + Sync,
) -> Result<Vec<Vec<CandidateChunk>>> {
    let share = (sets.len() / (threads as u32 * 32)).clamp(1, 1024);
    let (next, found) = (AtomicU32::new(0), AtomicU64::new(0));
    data::on_threads(threads, || {
        let mut kept = vec![];
        let mut source = source()?;
        loop {
            let start = next.fetch_add(share, Ordering::Relaxed);
            if start >= sets.len() || found.load(Ordering::Relaxed) >= limit {
                return Ok(kept);
            }
            let range = start..(start + share).min(sets.len());
            let unit = SetUnit { number: 0, items: Arc::clone(sets), range, bounds: None };
            source.admit(&unit)?;
            source.start(unit);
            let mut chunk = CandidateChunk::new(Arc::clone(sets));
            loop {
                let progress = source.fill(&mut chunk, spec.candidate_chunk);
                let done = progress == SourceProgress::Done;
                if done || chunk.candidates.len() >= spec.candidate_chunk {
                    found.fetch_add(chunk.candidates.len() as u64, Ordering::Relaxed);
                    let full = std::mem::replace(&mut chunk, CandidateChunk::new(Arc::clone(sets)));
                    kept.extend(keep(full));
                }
                if done || found.load(Ordering::Relaxed) >= limit {
                    break;
                }
            }
        }
    })
}
