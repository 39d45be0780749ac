//! The rows of a probe in which each code stands, as the lanes look them up.

use super::CODES;
use crate::simd::Simd;
use crate::simd::texts::lanes_kernel;

/// The greatest bound of a band.
pub(crate) const MAX_K: u32 = 15;

/// One entry for each code, in one register.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct CodeTable(pub(super) [u8; CODES]);

/// The match masks of a probe for bands of 8 bits (bounds up to 7) or of 16 bits.
///
/// Table `r` has for each code, from the highest bit on, whether row `r`, `r - 1`, … of the probe
/// holds it. Bands of 16 bits have a table of low bytes before each table of high bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pattern {
    tables: Vec<CodeTable>,
    len: usize,
    wide: bool,
}

impl Pattern {
    /// Space for patterns.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Makes the tables of `probe` for bounds up to `k`, which is at most [`MAX_K`].
    pub(crate) fn set(&mut self, simd: Simd, probe: &[u8], k: u32) {
        self.len = probe.len();
        self.wide = k > 7;
        // Rows behind the last: as many as a band can reach beyond it.
        let rows = probe.len() + 1 + if self.wide { MAX_K as usize } else { 7 };
        let tables = rows * if self.wide { 2 } else { 1 };
        if self.tables.len() < tables {
            self.tables.resize(tables, CodeTable([0; CODES]));
        }
        let tables = &mut self.tables[..tables];
        if self.wide { wide_tables(probe, tables) } else { narrow_tables(simd, probe, tables) }
    }

    /// The length of the probe.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether the bands have 16 bits.
    pub(super) fn is_wide(&self) -> bool {
        self.wide
    }

    pub(super) fn tables(&self) -> &[CodeTable] {
        &self.tables
    }
}

lanes_kernel! {
    fn narrow_tables[F, Z = 1 or 1](probe: &[u8], tables: &mut [CodeTable]) {
        // SAFETY: the kernel runs the instructions of the form; a table is 64 writable bytes.
        unsafe {
            let mut rows = F::splat8(0);
            for (row, table) in tables.iter_mut().enumerate() {
                rows = F::half8(rows);
                if let Some(&code) = row.checked_sub(1).and_then(|row| probe.get(row)) {
                    rows = F::set_bit7(rows, code);
                }
                F::store(table.0.as_mut_ptr(), rows);
            }
        }
    }
}

fn wide_tables(probe: &[u8], tables: &mut [CodeTable]) {
    let mut rows = [0_u16; CODES];
    for (row, tables) in tables.chunks_exact_mut(2).enumerate() {
        for rows in &mut rows {
            *rows >>= 1;
        }
        if let Some(&code) = row.checked_sub(1).and_then(|row| probe.get(row)) {
            rows[usize::from(code) % CODES] |= 1 << 15;
        }
        for (code, rows) in rows.iter().enumerate() {
            [tables[0].0[code], tables[1].0[code]] = rows.to_le_bytes();
        }
    }
}
