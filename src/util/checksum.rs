//! Checksums of the blocks of a file.

use std::ops::Range;

use crc32fast::Hasher;

/// The CRC-32 of every block of a file: it tells any single error of up to 32 bits in a row, and of
/// other changes all but one in four billion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checksums {
    /// Bytes of a block; the last one may be shorter.
    block_bytes: u64,
    blocks: Box<[u32]>,
    bytes: u64,
}

impl Checksums {
    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number and the bytes of the block that holds the byte at `place`.
    pub(crate) fn block_at(&self, place: u64) -> (usize, Range<u64>) {
        let begin = place - place % self.block_bytes;
        let end = self.bytes.min(begin.saturating_add(self.block_bytes));
        ((begin / self.block_bytes) as usize, begin..end)
    }

    /// Whether the checksum of a block is this one.
    pub(crate) fn is_of_block(&self, number: usize, checksum: u32) -> bool {
        self.blocks.get(number) == Some(&checksum)
    }
}

/// Takes the checksums of a file as its bytes come.
#[derive(Debug)]
pub(crate) struct Checksummer {
    block_bytes: u64,
    blocks: Vec<u32>,
    bytes: u64,
    /// The bytes of the block that has begun.
    block: Hasher,
}

impl Checksummer {
    pub(crate) fn new(block_bytes: u64) -> Self {
        Self { block_bytes: block_bytes.max(1), blocks: vec![], bytes: 0, block: Hasher::new() }
    }

    /// Adds the next bytes of the file.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.block_bytes - self.bytes % self.block_bytes;
            let (part, behind) = bytes.split_at((bytes.len() as u64).min(room) as usize);
            self.block.update(part);
            self.bytes += part.len() as u64;
            if self.bytes.is_multiple_of(self.block_bytes) {
                self.blocks.push(std::mem::take(&mut self.block).finalize());
            }
            bytes = behind;
        }
    }

    /// The file has no more bytes.
    pub(crate) fn finish(mut self) -> Checksums {
        if !self.bytes.is_multiple_of(self.block_bytes) {
            self.blocks.push(self.block.finalize());
        }
        let Self { block_bytes, blocks, bytes, .. } = self;
        Checksums { block_bytes, blocks: blocks.into(), bytes }
    }
}
