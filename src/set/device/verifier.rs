//! Verification on a device, beside the filter.

mod send;

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryReservation, human_readable_size};

use crate::engine::{DeviceFunnel, Funnel, MatchBuffer, RowPairCounts};
use crate::set::CpuVerifier;
use crate::set::JoinSpec;
use crate::set::device::inbox::Inbox;
use crate::set::device::join::DeviceJoin;
use crate::set::device::pack::{GROUP, Pack, Packed, is_wide};
use crate::set::device::units::{Load, OpenUnits};
use crate::set::device::{Form, Outcome, Staging};
use crate::set::filter::size_bounds::SizeBoundsCache;
use crate::set::{CandidateChunk, SetCollection, SetId, Verified, Verifier};

/// Packs of one verifier on their way to a device, for each device; one more is filled meanwhile.
const PACKS_ON_THE_WAY: usize = 2;
/// Fewer candidates than these are not worth the way to the device.
const WORTH_SENDING: u32 = 1024;
/// Candidates that the CPU takes up again at once.
const REDONE: usize = 1 << 14;

/// Packs candidates for a device, and gives the matches that come back.
///
/// Candidates of several units are on their way at once. Where no pack is free, or the device has
/// failed, and the query does not insist on the device, candidates are verified on the CPU.
#[derive(Debug)]
pub struct DeviceVerifier {
    join: Arc<DeviceJoin>,
    build: Arc<SetCollection>,
    spec: JoinSpec,
    cpu: CpuVerifier,
    bounds: SizeBoundsCache,
    /// Pinned memory, and the other memory of a verifier.
    reservation: MemoryReservation,
    /// The chunk that is being packed.
    held: Option<Held>,
    units: OpenUnits,
    /// The pack that is being filled.
    open: Option<Load>,
    /// No chunk follows for now: the pack goes as it is.
    flushes: bool,
    spare: Vec<Staging>,
    /// Packs that exist, wherever they are.
    packs: usize,
    /// Packs on their way to the device and back.
    in_flight: usize,
    inbox: Arc<Inbox>,
    /// A pack whose matches are being given.
    delivered: Option<Delivery>,
    /// A pack that the device did not verify.
    redone: Option<Redo>,
    /// The chunk in which the CPU takes candidates up.
    scratch: CandidateChunk,
    funnel: DeviceFunnel,
    /// When the first pack was sent: before that, the device was idle for others.
    first_sent: Option<Instant>,
    /// Candidates that the device has decided, and those that match.
    verified: u64,
    matches: u64,
}

#[derive(Debug)]
struct Held {
    chunk: CandidateChunk,
    /// The next candidate: its group, and its place there.
    next: (usize, usize),
}

#[derive(Debug)]
struct Delivery {
    load: Load,
    counts: RowPairCounts,
    matches: usize,
    /// The unit whose matches are given, by its place in the pack, and the next match looked at.
    unit: usize,
    next: usize,
}

#[derive(Debug)]
struct Redo {
    load: Load,
    /// The unit taken up, by its place in the pack, and the next group.
    unit: usize,
    group: usize,
}

impl Redo {
    fn of(load: Load) -> Self {
        Self { load, unit: 0, group: 0 }
    }
}

/// How the packing of a chunk ended.
enum Packing {
    /// All candidates are in packs.
    Done,
    /// The open pack is on its way; there is more.
    Again,
    /// No pack is free.
    Wait,
    /// The rest of the chunk is for the CPU.
    Cpu,
    /// The next candidate is for the CPU.
    One,
}

impl DeviceVerifier {
    /// A verifier of candidates for the sets of `build`. Pinned memory is reserved as it is used.
    pub fn new(
        join: &Arc<DeviceJoin>,
        build: &Arc<SetCollection>,
        spec: JoinSpec,
        reservation: &MemoryReservation,
    ) -> Self {
        Self {
            join: Arc::clone(join),
            build: Arc::clone(build),
            spec,
            cpu: CpuVerifier::new(Arc::clone(build), spec),
            bounds: SizeBoundsCache::new(&spec, build.runs()),
            reservation: reservation.new_empty(),
            held: None,
            units: OpenUnits::default(),
            open: None,
            flushes: false,
            spare: vec![],
            packs: 0,
            in_flight: 0,
            inbox: Arc::default(),
            delivered: None,
            redone: None,
            scratch: CandidateChunk::new(Arc::default()),
            funnel: DeviceFunnel::default(),
            first_sent: None,
            verified: 0,
            matches: 0,
        }
    }

