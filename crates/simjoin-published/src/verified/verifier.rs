//! Verification as a filter on devices: the CPU proposes candidates, and a job is a [`Pack`] of them.
//!
//! ```text
//!  cursor                                     device (queue shared by all partitions)
//!  chunk of candidates ─► Pack, until full ──► copy ─► kernel ─► matches, or their number
//! ```
//!
//! A pack has candidates of one unit. Where no device verifies it, the CPU decides its pairs one by one;
//! [`simjoin_gpu::offload`] has the way of packs to devices and back.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use simjoin_core::set::candidate_join::{CandidateJoin, Candidates};
use simjoin_core::set::candidates::CandidateChunk;
use simjoin_core::set::collection::SetCollection;
use simjoin_core::set::filter::size_bounds::SizeBoundsCache;
use simjoin_core::set::itself::SelfMatches;
use simjoin_core::set::join_spec::SetUnit;
use simjoin_core::set::runs::SetId;
use simjoin_core::set::verify::intersect;
use simjoin_gpu::offload::{
    self, Counted, DeviceFilter, JobCounters, Offload, OnHost, OpenUnit, PreparedOffload, TicketOf,
};
use simjoin_gpu::runtime::{DeviceError, DeviceWork};
use simjoin_gpu::set::device::DeviceJoin;
use simjoin_gpu::set::offload::on_cpu;

use crate::engine::{Funnel, Match, MatchNeed, MatchOrder, Pairing, PreparedJoin, ProbeUnit};
use crate::error::{Result, internal_error};
use crate::memory::Memory;
use crate::verified::devices::VerifyingDevices;
use crate::verified::pack::{Contents, Pack, is_wide};
use crate::verified::{Form, Launch, Outcome, Reply, Staging, VerifyJob};

/// Fewer candidates than these, the last of a unit, are not worth the way to a device.
const WORTH_SENDING: u32 = 1024;

/// A filter on the CPU, and devices that verify its candidates.
#[derive(Debug)]
struct DeviceVerifier {
    join: Arc<VerifyingDevices>,
    candidates: Arc<CandidateJoin>,
}

/// The packing of one cursor.
#[derive(Default)]
struct Packing {
    candidates: Option<(Candidates, SizeBoundsCache)>,
    /// The unit being filtered.
    unit: Option<u32>,
    /// Candidates of the unit, and the next one to be packed: its group, and its place there.
    chunk: CandidateChunk,
    next: (usize, usize),
    /// The pack that is being filled.
    pack: Option<Pack>,
}

/// A join whose candidates devices verify. The CPU joins where a partition gets no memory for packs.
///
/// # Errors
///
/// Where no device can load the kernels.
pub fn verified_on_devices(
    candidates: CandidateJoin,
    join: &Arc<DeviceJoin>,
    reservation: &dyn Memory,
) -> Result<Arc<dyn PreparedJoin>> {
    let candidates = Arc::new(candidates);
    let (build, spec) = (Arc::clone(candidates.build()), *candidates.spec());
    let on_devices = Arc::new(VerifyingDevices::new(join, &build, &spec)?);
    let prepared = Arc::clone(&candidates);
    let on_cpu = on_cpu(&build, spec, reservation, move |_, _| Ok(Arc::clone(&prepared) as _));
    let (devices, need, pairing) = (Arc::clone(&join.devices), spec.need, spec.pairing);
    let filter = DeviceVerifier { join: on_devices, candidates };
    let tuning = spec.tuning;
    let offload = Offload { build, need, pairing, tuning, devices, filter, on_cpu };
    Ok(Arc::new(PreparedOffload::new(offload)))
}

impl DeviceVerifier {
    /// Adds the candidates of the chunk to the open pack; gives the pack where it is full.
    fn pack(&self, packing: &mut Packing, unit: &SetUnit) -> Result<Option<Pack>> {
        let Packing { candidates: Some((_, bounds)), chunk, next, pack, .. } = packing else {
            return Ok(None);
        };
        if next.0 >= chunk.groups.len() {
            return Ok(None);
        }
        let build = self.candidates.build();
        let mut open = match pack.take() {
            Some(open) => open,
            None => {
                let wide = is_wide(&unit.items, build);
                Pack::new(self.join.staging(wide)?, Arc::clone(&unit.items), wide)
            }
        };
        match open.push(&self.join, build, bounds, chunk, *next) {
            Some(place) => {
                *next = place;
                Ok(Some(open))
            }
            None => {
                *next = (chunk.groups.len(), 0);
                *pack = Some(open);
                Ok(None)
            }
        }
    }
}

impl DeviceFilter for DeviceVerifier {
    type Items = SetCollection;
    type Itself = SelfMatches;
    type Job = Pack;
    type Left = ();
    type Scratch = Packing;
    type Undecided = Infallible;

    fn open(&self, packing: &mut Packing, reservation: &dyn Memory) -> Result<()> {
        let (build, spec) = (self.candidates.build(), self.candidates.spec());
        reservation.try_grow(SizeBoundsCache::footprint(build.runs()))?;
        let bounds = SizeBoundsCache::new(spec, build.runs());
        let capacity = spec.candidate_chunk.min(self.join.chunk_candidates(true));
        packing.candidates = Some((self.candidates.candidates(capacity, reservation)?, bounds));
        Ok(())
    }

    fn admit(&self, packing: &mut Packing, unit: &ProbeUnit) -> Result<()> {
        match &mut packing.candidates {
            Some((candidates, _)) => candidates.source.admit(&SetUnit::of(unit)?),
            None => Ok(()),
        }
    }

