//! Jobs that come back from a device.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::offload::devices::Devices;
use crate::offload::outcome::Outcome;
use crate::runtime::DeviceError;

/// A job of a unit, with the device's answer to it.
#[derive(Debug)]
pub(super) struct Answer<J, L> {
    pub unit: u32,
    /// The device, by its number in the join.
    pub device: usize,
    pub job: J,
    pub outcome: Result<Outcome<L>, DeviceError>,
}

/// The place where devices leave what they have answered.
#[derive(Debug)]
pub(super) struct Inbox<J, L> {
    done: Mutex<VecDeque<Answer<J, L>>>,
    waker: AtomicWaker,
    /// The cursor is gone: works that have not begun need not.
    closed: AtomicBool,
}

impl<J, L> Default for Inbox<J, L> {
    fn default() -> Self {
        Self { done: Mutex::default(), waker: AtomicWaker::new(), closed: AtomicBool::new(false) }
    }
}

impl<J, L> Inbox<J, L> {
    /// The reply to a job that goes to a device: it leaves the device's answer here.
    pub(super) fn ticket(
        self: &Arc<Self>,
        unit: u32,
        devices: &Arc<Devices>,
        device: usize,
    ) -> Ticket<J, L> {
        devices.note_sent(device);
        Ticket { inbox: Arc::clone(self), unit, devices: Arc::clone(devices), device }
    }

    /// The oldest answer.
    pub(super) fn pop(&self) -> Option<Answer<J, L>> {
        self.done.lock().pop_front()
    }

    /// Takes no further answer.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.done.lock().clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.done.lock().is_empty()
    }

    /// Wakes a task with the next answer.
    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}

/// The reply to a job.
#[derive(Debug)]
pub struct Ticket<J, L> {
    inbox: Arc<Inbox<J, L>>,
    unit: u32,
    devices: Arc<Devices>,
    device: usize,
}

impl<J, L> Ticket<J, L> {
    /// Leaves the answer, once. Never blocks.
    pub fn done(self, job: J, outcome: Result<Outcome<L>, DeviceError>) {
        let Self { unit, device, .. } = self;
        self.devices.note_answer(device);
        if !self.is_wanted() {
            return;
        }
        self.inbox.done.lock().push_back(Answer { unit, device, job, outcome });
        self.inbox.waker.wake();
    }

    /// Whether the answer is still asked for: a work that is not need not be done.
    pub fn is_wanted(&self) -> bool {
        !self.inbox.closed.load(Ordering::Relaxed)
    }
}
