//! Work of a device whose caller waits for it.

use std::fmt;
use std::sync::mpsc::{Sender, channel};

use crate::runtime::{Device, DeviceError, DeviceWork, Pod, Results, Stage, Usage};

/// A work that `issue` issues. Its note is missing where it issues nothing.
struct Awaited<I, N> {
    issue: I,
    note: Option<N>,
    sender: Sender<Result<Option<N>, DeviceError>>,
}

/// Has a device do a work, and waits for it. The device drops what `issue` holds before.
///
/// # Errors
///
/// Where the device fails.
pub fn run(
    device: &Device,
    issue: impl FnMut(&mut Stage<'_>) -> Result<(), DeviceError> + Send + 'static,
) -> Result<(), DeviceError> {
    submit::<()>(device, issue).map(|_| ())
}

/// Has a device do a work, and waits for its note. The device drops what `issue` holds before.
///
/// # Errors
///
/// Where the device fails, or the work has no note.
pub fn ask<N: Pod>(
    device: &Device,
    issue: impl FnMut(&mut Stage<'_>) -> Result<(), DeviceError> + Send + 'static,
) -> Result<N, DeviceError> {
    submit(device, issue)?.ok_or_else(unanswered)
}

fn submit<N: Pod>(
    device: &Device,
    issue: impl FnMut(&mut Stage<'_>) -> Result<(), DeviceError> + Send + 'static,
) -> Result<Option<N>, DeviceError> {
    let (sender, receiver) = channel();
    device.submit(Box::new(Awaited { issue, note: None, sender }));
    receiver.recv().map_err(|_| unanswered())?
}

fn unanswered() -> DeviceError {
    DeviceError::Internal("a work has no answer".to_string())
}

impl<I, N> fmt::Debug for Awaited<I, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaited").finish_non_exhaustive()
    }
}

impl<I, N: Pod> DeviceWork for Awaited<I, N>
where
    I: FnMut(&mut Stage<'_>) -> Result<(), DeviceError> + Send,
{
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        (self.issue)(stage)
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        self.note = Some(results.note()?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        let Self { issue, note, sender } = *self;
        drop(issue);
        // The caller waits.
        let _ = sender.send(outcome.map(|_| note));
    }
}
