//! Verification on a device, beside the filter.

mod send;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryReservation, human_readable_size};

use crate::engine::{DeviceFunnel, Funnel, JoinSpec, MatchBuffer, RowPairCounts};
use crate::set::CpuVerifier;
use crate::set::SetCollection;
use crate::set::device::inbox::Inbox;
use crate::set::device::join::DeviceJoin;
use crate::set::device::pack::{GROUP, Pack, Packed, is_wide};
use crate::set::device::{Form, Outcome, Staging};
use crate::set::filter::size_bounds::SizeBoundsCache;
use crate::set::{CandidateChunk, Verified, Verifier};

/// Packs of one verifier on their way to a device, for each device; one more is filled meanwhile.
const PACKS_ON_THE_WAY: usize = 2;
/// The last candidates are not worth the way to the device where they are so few.
const WORTH_SENDING: u32 = 1024;
/// Candidates that the CPU takes up again at once.
const REDONE: usize = 1 << 14;

/// Packs candidates for a device, and gives the matches that come back.
///
/// Where no pack is free, or the device has failed, and the query does not insist on the device,
/// candidates are verified on the CPU.
#[derive(Debug)]
pub struct DeviceVerifier {
    join: Arc<DeviceJoin>,
    build: Arc<SetCollection>,
    spec: JoinSpec,
    cpu: CpuVerifier,
    bounds: SizeBoundsCache,
    /// Pinned memory, and what else a verifier takes.
    reservation: MemoryReservation,
    /// The chunk that is being packed.
    held: Option<Held>,
    /// The pack that is being filled.
    open: Option<Pack>,
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
    last: bool,
}

#[derive(Debug)]
struct Delivery {
    pack: Pack,
    counts: RowPairCounts,
    matches: usize,
    next: usize,
}

#[derive(Debug)]
struct Redo {
    pack: Pack,
    /// The next group.
    group: usize,
}

