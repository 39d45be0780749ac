//! Intel's Advanced Matrix Extensions.
//!
//! The compiler has no tile registers of its own: no function is compiled for them, so that they keep their
//! contents from one instruction here to the next.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};

use super::{MatrixUnit, TILE};

/// Proof that the tiles of this thread are configured.
pub(crate) struct Amx(());

/// The operand of `ldtilecfg`.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    first_row: u8,
    reserved: [u8; 14],
    /// Bytes of a row, and rows, by tile.
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Configuration {
    /// Eight whole tiles.
    const WHOLE: Self = {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        let mut tile = 0;
        while tile < TILES {
            (row_bytes[tile], rows[tile]) = ((TILE * size_of::<i32>()) as u16, TILE as u8);
            tile += 1;
        }
        Self { palette: 1, first_row: 0, reserved: [0; 14], row_bytes, rows }
    };
}

const TILES: usize = 8;

impl Amx {
    /// Whether the processor multiplies tiles of bytes and the kernel permits this process to. Asks the
    /// kernel for permission.
    pub(in crate::simd) fn is_available() -> bool {
        is_in_processor() && is_saved_by_kernel() && is_permitted()
    }
}

/// Whether the processor has AMX-TILE and AMX-INT8, and tiles of the size that is used here.
fn is_in_processor() -> bool {
    const OS_SAVES_STATES: u32 = 1 << 27;
    const TILE_AND_INT8: u32 = 1 << 24 | 1 << 25;
    /// The leaves of `cpuid` for features, and for tiles.
    const FEATURES: u32 = 7;
    const TILE_SIZES: u32 = 0x1D;
    let last = __cpuid_count(0, 0).eax;
    if last < TILE_SIZES || __cpuid_count(1, 0).ecx & OS_SAVES_STATES == 0 {
        return false;
    }
    let has_unit = __cpuid_count(FEATURES, 0).edx & TILE_AND_INT8 == TILE_AND_INT8;
    let has_palette = __cpuid_count(TILE_SIZES, 0).eax >= 1;
    let palette = __cpuid_count(TILE_SIZES, 1);
    let (row_bytes, tiles) = (palette.ebx & 0xFFFF, palette.ebx >> 16);
    let rows = palette.ecx & 0xFFFF;
    let are_whole = row_bytes as usize >= TILE * size_of::<i32>() && rows as usize >= TILE;
    has_unit && has_palette && are_whole && tiles as usize >= TILES
}

/// Whether the kernel saves the configuration of tiles and their contents. The processor must have
/// `xgetbv`.
fn is_saved_by_kernel() -> bool {
    const CONFIGURATION_AND_DATA: u64 = 1 << 17 | 1 << 18;
    #[target_feature(enable = "xsave")]
    fn saved() -> u64 {
        // SAFETY: the function has the target feature, and the register is there.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: the kernel saves states, as the caller has seen: it has enabled the instruction.
    (unsafe { saved() }) & CONFIGURATION_AND_DATA == CONFIGURATION_AND_DATA
}

/// Asks Linux to let the threads of this process use tiles. It refuses where a thread has a stack for signals that
/// tiles do not fit into, and refuses such stacks afterwards; those of the standard library have the room.
fn is_permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let answer: i64;
    // SAFETY: the call reads and writes no memory of the program; the kernel changes no registers besides
    // those that are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

impl MatrixUnit for Amx {
    #[inline(always)]
    unsafe fn begin() -> Self {
        static WHOLE: Configuration = Configuration::WHOLE;
        // SAFETY: the caller promises the instruction; the configuration is valid for palette 1.
        unsafe {
            asm!(
                "ldtilecfg [{from}]",
                from = in(reg) &raw const WHOLE,
                options(nostack, preserves_flags),
            );
        }
        Self(())
    }

    #[inline(always)]
    unsafe fn zero<const TO: usize>(&mut self) {
        // SAFETY: the caller promises the instruction; the tile is configured.
        unsafe {
            asm!("tilezero tmm{to}", to = const TO, options(nomem, nostack, preserves_flags));
        }
    }

    #[inline(always)]
    unsafe fn load<const TO: usize>(&mut self, from: *const i32, stride: usize) {
        // SAFETY: as above; the caller promises that the rows are readable.
        unsafe {
            asm!(
                "tileloadd tmm{to}, [{from} + {stride}*1]",
                to = const TO,
                from = in(reg) from,
                stride = in(reg) stride * size_of::<i32>(),
                options(readonly, nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    unsafe fn store<const FROM: usize>(&mut self, to: *mut i32, stride: usize) {
        // SAFETY: as above; the caller promises that the rows are writable.
        unsafe {
            asm!(
                "tilestored [{to} + {stride}*1], tmm{from}",
                to = in(reg) to,
                stride = in(reg) stride * size_of::<i32>(),
                from = const FROM,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    unsafe fn add_products<const TO: usize, const ROWS: usize, const COLUMNS: usize>(&mut self) {
        // SAFETY: the caller promises the instruction; the tiles are configured.
        unsafe {
            asm!(
                "tdpbsud tmm{to}, tmm{rows}, tmm{columns}",
                to = const TO,
                rows = const ROWS,
                columns = const COLUMNS,
                options(nomem, nostack, preserves_flags),
            );
        }
    }
}

impl Drop for Amx {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the value proves that the processor has the instruction.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}
