//! Checksums of the blocks of a file.

use std::ops::Range;

use crc32fast::Hasher;

/// The CRC-32 of every block of a file: it tells any single error of up to 32 bits in a row, and of
/// other changes all but one in four billion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksums {
    /// Bytes of a block; the last one may be shorter.
    block_bytes: u64,
    blocks: Box<[u32]>,
    bytes: u64,
}

impl Checksums {
    /// The bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number and the bytes of the block that holds the byte at `place`.
    pub fn block_at(&self, place: u64) -> (usize, Range<u64>) {
        let begin = place - place % self.block_bytes;
        let end = self.bytes.min(begin.saturating_add(self.block_bytes));
        ((begin / self.block_bytes) as usize, begin..end)
    }

    /// The checksums as bytes, with one of themselves.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes.to_le_bytes().to_vec();
        bytes.extend(self.blocks.iter().flat_map(|block| block.to_le_bytes()));
        let own = crc32fast::hash(&bytes);
        bytes.extend(own.to_le_bytes());
        bytes
    }

    /// The checksums of blocks of `block_bytes` that [`Self::to_bytes`] gave; `None` where the bytes
    /// are others.
    pub fn from_bytes(block_bytes: u64, bytes: &[u8]) -> Option<Self> {
        let (noted, own) = bytes.split_last_chunk()?;
        let (length, blocks) = noted.split_first_chunk()?;
        let (blocks, []) = blocks.as_chunks() else { return None };
        let bytes = u64::from_le_bytes(*length);
        let is_whole = crc32fast::hash(noted) == u32::from_le_bytes(*own)
            && bytes.div_ceil(block_bytes) == blocks.len() as u64;
        let blocks = blocks.iter().map(|block| u32::from_le_bytes(*block)).collect();
        is_whole.then_some(Self { block_bytes, blocks, bytes })
    }

    /// Whether the checksum of a block is this one.
    pub fn is_of_block(&self, number: usize, checksum: u32) -> bool {
        self.blocks.get(number) == Some(&checksum)
    }
}

/// Takes the checksums of a file as its bytes come.
#[derive(Debug)]
pub struct Checksummer {
    block_bytes: u64,
    blocks: Vec<u32>,
    bytes: u64,
    /// The bytes of the block that has begun.
    block: Hasher,
}

impl Checksummer {
    pub fn new(block_bytes: u64) -> Self {
        Self { block_bytes: block_bytes.max(1), blocks: vec![], bytes: 0, block: Hasher::new() }
    }

    /// Adds the next bytes of the file.
    pub fn update(&mut self, mut bytes: &[u8]) {
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
    pub fn finish(mut self) -> Checksums {
        if !self.bytes.is_multiple_of(self.block_bytes) {
            self.blocks.push(self.block.finalize());
        }
        let Self { block_bytes, blocks, bytes, .. } = self;
        Checksums { block_bytes, blocks: blocks.into(), bytes }
    }
}