/// What packing came to.
enum Packing {
    /// All candidates are in packs.
    Done,
    /// A pack was sent; there is more.
    Again,
    /// No pack is free.
    Wait,
    /// The rest is for the CPU.
    Cpu,
    /// The next candidate is.
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
        let sizes = (build.runs().least_size(), build.runs().greatest_size());
        Self {
            join: Arc::clone(join),
            build: Arc::clone(build),
            spec,
            cpu: CpuVerifier::new(Arc::clone(build), spec),
            bounds: SizeBoundsCache::new(spec.bounds, spec.probe_role, sizes),
            reservation: reservation.new_empty(),
            held: None,
            open: None,
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

    /// Reserves what is not pinned; false where that is refused and the query does not insist on
    /// the device.
    pub fn try_reserve(&mut self) -> Result<bool> {
        let sizes = (self.build.runs().least_size(), self.build.runs().greatest_size());
        let capacity = self.spec.candidate_chunk.min(self.join.chunk_capacity());
        let taken_up = CandidateChunk::footprint(capacity.max(REDONE + GROUP as usize));
        match self.reservation.try_grow(taken_up + SizeBoundsCache::footprint(sizes)) {
            Ok(()) => Ok(true),
            Err(error) if self.join.demanded => Err(error),
            Err(error) => {
                self.join.note_refusal(&error);
                Ok(false)
            }
        }
    }

    /// Free pinned memory, `None` where all packs are in use.
    fn staging(&mut self, wide: bool) -> Result<Option<Staging>> {
        let capacities = self.join.capacities(wide);
        self.reclaim();
        while let Some(staging) = self.spare.pop() {
            if staging.has(&capacities) && !staging.is_lost() {
                return Ok(Some(staging));
            }
            self.discard(staging)?;
        }
        if self.packs > PACKS_ON_THE_WAY * self.join.places.len() {
            return Ok(None);
        }
        let bytes = self.join.pack_bytes()?;
        let staging = match self.reservation.try_grow(bytes) {
            Ok(()) => self.join.places.pin(&capacities).map_err(|error| {
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
            // Fewer will do.
            Err(_) if self.packs > 0 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a pack up that is divided in another way than needed now.
    fn discard(&mut self, staging: Staging) -> Result<()> {
        drop(staging);
        self.packs -= 1;
        self.reservation.try_shrink(self.join.pack_bytes()?)?;
        Ok(())
    }

    /// Takes back packs that came too late.
    fn reclaim(&mut self) {
        let dropped = self.inbox.take_dropped();
        self.spare.extend(dropped);
    }

    /// Packs what is held; gives candidates that the CPU must verify.
    fn pack(&mut self) -> Result<Packing> {
        let Some(held) = &mut self.held else { return Ok(Packing::Done) };
        if held.next.0 >= held.chunk.groups.len() {
            return Ok(Packing::Done);
        }
        if self.join.has_failed() {
            return Ok(Packing::Cpu);
        }
        let fresh = self.open.is_none();
        if fresh {
            let probe = Arc::clone(&held.chunk.probe);
            let wide = is_wide(&probe, &self.build);
            match self.staging(wide) {
                Ok(Some(staging)) => self.open = Some(Pack::new(staging, probe, wide)),
                Ok(None) if self.join.demanded => return Ok(Packing::Wait),
                Ok(None) => return Ok(Packing::Cpu),
                Err(error) if self.join.demanded => return Err(error),
                Err(error) => {
                    self.join.note_refusal(&error);
                    return Ok(Packing::Cpu);
                }
            }
        }
        let (Some(pack), Some(held)) = (&mut self.open, &mut self.held) else {
            return Ok(Packing::Done);
        };
        let packed = pack.push(&self.join, &self.build, &mut self.bounds, &held.chunk, held.next);
        match packed {
            Packed::All => {
                // Not again when the chunk is held on to until the last pack has come back.
                held.next = (held.chunk.groups.len(), 0);
                Ok(Packing::Done)
            }
            Packed::UpTo { group, at } if pack.contents.candidates == 0 => {
                // It does not fit into an empty pack: the sets are larger than that. The next one
                // finds a pack without what was tried.
                held.next = (group, at);
                self.spare.extend(self.open.take().map(|pack| pack.staging));
                Ok(Packing::One)
            }
            Packed::UpTo { group, at } => {
                held.next = (group, at);
                self.send();
                Ok(Packing::Again)
            }
        }
    }

    /// Sends the open pack.
    fn send(&mut self) {
        let Some(mut pack) = self.open.take() else { return };
        pack.seal();
        self.funnel.chunks += 1;
        self.funnel.candidates += u64::from(pack.contents.candidates);
        self.first_sent.get_or_insert_with(Instant::now);
        self.submit_pack(pack);
    }

    /// Takes up what came back.
    fn receive(&mut self) -> Result<bool> {
        let Some((pack, outcome)) = self.inbox.pop() else {
            return Ok(false);
        };
        self.in_flight -= 1;
        match outcome {
            Ok(outcome) => {
                let Outcome { found, times, bytes_to_device, bytes_from_device } = outcome;
                self.verified += u64::from(pack.contents.candidates);
                self.funnel.kernels.add(pack.contents.kernel, times.kernel_nanos);
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
                    next: 0,
                    pack,
                });
            }
            Err(error) => {
                self.join.note_failure(pack.contents.place, &error);
                self.funnel.failed_chunks += 1;
                self.retry(pack, error)?;
            }
        }
        Ok(true)
    }

    /// Gives matches of a delivered pack; whether there are more.
    fn deliver(&mut self, matches: &mut MatchBuffer) -> bool {
        let Some(mut delivery) = self.delivered.take() else { return false };
        matches.count(std::mem::take(&mut delivery.counts));
        let pack = &delivery.pack;
        let found = pack.staging.matches(delivery.matches);
        while delivery.next < found.len() && !matches.is_full() {
            if pack.is_resident() {
                delivery.next += matches.extend(&found[delivery.next..]);
            } else {
                matches.push(pack.restore(found[delivery.next]));
                delivery.next += 1;
            }
        }
        if delivery.next < found.len() {
            self.delivered = Some(delivery);
            return true;
        }
        self.spare.push(delivery.pack.staging);
        false
    }

    /// Hands candidates of a pack that the device did not verify to the CPU.
    fn redo(&mut self) {
        let Some(mut redo) = self.redone.take() else { return };
        let mut chunk = self.take_scratch(Arc::clone(redo.pack.probe()));
        redo.group = redo.pack.unpack(&self.build, &self.spec, redo.group, REDONE, &mut chunk);
        match chunk.candidates.is_empty() {
            true => {
                self.scratch = chunk;
                self.spare.push(redo.pack.staging);
            }
            false => {
                self.cpu.submit(chunk, false);
                self.redone = Some(redo);
            }
        }
    }

    /// The chunk in which the CPU takes candidates up, empty.
    fn take_scratch(&mut self, probe: Arc<SetCollection>) -> CandidateChunk {
        let mut chunk = std::mem::replace(&mut self.scratch, CandidateChunk::new(Arc::default()));
        chunk.restart(probe);
        chunk
    }

    /// Hands the rest of the held chunk to the CPU, or only its next candidate.
    fn verify_on_cpu(&mut self, one: bool) {
        let Some(mut held) = self.held.take() else { return };
        let (group, at) = held.next;
        let mut rest = self.take_scratch(Arc::clone(&held.chunk.probe));
        held.next = (held.chunk.groups.len(), 0);
        if one {
            let (probe, candidates) = held.chunk.group(group);
            rest.push(probe, candidates[at]);
            held.next = if at + 1 < candidates.len() { (group, at + 1) } else { (group + 1, 0) };
        } else {
            rest.extend_from(&held.chunk, group, at);
        }
        self.held = Some(held);
        self.cpu.submit(rest, false);
    }
}

impl Verifier for DeviceVerifier {
    fn reset(&mut self) {
        self.spare.extend(self.inbox.begin_round());
        self.in_flight = 0;
        self.held = None;
        self.cpu.reset();
        let packs = [
            self.open.take(),
            self.delivered.take().map(|delivery| delivery.pack),
            self.redone.take().map(|redo| redo.pack),
        ];
        self.spare.extend(packs.into_iter().flatten().map(|pack| pack.staging));
    }

    fn submit(&mut self, chunk: CandidateChunk, last: bool) {
        debug_assert!(self.held.is_none());
        self.held = Some(Held { chunk, next: (0, 0), last });
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
                    chunk.restart(Arc::default());
                    self.scratch = chunk;
                }
                // The time slice is the CPU verifier's.
                return Poll::Ready(Ok(Verified::More));
            }
            if self.deliver(matches) {
                continue;
            }
            if self.redone.is_some() {
                self.redo();
                continue;
            }
            if self.receive()? {
                continue;
            }
            match self.pack()? {
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
                    if let Some(chunk) = self.finish() {
                        return Poll::Ready(Ok(Verified::Chunk(chunk)));
                    }
                    if self.redone.is_some() {
                        continue;
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
            self.reclaim();
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
    /// The chunk that is packed, if another one may come: after the last one only when nothing is
    /// on its way any more.
    fn finish(&mut self) -> Option<CandidateChunk> {
        let held = self.held.take()?;
        if held.last {
            if let Some(pack) = &self.open {
                let worth_sending =
                    pack.contents.candidates >= WORTH_SENDING && !self.join.has_failed();
                if self.join.demanded || worth_sending {
                    self.send();
                } else if let Some(mut pack) = self.open.take() {
                    pack.seal();
                    self.redone = Some(Redo { pack, group: 0 });
                }
            }
            if self.in_flight > 0 || self.redone.is_some() {
                self.held = Some(held);
                return None;
            }
        }
        Some(held.chunk)
    }
}
