//! The way of probe items through a filter that runs on devices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::engine::{
    Cursor, Funnel, ItemId, MatchBuffer, MatchNeed, MatchOrder, ProbeUnit, Progress, Unit,
    UnitQueue,
};
use crate::error::Result;
use crate::memory::{Memory, Reservation};
use crate::offload::filter::{DeviceFilter, Itself, OnHost};
use crate::offload::inbox::{Answer, Inbox};
use crate::offload::join::Offload;
use crate::offload::outcome::{JobCounters, Outcome};
use crate::offload::redo::Redo;
use crate::offload::unit::{Delivery, OpenUnit};
use crate::runtime::DeviceError;

/// Works of one cursor on their way, for each device.
const WORKS_ON_THE_WAY: usize = 2;
/// The time for which a cursor plans in one time slice.
const SLICE: Duration = Duration::from_millis(5);
/// Bytes beside plans, matches and the join on the CPU.
const WORKING: usize = 1 << 20;

/// A unit under way, with what its family knows of it.
struct Open<T> {
    unit: Unit<T>,
    of: OpenUnit,
}

/// The cursor of a join on devices: [`crate::offload`].
pub(super) struct OffloadCursor<F: DeviceFilter> {
    join: Arc<Offload<F>>,
    reservation: Reservation,
    units: UnitQueue<ProbeUnit>,
    /// Units that are not complete.
    open: Vec<Open<F::Items>>,
    /// The matches of items of the last unit with themselves, until they are given.
    itself: Option<(u32, F::Itself)>,
    scratch: F::Scratch,
    /// Jobs that wait for a device.
    jobs: VecDeque<(u32, F::Job)>,
    in_flight: usize,
    most_in_flight: usize,
    inbox: Arc<Inbox<F::Job, F::Left>>,
    deliveries: VecDeque<Delivery>,
    redo: Redo<F>,
    /// When the first work was sent: before that, the device was idle for others.
    first_sent: Option<Instant>,
    /// The cursor has asked for input since the last unit came.
    asked: bool,
    /// Since when the cursor waits for a device.
    waiting: Option<Instant>,
    funnel: Funnel,
}

impl<F: DeviceFilter> OffloadCursor<F> {
    pub(super) fn new(join: &Arc<Offload<F>>, reservation: &dyn Memory) -> Self {
        Self {
            join: Arc::clone(join),
            reservation: reservation.new_empty(),
            units: UnitQueue::default(),
            open: vec![],
            itself: None,
            scratch: F::Scratch::default(),
            jobs: VecDeque::new(),
            in_flight: 0,
            most_in_flight: 1,
            inbox: Arc::default(),
            deliveries: VecDeque::new(),
            redo: Redo::default(),
            first_sent: None,
            asked: false,
            waiting: None,
            funnel: Funnel::default(),
        }
    }

