//! Work for a device.

use std::fmt::Debug;

use crate::runtime::{DeviceError, Results, Stage, Usage};

/// Work for the queue of a device. Any number of types share one queue.
///
/// The queue calls `issue`, then `finish`, then `answer`, each on a thread of its own; `answer`
/// comes last and exactly once, whatever fails before. A panic in `issue` or `finish` is the
/// answer to that work alone.
pub trait DeviceWork: Debug + Send {
    /// Issues copies and kernels without waiting for any of them. The launcher calls it in the
    /// order of submission. Work that issues nothing is answered at once, without `finish`.
    ///
    /// # Errors
    ///
    /// After [`DeviceError::OutOfMemory`] the queue frees idle memory, waits for other work to end
    /// and calls `issue` again; the error is the answer where nothing else holds memory. Any other
    /// error is the answer.
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError>;

    /// Takes the results, once everything that was issued has passed. The collector calls it in
    /// the order of submission.
    ///
    /// # Errors
    ///
    /// An error is the answer.
    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError>;

    /// Takes the answer. Nothing of the work is under way any more. It must not block: all other
    /// work waits meanwhile.
    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>);
}
