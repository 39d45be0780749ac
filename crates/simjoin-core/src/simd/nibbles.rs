//! Sums of table entries that the halves of bytes choose, for 32 rows of bytes at once.

#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// Tables for the halves of up to 32 bytes: entry `v` of table `2b` counts where the low half of byte `b` is `v`, of table
/// `2b + 1` where the high one is.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct Nibbles {
    tables: [[u8; 16]; 2 * Self::BYTES],
}

impl Default for Nibbles {
    fn default() -> Self {
        Self { tables: [[0; 16]; 2 * Self::BYTES] }
    }
}

impl Nibbles {
    /// The most bytes of a row.
    pub const BYTES: usize = 32;
    /// The rows of a group.
    pub const LANES: usize = 32;

    /// The table of a half of a byte.
    pub fn table_mut(&mut self, nibble: usize) -> &mut [u8; 16] {
        &mut self.tables[nibble]
    }

    /// The sum of a row.
    #[inline]
    pub fn sum(&self, row: &[u8]) -> u32 {
        let entries = row.iter().zip(self.tables.chunks_exact(2));
        entries.map(|(byte, tables)| entry(tables, *byte)).sum()
    }

    /// The rows of a group whose sum is at most `limit`, as bits; all where it is 255. A group of rows of `bytes` bytes
    /// has 32 first bytes, 32 second bytes, and so on.
    #[inline]
    pub fn within(&self, group: &[u8], bytes: usize, limit: u8) -> u32 {
        if limit == u8::MAX {
            return u32::MAX;
        }
        let bytes = bytes.min(Self::BYTES);
        let group = &group[..bytes * Self::LANES];
        #[cfg(target_arch = "x86_64")]
        {
            static HAS_AVX2: OnceLock<bool> = OnceLock::new();
            if *HAS_AVX2.get_or_init(|| is_x86_feature_detected!("avx2")) {
                // SAFETY: the processor has AVX2; the group has `bytes` times 32 bytes.
                return unsafe { within_avx2(self, group.as_ptr(), bytes, limit) };
            }
        }
        self.within_portable(group, limit)
    }

    fn within_portable(&self, group: &[u8], limit: u8) -> u32 {
        let mut sums = [0_u16; Self::LANES];
        for (bytes, tables) in group.chunks_exact(Self::LANES).zip(self.tables.chunks_exact(2)) {
            for (sum, byte) in sums.iter_mut().zip(bytes) {
                *sum += entry(tables, *byte) as u16;
            }
        }
        let bit = |(lane, sum): (usize, &u16)| u32::from(*sum <= u16::from(limit)) << lane;
        sums.iter().enumerate().map(bit).sum()
    }
}

#[inline]
fn entry(tables: &[[u8; 16]], byte: u8) -> u32 {
    let [low, high] = [byte % 16, byte / 16].map(usize::from);
    u32::from(tables[0][low]) + u32::from(tables[1][high])
}

/// # Safety
///
/// The processor has AVX2; `bytes` times 32 bytes at `group` are readable, `bytes` is at most [`Nibbles::BYTES`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn within_avx2(nibbles: &Nibbles, group: *const u8, bytes: usize, limit: u8) -> u32 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_load_si128, _mm256_adds_epu8, _mm256_and_si256,
        _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8,
        _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
        _mm256_srli_epi16,
    };
    let half = _mm256_set1_epi8(15);
    let mut sums = [_mm256_setzero_si256(); 2];
    for byte in 0..bytes {
        // SAFETY: there are as many bytes, and twice as many tables, which are aligned.
        let (bytes, low, high) = unsafe {
            let table = |at: usize| _mm_load_si128(nibbles.tables[at].as_ptr().cast::<__m128i>());
            let bytes = _mm256_loadu_si256(group.add(byte * Nibbles::LANES).cast::<__m256i>());
            (bytes, table(2 * byte), table(2 * byte + 1))
        };
        let places =
            [_mm256_and_si256(bytes, half), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half)];
        for ((sum, table), place) in sums.iter_mut().zip([low, high]).zip(places) {
            let entries = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), place);
            *sum = _mm256_adds_epu8(*sum, entries);
        }
    }
    let sum = _mm256_adds_epu8(sums[0], sums[1]);
    let within = _mm256_cmpeq_epi8(_mm256_min_epu8(sum, _mm256_set1_epi8(limit as i8)), sum);
    _mm256_movemask_epi8(within) as u32
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Groups, in every form, and single rows have the same sums.
    #[test]
    fn groups_are_rows_side_by_side() {
        let mut rng = StdRng::seed_from_u64(3);
        for round in 0..500 {
            let mut nibbles = Nibbles::default();
            let most = [3, 6, 255][round % 3];
            for nibble in 0..64 {
                nibbles.table_mut(nibble).fill_with(|| rng.random_range(0..=most));
            }
            let bytes = [16, 32][round % 2];
            let rows: Vec<[u8; 32]> = (0..32).map(|_| rng.random()).collect();
            let mut group = [0; 1024];
            for (lane, row) in rows.iter().enumerate() {
                (0..bytes).for_each(|byte| group[byte * 32 + lane] = row[byte]);
            }
            for limit in [0, 40, 100, 254, 255, rng.random()] {
                let fits =
                    |row: &[u8; 32]| limit == 255 || nibbles.sum(&row[..bytes]) <= u32::from(limit);
                let expected: u32 =
                    rows.iter().enumerate().map(|(lane, row)| u32::from(fits(row)) << lane).sum();
                assert_eq!(nibbles.within(&group, bytes, limit), expected);
                if limit < 255 {
                    let group = &group[..bytes * 32];
                    assert_eq!(nibbles.within_portable(group, limit), expected);
                }
            }
        }
    }
}
