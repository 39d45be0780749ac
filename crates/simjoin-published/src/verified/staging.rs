//! Chunks of candidates in host memory that a device copies by itself.

use std::ptr::NonNull;
use std::slice;

use simjoin_gpu::runtime::{Device, DeviceError, PinnedBuffer, Pod};

use crate::verified::abi::{Group, NarrowCandidate};

/// The parts of a chunk, each an array of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// [`Group`]s.
    Groups,
    /// [`NarrowCandidate`]s or [`Candidate`](simjoin_core::set::Candidate)s.
    Candidates,
    /// `u32`: required overlaps.
    Required,
    /// Sets that travel with the chunk: `u32` tokens, `u64` offsets, `u32` numbers of rows.
    ProbeTokens,
    /// `u64`: where the tokens of each probe set begin.
    ProbeOffsets,
    /// `u32`: the numbers of rows of the probe sets.
    ProbeRows,
    /// `u32`: the tokens of the build sets.
    BuildTokens,
    /// `u64`: where the tokens of each build set begin.
    BuildOffsets,
    /// `u32`: the numbers of rows of the build sets.
    BuildRows,
}

impl Section {
    /// The sections of one side's sets: tokens, offsets, numbers of rows.
    pub(crate) const PROBE: [Self; 3] = [Self::ProbeTokens, Self::ProbeOffsets, Self::ProbeRows];
    pub(crate) const BUILD: [Self; 3] = [Self::BuildTokens, Self::BuildOffsets, Self::BuildRows];
    pub const ALL: [Self; 9] = [
        Self::Groups,
        Self::Candidates,
        Self::Required,
        Self::ProbeTokens,
        Self::ProbeOffsets,
        Self::ProbeRows,
        Self::BuildTokens,
        Self::BuildOffsets,
        Self::BuildRows,
    ];
}

/// The bytes of each section of a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capacities {
    /// Bytes of [`Section::Groups`].
    pub groups: usize,
    /// Bytes of [`Section::Candidates`].
    pub candidates: usize,
    /// Bytes of [`Section::Required`].
    pub required: usize,
    /// Bytes of [`Section::ProbeTokens`].
    pub probe_tokens: usize,
    /// Bytes of [`Section::ProbeOffsets`].
    pub probe_offsets: usize,
    /// Bytes of [`Section::ProbeRows`].
    pub probe_rows: usize,
    /// Bytes of [`Section::BuildTokens`].
    pub build_tokens: usize,
    /// Bytes of [`Section::BuildOffsets`].
    pub build_offsets: usize,
    /// Bytes of [`Section::BuildRows`].
    pub build_rows: usize,
}

impl Capacities {
    fn of(&self, section: Section) -> usize {
        match section {
            Section::Groups => self.groups,
            Section::Candidates => self.candidates,
            Section::Required => self.required,
            Section::ProbeTokens => self.probe_tokens,
            Section::ProbeOffsets => self.probe_offsets,
            Section::ProbeRows => self.probe_rows,
            Section::BuildTokens => self.build_tokens,
            Section::BuildOffsets => self.build_offsets,
            Section::BuildRows => self.build_rows,
        }
    }

    /// The bytes that a chunk pins; `None` beyond the address space.
    pub fn bytes(&self) -> Option<usize> {
        let sections = Section::ALL.map(|section| self.of(section));
        sections.into_iter().try_fold(0_usize, |bytes, section| {
            bytes.checked_add(section.checked_next_multiple_of(ALIGNMENT)?)
        })
    }
}

/// Sections begin at multiples of this: no two share a cache line, copies are aligned.
const ALIGNMENT: usize = 256;

// SAFETY: a `repr(C)` struct of `u32`s only.
unsafe impl Pod for Group {}
// SAFETY: as above.
unsafe impl Pod for NarrowCandidate {}

/// A chunk of candidates; pinned memory goes back to its device when it is dropped.
#[derive(Debug)]
pub struct Staging {
    parts: [SectionBuffer; Section::ALL.len()],
    memory: StagingMemory,
}