    /// Reserves the memory that is not pinned. Returns false where the pool refuses it and the
    /// query does not insist on the device.
    pub fn try_reserve(&mut self) -> Result<bool> {
        let capacity = self.spec.candidate_chunk.min(self.join.chunk_capacity());
        let taken_up = CandidateChunk::footprint(capacity.max(REDONE + GROUP as usize));
        match self.reservation.try_grow(taken_up + SizeBoundsCache::footprint(self.build.runs())) {
            Ok(()) => Ok(true),
            Err(error) if self.join.devices.demanded => Err(error),
            Err(error) => {
                self.join.devices.note_refusal(&error);
                Ok(false)
            }
        }
    }

    /// Free pinned memory, `None` where all packs are in use.
    fn staging(&mut self, wide: bool) -> Result<Option<Staging>> {
        let capacities = self.join.capacities(wide);
        while let Some(staging) = self.spare.pop() {
            if staging.has(&capacities) && !staging.is_lost() {
                return Ok(Some(staging));
            }
            self.discard(staging)?;
        }
        if self.packs > PACKS_ON_THE_WAY * self.join.devices.len() {
            return Ok(None);
        }
        let bytes = self.join.pack_bytes()?;
        let staging = match self.reservation.try_grow(bytes) {
            Ok(()) => self.join.pin(&capacities).map_err(|error| {
                self.reservation.shrink(bytes);
                error.into()
            }),
            Err(error) => Err(error.context(format!(
                "chunks of candidates for a GPU take {} of host memory each: lower \
                 simjoin.gpu.candidate_memory or raise the memory limit",
                human_readable_size(bytes)
            ))),
        };
        match staging {
            Ok(staging) => {
                self.packs += 1;
                Ok(Some(staging))
            }
            // Fewer packs suffice.
            Err(_) if self.packs > 0 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Frees a pack that is divided in another way than needed now.
    fn discard(&mut self, staging: Staging) -> Result<()> {
        drop(staging);
        self.packs -= 1;
        self.reservation.try_shrink(self.join.pack_bytes()?)?;
        Ok(())
    }

    /// Packs the candidates of the held chunk, or says which of them the CPU must verify.
    fn pack(&mut self, matches: &mut MatchBuffer) -> Result<Packing> {
        let Some(held) = &mut self.held else { return Ok(Packing::Done) };
        if held.next.0 >= held.chunk.groups.len() {
            return Ok(Packing::Done);
        }
        let probe = Arc::clone(&held.chunk.probe);
        if self.open.as_ref().is_some_and(|open| !Arc::ptr_eq(open.pack.probe(), &probe)) {
            // A pack holds sets of one collection.
            self.close();
            return Ok(Packing::Again);
        }
        if self.join.devices.have_failed() {
            return Ok(Packing::Cpu);
        }
        if self.open.is_none() {
            let wide = is_wide(&probe, &self.build);
            match self.staging(wide) {
                Ok(Some(staging)) => {
                    self.open = Some(Load::new(Pack::new(staging, probe, wide)));
                }
                Ok(None) if self.join.devices.demanded => return Ok(Packing::Wait),
                Ok(None) => return Ok(Packing::Cpu),
                Err(error) if self.join.devices.demanded => return Err(error),
                Err(error) => {
                    self.join.devices.note_refusal(&error);
                    return Ok(Packing::Cpu);
                }
            }
        }
        let (Some(open), Some(held)) = (&mut self.open, &mut self.held) else {
            return Ok(Packing::Done);
        };
        self.units.enter(held.chunk.unit, open);
        let pack = &mut open.pack;
        let packed = pack.push(&self.join, &self.build, &mut self.bounds, &held.chunk, held.next);
        match packed {
            Packed::All => {
                held.next = (held.chunk.groups.len(), 0);
                Ok(Packing::Done)
            }
            Packed::UpTo { group, at } if pack.contents.candidates == 0 => {
                // The candidate does not fit into an empty pack: its sets are too large. The next
                // candidate gets a pack without them.
                held.next = (group, at);
                if let Some(load) = self.open.take() {
                    self.put_back(load, matches);
                }
                Ok(Packing::One)
            }
            Packed::UpTo { group, at } => {
                held.next = (group, at);
                self.send();
                Ok(Packing::Again)
            }
        }
    }

    /// The open pack takes no more candidates: it goes to a device where that pays, otherwise to
    /// the CPU. No other pack is being taken up by the CPU.
    fn close(&mut self) {
        let Some(open) = &self.open else { return };
        let worth_sending =
            open.pack.contents.candidates >= WORTH_SENDING && !self.join.devices.have_failed();
        if self.join.devices.demanded || worth_sending {
            self.send();
        } else if let Some(mut load) = self.open.take() {
            debug_assert!(self.redone.is_none());
            load.pack.seal();
            self.redone = Some(Redo::of(load));
        }
    }

    /// Sends the open pack.
    fn send(&mut self) {
        let Some(Load { mut pack, units }) = self.open.take() else { return };
        pack.seal();
        self.funnel.chunks += 1;
        self.funnel.candidates += u64::from(pack.contents.candidates);
        self.first_sent.get_or_insert_with(Instant::now);
        self.submit_load(Load { pack, units });
    }

    /// Takes up the next pack that came back; whether there was one.
    fn receive(&mut self) -> Result<bool> {
        let Some((load, outcome)) = self.inbox.pop() else {
            return Ok(false);
        };
        self.in_flight -= 1;
        let contents = &load.pack.contents;
        match outcome {
            Ok(outcome) => {
                let Outcome { found, times, bytes_to_device, bytes_from_device } = outcome;
                self.verified += u64::from(contents.candidates);
                self.funnel.kernels.add(contents.kernel, times.kernel_nanos);
                self.funnel.copy_nanos += times.to_device_nanos + times.from_device_nanos;
                let since = self.first_sent.map_or(0, |sent| sent.elapsed().as_nanos() as u64);
                self.funnel.idle_nanos += times.idle_nanos.min(since);
                self.funnel.bytes_to += bytes_to_device;
                self.funnel.bytes_from += bytes_from_device;
                self.matches += found.matches;
                self.delivered = Some(Delivery {
                    counts: RowPairCounts {
                        cross: found.cross,
                        squares: found.squares,
                        rows: found.rows,
                    },
                    matches: match self.join.form {
                        Form::Pairs => found.matches as usize,
                        Form::Count => 0,
                    },
                    unit: 0,
                    next: 0,
                    load,
                });
            }
            Err(error) => {
                self.join.devices.note_failure(contents.place, &error);
                self.funnel.failed_chunks += 1;
                self.retry(load, error)?;
            }
        }
        Ok(true)
    }

    /// The candidates of a pack are decided, and their matches given: it may be filled again.
    fn put_back(&mut self, load: Load, matches: &mut MatchBuffer) {
        self.units.decided(&load.units, matches);
        self.spare.push(load.pack.staging);
    }

    /// Gives matches of a delivered pack; whether there are more.
    fn deliver(&mut self, matches: &mut MatchBuffer) -> bool {
        let Some(mut delivery) = self.delivered.take() else { return false };
        matches.count(std::mem::take(&mut delivery.counts));
        if delivery.give(matches) {
            self.delivered = Some(delivery);
            return true;
        }
        self.put_back(delivery.load, matches);
        false
    }

    /// Hands candidates of a pack that the device did not verify to the CPU.
    fn redo(&mut self, matches: &mut MatchBuffer) {
        let Some(mut redo) = self.redone.take() else { return };
        let mut chunk = self.take_scratch(0, Arc::clone(redo.load.pack.probe()));
        while let Some(unit) = redo.load.units.get(redo.unit) {
            let groups = redo.load.groups_of(redo.unit);
            chunk.unit = unit.number;
            let from = redo.group.max(groups.start)..groups.end;
            redo.group = redo.load.pack.unpack(&self.build, &self.spec, from, REDONE, &mut chunk);
            if !chunk.candidates.is_empty() {
                self.cpu.submit(chunk);
                self.redone = Some(redo);
                return;
            }
            redo.unit += 1;
        }
        self.scratch = chunk;
        self.put_back(redo.load, matches);
    }

    /// The chunk in which the CPU takes candidates up, empty.
    fn take_scratch(&mut self, unit: u32, probe: Arc<SetCollection>) -> CandidateChunk {
        let mut chunk = std::mem::replace(&mut self.scratch, CandidateChunk::new(Arc::default()));
        chunk.restart(unit, probe);
        chunk
    }

    /// Hands the rest of the held chunk to the CPU, or only its next candidate.
    fn verify_on_cpu(&mut self, one: bool) {
        let Some(mut held) = self.held.take() else { return };
        let (group, at) = held.next;
        let mut rest = self.take_scratch(held.chunk.unit, Arc::clone(&held.chunk.probe));
        held.next = (held.chunk.groups.len(), 0);
        if one {
            let (probe, candidates) = held.chunk.group(group);
            rest.push(probe, candidates[at]);
            held.next = if at + 1 < candidates.len() { (group, at + 1) } else { (group + 1, 0) };
        } else {
            rest.extend_from(&held.chunk, group, at);
        }
        self.held = Some(held);
        self.cpu.submit(rest);
    }
}

impl Delivery {
    /// Gives matches; whether there are more.
    fn give(&mut self, matches: &mut MatchBuffer) -> bool {
        let Load { pack, units } = &self.load;
        let found = pack.staging.matches(self.matches);
        while let Some(unit) = units.get(self.unit) {
            matches.begin(unit.number);
            let alone = units.len() == 1;
            while self.next < found.len() && !matches.is_full() {
                if alone && pack.is_resident() {
                    self.next += matches.extend(&found[self.next..]);
                    continue;
                }
                let next = found[self.next];
                self.next += 1;
                // Kernels mix the matches of units.
                if alone || unit.range.contains(&next.probe) {
                    matches.push(pack.restore(next));
                }
            }
            if self.next < found.len() {
                return true;
            }
            (self.unit, self.next) = (self.unit + 1, 0);
        }
        false
    }
}

impl Verifier for DeviceVerifier {
    fn begin(&mut self, unit: u32, range: Range<SetId>) {
        self.units.open(unit, range);
    }

    fn submit(&mut self, chunk: CandidateChunk) {
        debug_assert!(self.held.is_none());
        self.flushes = false;
        self.held = Some(Held { chunk, next: (0, 0) });
    }

    fn flush(&mut self) {
        self.flushes = true;
    }

    fn poll_verified(
        &mut self,
        cx: &mut Context<'_>,
        matches: &mut MatchBuffer,
    ) -> Poll<Result<Verified>> {
        loop {
            if matches.is_full() {
                return Poll::Ready(Ok(Verified::More));
            }
            if self.cpu.is_busy() {
                if let Verified::Chunk(mut chunk) = self.cpu.verify(matches) {
                    // It keeps no probe sets alive.
                    chunk.restart(0, Arc::default());
                    self.scratch = chunk;
                }
                // The time slice is the CPU verifier's.
                return Poll::Ready(Ok(Verified::More));
            }
            if self.deliver(matches) {
                continue;
            }
            if self.redone.is_some() {
                self.redo(matches);
                continue;
            }
            if self.receive()? {
                continue;
            }
            match self.pack(matches)? {
                Packing::Again => continue,
                Packing::Cpu => {
                    self.verify_on_cpu(false);
                    continue;
                }
                Packing::One => {
                    self.verify_on_cpu(true);
                    continue;
                }
                Packing::Done => {
                    if let Some(chunk) = self.take_held(matches) {
                        return Poll::Ready(Ok(Verified::Chunk(chunk)));
                    }
                    if self.flushes && self.open.is_some() {
                        self.close();
                        continue;
                    }
                    if self.in_flight == 0 && self.open.is_none() {
                        return Poll::Ready(Ok(Verified::Idle));
                    }
                }
                Packing::Wait => {}
            }
            if !matches.is_empty() {
                // They are turned into output meanwhile.
                return Poll::Ready(Ok(Verified::More));
            }
            self.inbox.register(cx.waker());
            if self.inbox.is_empty() {
                return Poll::Pending;
            }
        }
    }

    fn add_to(&self, funnel: &mut Funnel) {
        self.cpu.add_to(funnel);
        funnel.verified += self.verified;
        funnel.matches += self.matches;
        let wait_nanos = funnel.device.wait_nanos;
        funnel.device = DeviceFunnel { wait_nanos, ..self.funnel };
    }
}

impl DeviceVerifier {
    /// The held chunk, all of whose candidates are packed or decided.
    fn take_held(&mut self, matches: &mut MatchBuffer) -> Option<CandidateChunk> {
        let Held { chunk, .. } = self.held.take()?;
        if chunk.ends_unit {
            self.units.end(chunk.unit, matches);
            if !self.join.devices.self_join {
                // The next unit has a collection of its own.
                self.close();
            }
        }
        Some(chunk)
    }
}
