//! Matrix units against the definition of their instructions.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Emulated, MatrixUnit, TILE};
use crate::simd::Simd;

const LEN: usize = TILE * TILE;

/// The definition of a product, place by place and byte by byte.
fn added(sums: &mut [i32], rows: &[i32], columns: &[i32], stride: usize) {
    for (row, column) in (0..TILE).flat_map(|row| (0..TILE).map(move |column| (row, column))) {
        for place in 0..TILE {
            let signed = rows[row * TILE + place].to_ne_bytes();
            let unsigned = columns[place * stride + column].to_ne_bytes();
            for byte in 0..4 {
                let product = i32::from(signed[byte] as i8) * i32::from(unsigned[byte]);
                let sum = &mut sums[row * TILE + column];
                *sum = sum.wrapping_add(product);
            }
        }
    }
}

/// Sums are added to for several tiles, and stored with a stride.
///
/// # Safety
///
/// The processor has the unit, and this process may use it.
unsafe fn check<U: MatrixUnit>(what: &str) {
    let mut rng = StdRng::seed_from_u64(19);
    for round in 0..200 {
        let stride = [TILE, TILE + 1, 2 * TILE, 5 * TILE][round % 4];
        let mut draw = |len: usize| -> Vec<i32> {
            (0..len)
                .map(|_| match round % 5 {
                    // The ends of the range.
                    0 => i32::from_ne_bytes([0x80, 0x7F, 0x80, 0x7F]),
                    1 => -1,
                    _ => rng.random(),
                })
                .collect()
        };
        let tiles: Vec<[Vec<i32>; 2]> =
            (0..=round % 7).map(|_| [draw(LEN), draw(LEN * stride / TILE)]).collect();
        let (mut expected, mut other) = (vec![0; LEN], vec![0; LEN]);
        let mut found = vec![7; TILE * stride];
        let mut untouched = vec![7; TILE * stride];
        // SAFETY: the caller promises the unit; the rows of tiles lie in vectors that hold them.
        unsafe {
            let mut unit = U::begin();
            unit.zero::<3>();
            unit.zero::<0>();
            for [rows, columns] in &tiles {
                unit.load::<5>(rows.as_ptr(), TILE);
                unit.load::<7>(columns.as_ptr(), stride);
                unit.add_products::<3, 5, 7>();
                added(&mut expected, rows, columns, stride);
            }
            unit.load::<1>(tiles[0][0].as_ptr(), TILE);
            unit.add_products::<0, 1, 7>();
            unit.store::<3>(found.as_mut_ptr(), stride);
            unit.store::<0>(other.as_mut_ptr(), TILE);
        }
        for row in 0..TILE {
            untouched[row * stride..][..TILE].copy_from_slice(&expected[row * TILE..][..TILE]);
        }
        assert_eq!(found, untouched, "{what} {round}");
        let mut of_other = vec![0; LEN];
        added(&mut of_other, &tiles[0][0], &tiles[tiles.len() - 1][1], stride);
        assert_eq!(other, of_other, "{what} {round}");
    }
}

#[test]
fn the_emulation_of_a_matrix_unit_is_its_definition() {
    // SAFETY: the emulation needs nothing.
    unsafe { check::<Emulated>("emulated") };
}

/// Where the processor has a unit.
#[test]
fn a_matrix_unit_computes_the_definition_in_every_thread() {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if Simd::available().iter().any(|simd| simd.matrix() == super::Matrix::Amx) {
        // SAFETY: the form proves that the unit is there.
        let check = || unsafe { check::<super::Amx>("amx") };
        check();
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(check))));
    }
    assert_eq!(Simd::emulated().to_string(), "emulated");
}
