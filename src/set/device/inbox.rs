//! What comes back from a device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::gpu::DeviceError;
use crate::set::device::pack::{Contents, Pack};
use crate::set::device::{Outcome, Reply, Staging};

/// A pack and what the device made of it.
type Answer = (Pack, Result<Outcome, DeviceError>);

/// Where the device leaves what it has done.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Packs sent under another number are not waited for any more.
    round: AtomicU64,
    done: Mutex<VecDeque<Answer>>,
    /// Packs whose matches nobody wants.
    dropped: Mutex<Vec<Staging>>,
    waker: AtomicWaker,
}

impl Inbox {
    /// Takes the answer to a pack with these contents.
    pub fn ticket(self: &Arc<Self>, contents: Contents) -> Arc<dyn Reply> {
        Arc::new(Ticket {
            inbox: Arc::clone(self),
            round: self.round.load(Ordering::Acquire),
            contents: Mutex::new(Some(contents)),
        })
    }

    /// The oldest answer.
    pub fn pop(&self) -> Option<Answer> {
        self.done.lock().pop_front()
    }

    /// Packs that came too late.
    pub fn take_dropped(&self) -> Vec<Staging> {
        std::mem::take(&mut *self.dropped.lock())
    }

    pub fn is_empty(&self) -> bool {
        self.done.lock().is_empty() && self.dropped.lock().is_empty()
    }

    /// Drops the answers to all packs sent so far, also those yet to come; gives the packs that
    /// are here.
    pub fn begin_round(&self) -> Vec<Staging> {
        let mut done = self.done.lock();
        self.round.fetch_add(1, Ordering::AcqRel);
        done.drain(..).map(|(pack, _)| pack.staging).collect()
    }

    /// Wakes a task with the next pack that comes back.
    pub fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}

/// Waits for the staging of a pack.
#[derive(Debug)]
struct Ticket {
    inbox: Arc<Inbox>,
    round: u64,
    contents: Mutex<Option<Contents>>,
}

impl Reply for Ticket {
    fn done(&self, staging: Staging, outcome: Result<Outcome, DeviceError>) {
        let contents = self.contents.lock().take();
        let mut done = self.inbox.done.lock();
        match contents {
            Some(contents) if self.inbox.round.load(Ordering::Acquire) == self.round => {
                done.push_back((Pack { staging, contents }, outcome));
            }
            _ => self.inbox.dropped.lock().push(staging),
        }
        drop(done);
        self.inbox.waker.wake();
    }
}
