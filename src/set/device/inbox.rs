//! Packs that come back from a device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::gpu::DeviceError;
use crate::set::device::pack::{Contents, Pack};
use crate::set::device::units::{Load, PackedUnit};
use crate::set::device::{Outcome, Reply, Staging};

/// A pack and the device's answer to it.
type Answer = (Load, Result<Outcome, DeviceError>);

/// The place where devices leave the packs that they have answered. Packs that come back after the
/// verifier was dropped are freed with the last of them.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    done: Mutex<VecDeque<Answer>>,
    waker: AtomicWaker,
}

impl Inbox {
    /// The reply to a pack with these contents: it leaves the device's answer here.
    pub(crate) fn ticket(
        self: &Arc<Self>,
        contents: Contents,
        units: Vec<PackedUnit>,
    ) -> Arc<dyn Reply> {
        let sent = Mutex::new(Some((contents, units)));
        Arc::new(Ticket { inbox: Arc::clone(self), sent })
    }

    /// The oldest answer.
    pub(crate) fn pop(&self) -> Option<Answer> {
        self.done.lock().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.done.lock().is_empty()
    }

    /// Wakes a task with the next pack that comes back.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}

/// Waits for the staging of a pack.
#[derive(Debug)]
struct Ticket {
    inbox: Arc<Inbox>,
    sent: Mutex<Option<(Contents, Vec<PackedUnit>)>>,
}

impl Reply for Ticket {
    fn done(&self, staging: Staging, outcome: Result<Outcome, DeviceError>) {
        let sent = self.sent.lock().take();
        if let Some((contents, units)) = sent {
            let load = Load { pack: Pack { staging, contents }, units };
            self.inbox.done.lock().push_back((load, outcome));
        }
        self.inbox.waker.wake();
    }
}