/// `len` bytes of `capacity` are in use (and initialised).
#[derive(Debug, Clone, Copy)]
struct SectionBuffer {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

#[derive(Debug)]
enum StagingMemory {
    Pinned(PinnedBuffer),
    /// Lives as long as the parts that lie in it.
    Heap {
        _memory: Vec<u128>,
    },
}

// SAFETY: the pointers point into the memory that the staging owns.
unsafe impl Send for Staging {}
// SAFETY: as above.
unsafe impl Sync for Staging {}

impl Staging {
    /// An empty chunk in pinned memory, which is kept for the next one when it is dropped.
    ///
    /// # Errors
    ///
    /// [`DeviceError::HostOutOfMemory`] where these bytes cannot be pinned.
    pub fn pin(device: &Device, capacities: &Capacities) -> Result<Self, DeviceError> {
        let bytes = capacities.bytes();
        let bytes = bytes.ok_or(DeviceError::HostOutOfMemory { bytes: u64::MAX })?;
        let memory = device.pinned(bytes)?;
        let (start, bytes) = (memory.start(), memory.bytes());
        Ok(Self::divide(capacities, start, bytes, StagingMemory::Pinned(memory)))
    }

    /// An empty chunk in memory that no device knows: devices copy it all the same, not as fast.
    ///
    /// # Errors
    ///
    /// [`DeviceError::HostOutOfMemory`] beyond the address space.
    pub(crate) fn on_heap(capacities: &Capacities) -> Result<Self, DeviceError> {
        let bytes = capacities.bytes();
        let bytes = bytes.ok_or(DeviceError::HostOutOfMemory { bytes: u64::MAX })?;
        let mut memory = vec![0_u128; (bytes + ALIGNMENT) / size_of::<u128>()];
        let start = NonNull::from(memory.as_mut_slice()).cast::<u8>();
        // SAFETY: there is room for the alignment besides.
        let start = unsafe { start.add(start.align_offset(ALIGNMENT)) };
        Ok(Self::divide(capacities, start, bytes, StagingMemory::Heap { _memory: memory }))
    }

    fn divide(
        capacities: &Capacities,
        start: NonNull<u8>,
        bytes: usize,
        memory: StagingMemory,
    ) -> Self {
        // Every pointer below stays within the memory.
        assert!(capacities.bytes().is_some_and(|needed| needed <= bytes));
        let mut at = 0;
        let mut next = |capacity: usize| {
            // SAFETY: the sum of all capacities, each rounded up, is within the memory.
            let start = unsafe { start.add(at) };
            at += capacity.next_multiple_of(ALIGNMENT);
            start
        };
        let parts = Section::ALL.map(|section| {
            let capacity = capacities.of(section);
            SectionBuffer { start: next(capacity), len: 0, capacity }
        });
        Self { parts, memory }
    }

    /// Whether the device that pinned the memory is lost. The host can still read it.
    pub fn is_lost(&self) -> bool {
        match &self.memory {
            StagingMemory::Pinned(memory) => memory.is_lost(),
            StagingMemory::Heap { .. } => false,
        }
    }

    /// Copies the sections of another chunk, which is divided in the same way. Returns false where
    /// it is not; then the sections hold no valid chunk.
    #[must_use]
    pub fn copy_from(&mut self, other: &Self) -> bool {
        self.parts.iter_mut().for_each(|part| part.len = 0);
        Section::ALL.into_iter().all(|section| self.extend(section, other.section(section)))
    }

    /// Appends a value; false, and nothing done, where there is no room.
    #[inline]
    #[must_use]
    pub fn push<T: Pod>(&mut self, section: Section, value: T) -> bool {
        let part = &mut self.parts[section as usize];
        if part.capacity - part.len < size_of::<T>() {
            return false;
        }
        // SAFETY: there is room for a `T` behind `len`. A section may have held another type.
        unsafe { part.start.add(part.len).cast::<T>().write_unaligned(value) };
        part.len += size_of::<T>();
        true
    }

    /// Appends all values, or none where there is no room for all.
    #[inline]
    #[must_use]
    pub fn extend<T: Pod>(&mut self, section: Section, values: &[T]) -> bool {
        let part = &mut self.parts[section as usize];
        let bytes = size_of_val(values);
        if part.capacity - part.len < bytes {
            return false;
        }
        // SAFETY: there is room for the values behind `len`, in memory that only the staging has.
        unsafe {
            let to = part.start.add(part.len).as_ptr();
            values.as_ptr().cast::<u8>().copy_to_nonoverlapping(to, bytes);
        }
        part.len += bytes;
        true
    }

    /// Drops all values behind the first `len`.
    pub fn truncate<T: Pod>(&mut self, section: Section, len: usize) {
        let part = &mut self.parts[section as usize];
        part.len = part.len.min(len.saturating_mul(size_of::<T>()));
    }