    /// Reserves the memory of works on their way, and some to work with. Where devices are demanded, fewer
    /// works will do.
    pub(super) fn try_reserve(&mut self) -> Result<()> {
        let Offload { devices, filter, on_cpu, .. } = &*self.join;
        filter.open(&mut self.scratch, &self.reservation)?;
        let each = filter.host_bytes();
        // One on its way, and one that is planned or given meanwhile.
        self.reservation.try_grow(WORKING + on_cpu.least_bytes() + 2 * each)?;
        while self.most_in_flight < WORKS_ON_THE_WAY * devices.len() {
            match self.reservation.try_grow(each) {
                Ok(()) => self.most_in_flight += 1,
                Err(_) if devices.demanded => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The bytes reserved.
    pub(super) fn reserved(&self) -> usize {
        self.reservation.size()
    }

    fn unit(&mut self, number: u32) -> Option<&mut OpenUnit> {
        self.open.iter_mut().map(|open| &mut open.of).find(|open| open.probe.number == number)
    }

    /// Takes up the next unit; whether there was one.
    fn begin(&mut self) -> Result<bool> {
        let Some(probe) = self.units.pop() else { return Ok(false) };
        let Offload { need, filter, .. } = &*self.join;
        let unit = Unit::of(&probe)?;
        self.itself = filter.itself(&unit).map(|itself| (probe.number, itself));
        let left = filter.rows_of(probe.range.clone());
        let of = OpenUnit::new(probe, left, *need == MatchNeed::Exists);
        self.open.push(Open { unit, of });
        Ok(true)
    }

    /// Plans jobs for the next rows of an open unit; whether there were any.
    fn plan(&mut self) -> Result<bool> {
        let Some(open) = self.open.iter_mut().find(|open| !open.of.left.is_empty()) else {
            return Ok(false);
        };
        let Open { unit, of: OpenUnit { probe, left, pending, .. } } = open;
        let reservation = &self.reservation;
        let jobs = self.join.filter.plan(&mut self.scratch, unit, left, reservation)?;
        *pending += jobs.len();
        self.jobs.extend(jobs.into_iter().map(|job| (probe.number, job)));
        Ok(true)
    }

    /// Leaves a job to the CPU.
    fn leave_to_cpu(&mut self, unit: u32, job: F::Job) {
        match self.join.filter.undecided(&job) {
            OnHost::Join(undecided) => self.redo.push(unit, undecided),
            OnHost::Pairs(matches) => {
                let delivery =
                    Delivery { unit, order: MatchOrder::All, matches, decided: false, next: 0 };
                self.deliveries.push_back(delivery);
            }
        }
    }

    /// Whether the cursor may have another work under way: its first, or one that a device wants.
    fn may_send(&self) -> bool {
        let first = self.in_flight == 0;
        first || self.in_flight < self.most_in_flight && self.join.devices.want_works()
    }

    /// Sends a job to the device with the shortest queue; to the CPU where all have failed.
    fn submit(&mut self, unit: u32, job: F::Job) {
        let Offload { devices, filter, .. } = &*self.join;
        let shortest = devices.shortest_queue();
        let shortest =
            shortest.filter(|(number, _)| filter.is_on(*number) && filter.suits_devices(&job));
        let Some((number, device)) = shortest else {
            self.leave_to_cpu(unit, job);
            return;
        };
        self.in_flight += 1;
        self.first_sent.get_or_insert_with(Instant::now);
        self.funnel.device.chunks += 1;
        let ticket = self.inbox.ticket(unit, devices, number);
        device.submit(filter.work(number, job, ticket));
    }

    /// Takes up the next answer of a device; whether there was one.
    fn receive(&mut self, matches: &mut MatchBuffer) -> Result<bool> {
        let Some(Answer { unit, device, job, outcome }) = self.inbox.pop() else {
            return Ok(false);
        };
        self.in_flight -= 1;
        match outcome {
            Ok(outcome) => self.take(unit, job, outcome, matches),
            Err(error) => self.take_failure(unit, job, device, error)?,
        }
        Ok(true)
    }

    /// Finds another way for a job that a device has not done.
    fn take_failure(
        &mut self,
        number: u32,
        job: F::Job,
        device: usize,
        error: DeviceError,
    ) -> Result<()> {
        let shared = Arc::clone(&self.join);
        let Offload { devices, filter, .. } = &*shared;
        // The device has not failed if less will do.
        if matches!(error, DeviceError::OutOfMemory { .. })
            && let Some(smaller) = filter.smaller(&job)
        {
            let jobs = smaller.len();
            if let Some(open) = self.unit(number) {
                open.pending += jobs;
                open.pending -= 1;
            }
            self.jobs.extend(smaller.into_iter().map(|job| (number, job)));
            return Ok(());
        }
        devices.note_failure(device, &error);
        self.funnel.device.failed_chunks += 1;
        if !devices.have_failed() {
            self.jobs.push_back((number, job));
        } else if devices.demanded {
            return Err(error.into());
        } else {
            self.leave_to_cpu(number, job);
        }
        Ok(())
    }

    /// Takes what a device has found, and what it has left.
    fn take(
        &mut self,
        number: u32,
        job: F::Job,
        outcome: Outcome<F::Left>,
        matches: &mut MatchBuffer,
    ) {
        self.note(&outcome);
        let Outcome { counted, matches: given, undecided, left, .. } = outcome;
        if self.join.counts() {
            self.funnel.matches += counted.matches;
            matches.count(counted.rows);
        }
        let join = Arc::clone(&self.join);
        let mut all = self.open.iter_mut().map(|open| &mut open.of);
        let open = all.find(|open| open.probe.number == number);
        let follow_ups = join.filter.again(&job, left, open.as_deref());
        let Some(open) = open else { return };
        open.pending += follow_ups.len();
        for (matches, decided) in [(given, true), (undecided, false)] {
            if !matches.is_empty() {
                open.pending += 1;
                let order = MatchOrder::All;
                let delivery = Delivery { unit: number, order, matches, decided, next: 0 };
                self.deliveries.push_back(delivery);
            }
        }
        open.pending -= 1;
        self.jobs.extend(follow_ups.into_iter().map(|job| (number, job)));
    }

    /// Adds what a device has done.
    fn note(&mut self, outcome: &Outcome<F::Left>) {
        let Outcome { counters, usage, .. } = outcome;
        let JobCounters { kernel, tested, passed, candidates, compared } = *counters;
        let funnel = &mut self.funnel;
        funnel.postings += tested;
        funnel.prefix_pairs += passed;
        funnel.verified += compared;
        funnel.candidates += candidates;
        let device = &mut funnel.device;
        device.candidates += passed;
        device.kernels.add(kernel, usage.times.kernel_nanos);
        device.copy_nanos += usage.times.to_device_nanos + usage.times.from_device_nanos;
        let since = self.first_sent.map_or(0, |sent| sent.elapsed().as_nanos() as u64);
        device.idle_nanos += usage.times.idle_nanos.min(since);
        device.bytes_to += usage.bytes_to_device;
        device.bytes_from += usage.bytes_from_device;
    }

    /// Gives matches, and decides pairs for a time slice; whether there are more.
    fn deliver(&mut self, matches: &mut MatchBuffer) -> Result<bool> {
        let start = Instant::now();
        let join = Arc::clone(&self.join);
        while let Some(mut delivery) = self.deliveries.pop_front() {
            let number = delivery.unit;
            let mut all = self.open.iter_mut();
            let Some(Open { unit, of: open }) = all.find(|open| open.of.probe.number == number)
            else {
                continue;
            };
            matches.begin(number);
            let is_late = |decided: bool| !decided && start.elapsed() > SLICE;
            while !matches.is_full()
                && !is_late(delivery.decided)
                && let Some(mut found) = delivery.matches.get(delivery.next).copied()
            {
                delivery.next += 1;
                if !open.needs(found.probe) {
                    continue;
                }
                self.funnel.verified += u64::from(!delivery.decided);
                let order = match delivery.decided {
                    true => Some(delivery.order),
                    false => join.filter.decide(&mut self.scratch, unit, &mut found)?,
                };
                let Some(order) = order else { continue };
                open.settle(found.probe);
                self.funnel.matches += 1;
                match join.counts() && order == MatchOrder::All {
                    true => matches.count(join.rows_of(open, &found)),
                    false => matches.push_in(order, found),
                }
            }
            if delivery.next < delivery.matches.len() {
                self.deliveries.push_front(delivery);
                return Ok(true);
            }
            open.pending -= 1;
            if matches.is_full() {
                break;
            }
        }
        Ok(!self.deliveries.is_empty())
    }

    /// Has the CPU work on what devices failed to do. Pending while the CPU prepares its join.
    fn redo(&mut self, cx: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<()>> {
        let join = Arc::clone(&self.join);
        let found = match self.redo.work(cx, &join, &self.reservation) {
            Poll::Ready(found) => found?,
            Poll::Pending => return Poll::Pending,
        };
        let Some(found) = found else { return Poll::Ready(Ok(())) };
        let number = found.unit;
        let mut all = self.open.iter_mut().map(|open| &mut open.of);
        let Some(open) = all.find(|open| open.probe.number == number) else {
            return Poll::Ready(Ok(()));
        };
        if found.done {
            open.pending -= 1;
        }
        let unit = found.unit;
        for (order, found) in found.runs {
            if join.counts() && order == MatchOrder::All {
                self.funnel.matches += found.len() as u64;
                found.iter().for_each(|found| matches.count(join.rows_of(open, found)));
            } else if !found.is_empty() {
                open.pending += 1;
                let delivery = Delivery { unit, order, matches: found, decided: true, next: 0 };
                self.deliveries.push_back(delivery);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Notes the units of which nothing is left.
    fn complete(&mut self, matches: &mut MatchBuffer) {
        self.open.retain(|Open { of: open, .. }| {
            if open.is_complete() {
                matches.complete(open.probe.number);
            }
            !open.is_complete()
        });
    }

    fn advance(
        &mut self,
        cx: &mut Context<'_>,
        matches: &mut MatchBuffer,
    ) -> Poll<Result<Progress>> {
        let start = Instant::now();
        loop {
            if matches.is_full() {
                return Poll::Ready(Ok(Progress::Full));
            }
            if let Some((unit, itself)) = &mut self.itself {
                matches.begin(*unit);
                if !itself.give(matches, &mut self.funnel.matches)? {
                    let full = matches.is_full();
                    return Poll::Ready(Ok(if full { Progress::Full } else { Progress::Yield }));
                }
                self.itself = None;
            }
            if self.deliver(matches)? {
                let full = matches.is_full();
                return Poll::Ready(Ok(if full { Progress::Full } else { Progress::Yield }));
            }
            if self.receive(matches)? {
                continue;
            }
            if self.redo.is_busy()
                && let Poll::Ready(done) = self.redo(cx, matches)
            {
                return Poll::Ready(done.map(|()| Progress::Yield));
            }
            if start.elapsed() > SLICE {
                return Poll::Ready(Ok(Progress::Yield));
            }
            // What devices have left to the CPU comes first: plans take memory.
            if self.may_send() && !self.redo.is_busy() {
                if let Some((unit, job)) = self.jobs.pop_front() {
                    self.submit(unit, job);
                    continue;
                }
                if self.plan()? || self.begin()? {
                    continue;
                }
            }
            self.complete(matches);
            if self.open.is_empty() && self.units.is_empty() {
                return Poll::Ready(Ok(self.units.progress()));
            }
            let has_room = self.may_send() && self.units.is_empty();
            if has_room && !self.units.is_finished() && !std::mem::replace(&mut self.asked, true) {
                return Poll::Ready(Ok(Progress::NeedsInput));
            }
            if !matches.is_empty() {
                // They are turned into output meanwhile.
                return Poll::Ready(Ok(Progress::Yield));
            }
            self.inbox.register(cx.waker());
            if self.inbox.is_empty() {
                return Poll::Pending;
            }
        }
    }
}

impl<F: DeviceFilter> Drop for OffloadCursor<F> {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

impl<F: DeviceFilter> Cursor for OffloadCursor<F> {
    fn feed(&mut self, unit: ProbeUnit) -> Result<()> {
        self.join.filter.admit(&mut self.scratch, &unit)?;
        self.units.push(unit);
        self.asked = false;
        // Since then the cursor has waited for the unit, not for the device.
        self.waiting = None;
        Ok(())
    }

    fn finish(&mut self) {
        self.units.finish();
    }

    fn poll(&mut self, cx: &mut Context<'_>, matches: &mut MatchBuffer) -> Poll<Result<Progress>> {
        if let Some(since) = self.waiting.take() {
            self.funnel.device.wait_nanos += since.elapsed().as_nanos() as u64;
        }
        let start = Instant::now();
        let progress = self.advance(cx, matches);
        self.funnel.filter_nanos += start.elapsed().as_nanos() as u64;
        if progress.is_pending() {
            self.waiting = Some(Instant::now());
        }
        progress
    }

    fn retire(&mut self, unit: u32, probe: ItemId) {
        if let Some(open) = self.unit(unit) {
            open.settle(probe);
        }
        self.join.filter.retire(&mut self.scratch, unit, probe);
    }

    fn funnel(&self) -> Funnel {
        let mut funnel = self.funnel;
        self.join.filter.add_to(&self.scratch, &mut funnel);
        funnel
    }
}
