//! A prepared join on devices, and its cursors.

use std::sync::Arc;

use crate::engine::{Cursor, PreparedJoin};
use crate::error::Result;
use crate::memory::Memory;
use crate::offload::cursor::OffloadCursor;
use crate::offload::fallback::leaves_room;
use crate::offload::filter::DeviceFilter;
use crate::offload::join::Offload;

/// A prepared join that runs wholly on devices.
#[derive(Debug)]
pub struct PreparedOffload<F>(Arc<Offload<F>>);

impl<F: DeviceFilter> PreparedOffload<F> {
    pub fn new(join: Offload<F>) -> Self {
        Self(Arc::new(join))
    }
}

impl<F: DeviceFilter> PreparedJoin for PreparedOffload<F> {
    fn open(&self, reservation: &dyn Memory) -> Result<Box<dyn Cursor>> {
        let mut cursor = OffloadCursor::new(&self.0, reservation);
        let reserved = cursor.try_reserve();
        let has_room = |()| match self.0.devices.demanded {
            true => Ok(()),
            // The rows of probe batches need memory, too.
            false => leaves_room(reservation, cursor.reserved()),
        };
        match reserved.and_then(has_room) {
            Ok(()) => Ok(Box::new(cursor)),
            Err(error) if self.0.devices.demanded => Err(error.context(
                "works of a GPU take host memory beside the join: lower simjoin.gpu.candidate_memory or \
                 raise the memory limit",
            )),
            Err(error) => {
                drop(cursor);
                self.0.devices.note_refusal(&error);
                Ok(Box::new(self.0.on_cpu.open(reservation)?))
            }
        }
    }

    fn range_unit(&self) -> u32 {
        self.0.filter.range_unit()
    }

    /// A work takes tens of microseconds of a device however small it is, and all partitions share the
    /// device: thousands of rows are little more.
    fn least_probe_rows(&self) -> usize {
        self.0.filter.least_range().max(1 << 12) as usize
    }

    fn least_range(&self) -> u32 {
        self.0.filter.least_range()
    }
}