    fn itself(&self, unit: &SetUnit) -> Option<SelfMatches> {
        SelfMatches::of(unit, self.candidates.spec())
    }

    fn rows_of(&self, sets: Range<SetId>) -> Range<SetId> {
        sets
    }

    fn plan(
        &self,
        packing: &mut Packing,
        unit: &SetUnit,
        left: &mut Range<SetId>,
        _: &dyn Memory,
    ) -> Result<Vec<Pack>> {
        let Packing { candidates, chunk, next, .. } = packing;
        let (candidates, _) = candidates
            .as_mut()
            .ok_or_else(|| internal_error!("a cursor packs before it is opened"))?;
        let is_new = packing.unit.replace(unit.number) != Some(unit.number);
        if is_new {
            candidates.source.start(unit.clone());
        }
        if is_new || next.0 >= chunk.groups.len() {
            chunk.restart(unit.number, Arc::clone(&unit.items));
            candidates.fill(chunk);
            *next = (0, 0);
        }
        let ends_unit = chunk.ends_unit;
        let mut full = self.pack(packing, unit)?;
        if full.is_none() && ends_unit {
            left.start = left.end;
            packing.unit = None;
            // An idle chunk keeps no probe sets alive.
            packing.chunk.restart(0, Arc::default());
            full = packing.pack.take();
        }
        Ok(full.map(Pack::sealed).into_iter().collect())
    }

    fn retire(&self, packing: &mut Packing, unit: u32, probe: SetId) {
        if packing.unit == Some(unit)
            && let Some((candidates, _)) = &mut packing.candidates
        {
            candidates.source.retire(probe);
        }
    }

    fn add_to(&self, packing: &Packing, funnel: &mut Funnel) {
        // The source has counted what was sent.
        funnel.prefix_pairs = 0;
        if let Some((candidates, _)) = &packing.candidates {
            candidates.source.add_to(funnel);
        }
    }

    fn is_on(&self, _: usize) -> bool {
        true
    }

    fn suits_devices(&self, pack: &Pack) -> bool {
        let Contents { candidates, is_full, .. } = pack.contents;
        self.join.join.devices.demanded || is_full || candidates >= WORTH_SENDING
    }

    fn work(&self, device: usize, mut pack: Pack, ticket: TicketOf<Self>) -> Box<dyn DeviceWork> {
        pack.leave_lost_memory(&self.join);
        let (join, spec) = (&self.join, self.candidates.spec());
        let launch = Launch::choose(&pack.shape(), join.form, &spec.gpu);
        let Pack { staging, contents } = pack;
        let build = join.join.build_on(device).cloned();
        let probe = build.clone().filter(|_| join.join.has_probe());
        let work = VerifyJob {
            staging,
            launch,
            build,
            wide: contents.wide,
            exact: spec.need == MatchNeed::Scores,
            first_only: spec.need == MatchNeed::Exists,
            same: spec.pairing == Pairing::Unordered && probe.is_some(),
            probe,
            reply: Box::new(PackReply { contents, launch, ticket }),
        };
        work.into_work()
    }

    fn again(&self, _: &Pack, (): (), _: Option<&OpenUnit>) -> Vec<Pack> {
        vec![]
    }

    fn smaller(&self, _: &Pack) -> Option<Vec<Pack>> {
        None
    }

    fn undecided(&self, pack: &Pack) -> OnHost<Infallible> {
        OnHost::Pairs(pack.pairs())
    }

    fn decide(
        &self,
        _: &mut Packing,
        unit: &SetUnit,
        pair: &mut Match,
    ) -> Result<Option<MatchOrder>> {
        let (build, spec) = (self.candidates.build(), self.candidates.spec());
        let (size, other) = (unit.items.size(pair.probe), build.size(pair.build));
        let required = spec.bounds.min_overlap(spec.probe_role, size, other);
        let (a, b) = (unit.items.tokens(pair.probe), build.tokens(pair.build));
        let exact = spec.need == MatchNeed::Scores;
        let overlap = required.and_then(|least| intersect(spec.simd, a, b, 0, least, exact));
        pair.detail = overlap.unwrap_or(0);
        Ok(overlap.map(|_| MatchOrder::All))
    }

    fn most_matches(&self) -> u64 {
        match self.join.form {
            Form::Pairs => self.join.chunk_candidates(false) as u64,
            Form::Count => 0,
        }
    }

    fn host_bytes(&self) -> usize {
        let matches = self.most_matches() as usize * size_of::<Match>();
        matches.saturating_add(self.join.pack_bytes())
    }
}

/// Waits for the staging of a pack.
#[derive(Debug)]
struct PackReply {
    contents: Contents,
    launch: Launch,
    ticket: TicketOf<DeviceVerifier>,
}

impl Reply for PackReply {
    fn is_wanted(&self) -> bool {
        self.ticket.is_wanted()
    }

    fn done(self: Box<Self>, staging: Staging, outcome: Result<Outcome, DeviceError>) {
        let Self { contents, launch, ticket } = *self;
        let outcome = outcome.map(|Outcome { found, mut matches, usage }| {
            contents.restore(&mut matches);
            let candidates = contents.candidates.into();
            offload::Outcome {
                counted: match launch.form {
                    Form::Count => found.into(),
                    Form::Pairs => Counted::default(),
                },
                matches,
                undecided: contents.beside.clone(),
                left: (),
                counters: JobCounters {
                    kernel: launch.layout.name(),
                    passed: candidates,
                    compared: candidates,
                    ..JobCounters::default()
                },
                usage,
            }
        });
        ticket.done(Pack { staging, contents }, outcome);
    }
}
