//! The arrays of a job in the memory of a device.

use crate::offload::memory::{ArrayLayout, bytes_of};
use crate::runtime::{DeviceError, Pod, Stage, Upload};

/// Arrays one behind the other. A job declares each array once: the call says how long the array is and
/// where its bytes come from, and gives its address, which goes into the argument of a kernel.
///
/// The declarations run twice: from address 0 on they show how much memory they take, and in that
/// memory they give the addresses.
#[derive(Debug, Default)]
pub struct Arena<'a> {
    start: u64,
    layout: ArrayLayout,
    /// By place: bytes of the host that are copied.
    copies: Vec<(u64, &'a [u8])>,
    /// By place: how many bytes are set to 0.
    zeroed: Vec<(u64, usize)>,
}

impl<'a> Arena<'a> {
    /// Arrays in memory at an address, a multiple of 256.
    pub fn at(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// Adds values that the host copies.
    pub fn copied<T: Pod>(&mut self, values: &'a [T]) -> u64 {
        let place = self.layout.add(values.len() as u64, size_of::<T>() as u64);
        if !values.is_empty() {
            self.copies.push((place, bytes_of(values)));
        }
        self.start + place
    }

    /// Adds `count` zeros.
    pub fn zeroed<T: Pod>(&mut self, count: u64) -> u64 {
        let place = self.layout.add(count, size_of::<T>() as u64);
        if count > 0 {
            self.zeroed.push((place, count as usize * size_of::<T>()));
        }
        self.start + place
    }

    /// Adds room for `count` values.
    pub fn room<T>(&mut self, count: u64) -> u64 {
        self.room_of(count, size_of::<T>() as u64)
    }

    /// Adds room for `count` values of `bytes` bytes.
    pub(crate) fn room_of(&mut self, count: u64, bytes: u64) -> u64 {
        self.start + self.layout.add(count, bytes)
    }

    /// The address of the first array.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The bytes of all arrays.
    pub fn bytes(&self) -> u64 {
        self.layout.end()
    }

    /// Issues the copies to the memory of a stage, and sets arrays to 0 there.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    ///
    /// # Safety
    ///
    /// The values that are copied stay where they are, unchanged, until the work is answered.
    pub(crate) unsafe fn fill(&self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        for (place, bytes) in &self.copies {
            // SAFETY: as the caller promises.
            unsafe { stage.copy(*place, bytes)? };
        }
        self.zeroed.iter().try_for_each(|(place, bytes)| stage.clear(*place, *bytes))
    }

    /// Copies the values, and zeros, to memory that stays on a device.
    ///
    /// # Errors
    ///
    /// Where the device fails.
    pub fn upload(&self, upload: &mut Upload<'_>) -> Result<(), DeviceError> {
        self.copies.iter().try_for_each(|(place, bytes)| upload.copy(*place, bytes))?;
        let mut zeroed = self.zeroed.iter();
        zeroed.try_for_each(|(place, bytes)| upload.copy_each(*place, *bytes, |_| 0_u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two passes over the same declarations.
    #[test]
    fn addresses_differ_by_the_start_alone() {
        let values = [1_u32, 2, 3];
        fn declare<'a>(arena: &mut Arena<'a>, values: &'a [u32]) -> [u64; 5] {
            [
                arena.zeroed::<u64>(9),
                arena.copied(values),
                arena.room::<u64>(100),
                arena.copied::<u64>(&[]),
                arena.room_of(3, 20),
            ]
        }
        let mut measured = Arena::at(0);
        assert_eq!(declare(&mut measured, &values), [0, 256, 512, 1536, 1536]);
        assert_eq!(measured.bytes(), 1792);
        let mut placed = Arena::at(4096);
        let addresses = [4096, 4352, 4608, 5632, 5632];
        assert_eq!(declare(&mut placed, &values), addresses);
        assert_eq!(placed.bytes(), measured.bytes());
        assert_eq!(placed.copies, [(256, bytes_of(&values))]);
        assert_eq!(placed.zeroed, [(0, 72)]);
    }
}