    /// The number of further values that a section has room for.
    #[inline]
    pub fn room<T: Pod>(&self, section: Section) -> usize {
        let part = &self.parts[section as usize];
        (part.capacity - part.len) / size_of::<T>()
    }

    /// The number of values that a section holds.
    #[inline]
    pub fn len<T: Pod>(&self, section: Section) -> usize {
        self.parts[section as usize].len / size_of::<T>()
    }

    /// The values of a section.
    #[inline]
    pub fn slice<T: Pod>(&self, section: Section) -> &[T] {
        let part = &self.parts[section as usize];
        // SAFETY: `len` bytes are initialised, any bits are a `T`, sections are aligned for all.
        unsafe { slice::from_raw_parts(part.start.cast::<T>().as_ptr(), self.len::<T>(section)) }
    }

    /// The bytes in use of a section, which stay where they are while the staging does.
    pub fn section(&self, section: Section) -> &[u8] {
        let part = &self.parts[section as usize];
        // SAFETY: `len` bytes are initialised.
        unsafe { slice::from_raw_parts(part.start.as_ptr(), part.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacities() -> Capacities {
        // Neither multiples of the alignment nor of the size of a value.
        Capacities { groups: 40, candidates: 1001, required: 6, ..Default::default() }
    }

    fn narrow(build: u32) -> NarrowCandidate {
        NarrowCandidate { build, packed: !build }
    }

    #[test]
    fn sections_hold_what_was_appended_up_to_their_capacity() {
        let mut staging = Staging::on_heap(&capacities()).unwrap();
        let mut pushed = vec![];
        while staging.push(Section::Candidates, narrow(pushed.len() as u32)) {
            pushed.push(narrow(pushed.len() as u32));
        }
        assert_eq!(pushed.len(), 1001 / 8);
        assert_eq!(staging.slice::<NarrowCandidate>(Section::Candidates), pushed);
        assert_eq!(staging.room::<NarrowCandidate>(Section::Candidates), 0);
        assert_eq!(staging.room::<u32>(Section::Required), 1);
        assert!(staging.push(Section::Required, 7_u32));
        assert!(!staging.push(Section::Required, 8_u32));
        assert!(!staging.push(Section::ProbeRows, 1_u32), "a section without capacity");
        assert_eq!(staging.slice::<u32>(Section::Required), [7]);
        assert_eq!(staging.slice::<NarrowCandidate>(Section::Candidates), pushed);
    }

    #[test]
    fn extending_appends_all_or_nothing() {
        let mut staging = Staging::on_heap(&capacities()).unwrap();
        let group = |set| Group { set, probe: set + 1, start: 2, table: 3 };
        assert!(staging.extend(Section::Groups, &[group(1), group(2)]));
        assert!(!staging.extend(Section::Groups, &[group(3)]));
        assert!(staging.extend::<Group>(Section::Groups, &[]));
        assert_eq!(staging.slice::<Group>(Section::Groups), [group(1), group(2)]);
        staging.truncate::<Group>(Section::Groups, 1);
        staging.truncate::<Group>(Section::Groups, 5);
        assert_eq!(staging.slice::<Group>(Section::Groups), [group(1)]);
        assert_eq!(staging.room::<Group>(Section::Groups), 1);
    }

    #[test]
    fn a_chunk_moves_to_other_memory() {
        let mut from = Staging::on_heap(&capacities()).unwrap();
        assert!(from.extend(Section::Candidates, &[narrow(1), narrow(2)]));
        assert!(from.push(Section::Required, 7_u32));
        let mut to = Staging::on_heap(&capacities()).unwrap();
        assert!(to.push(Section::Required, 9_u32));
        assert!(to.copy_from(&from));
        assert_eq!(to.slice::<u32>(Section::Required), [7]);
        assert_eq!(to.slice::<NarrowCandidate>(Section::Candidates), [narrow(1), narrow(2)]);
        let mut smaller = Staging::on_heap(&Capacities { candidates: 8, ..capacities() }).unwrap();
        assert!(!smaller.copy_from(&from));
    }

    #[test]
    fn chunks_beyond_the_address_space_are_noticed() {
        let capacities =
            Capacities { groups: usize::MAX / 2, candidates: usize::MAX / 2, ..capacities() };
        assert_eq!(capacities.bytes(), None);
        assert_eq!(Capacities { required: usize::MAX, ..Default::default() }.bytes(), None);
    }
}
