//! Collections on devices.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::ResidentSets;
use crate::device_harness::Lent;
use crate::device_harness::sets::sets;
use crate::runtime::DeviceError;
use crate::set::bitmap::TILES;
use crate::set::bwjoin::INDEXED;

const OUT_OF_MEMORY: i32 = 2;
const ILLEGAL_ADDRESS: i32 = 700;

/// A collection is copied to a device once, its row counts when they are first asked for, and both
/// go with it.
#[test]
fn a_collection_is_copied_once_and_freed_with_it() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let sets = sets(&mut StdRng::seed_from_u64(1), 40, 20);
    assert!(!sets.has_no_repeats());
    assert_eq!(ResidentSets::bytes_on(&device, &sets), 0);
    let without_rows = ResidentSets::on(&device, &sets, false).unwrap();
    let copies = lent.fake().stat("copies_htod");
    assert_eq!(without_rows.bytes(), ResidentSets::bytes_of(&sets, false));
    assert_eq!(ResidentSets::bytes_on(&device, &sets), without_rows.bytes());
    let with_rows = ResidentSets::on(&device, &sets, true).unwrap();
    // The row counts alone, in pieces.
    let with_row_counts = lent.fake().stat("copies_htod");
    assert!(with_row_counts > copies);
    assert_eq!(with_rows.sets().tokens, without_rows.sets().tokens);
    assert!(with_rows.rows() != 0 && without_rows.rows() == 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let again = ResidentSets::on(&device, &sets, true).unwrap();
                assert_eq!(again.rows(), with_rows.rows());
            });
        }
    });
    assert_eq!(lent.fake().stat("copies_htod"), with_row_counts);
    assert_eq!(lent.fake().stat("allocated"), with_rows.bytes());
    drop((with_rows, without_rows));
    assert_eq!(lent.fake().stat("allocated"), ResidentSets::bytes_of(&sets, true));
    drop(sets);
    assert_eq!(lent.fake().stat("allocated"), 0);
    drop(device);
    lent.expect_nothing_left();
}

#[test]
fn copies_on_several_devices_are_of_each() {
    let (Some(lent), Some(other)) = (Lent::emulated(), Lent::emulated()) else { return };
    let devices = [lent.open().unwrap(), other.open().unwrap()];
    let sets = sets(&mut StdRng::seed_from_u64(1), 40, 20);
    let copies = devices.each_ref().map(|device| ResidentSets::on(device, &sets, true).unwrap());
    assert_ne!(copies[0].sets().tokens, copies[1].sets().tokens);
    for lent in [&lent, &other] {
        assert_eq!(lent.fake().stat("allocated"), ResidentSets::bytes_of(&sets, true));
    }
    drop((copies, sets, devices));
    lent.expect_nothing_left();
    other.expect_nothing_left();
}

/// Row counts that do not fit leave no sets behind.
#[test]
fn what_does_not_fit_is_not_kept() {
    let Some(lent) = Lent::emulated() else { return };
    let device = lent.open().unwrap();
    let sets = sets(&mut StdRng::seed_from_u64(1), 40, 20);
    // The allocation for the row counts, and the one after idle memory has been freed.
    lent.fake().fault("cuMemAlloc", 2, OUT_OF_MEMORY);
    lent.fake().fault("cuMemAlloc", 2, OUT_OF_MEMORY);
    let error = ResidentSets::on(&device, &sets, true).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
    assert_eq!(lent.fake().stat("allocated"), 0);
    assert!(ResidentSets::on(&device, &sets, true).is_ok());
}

/// A device that was lost and opened anew gets a copy of its own.
#[test]
fn a_copy_on_a_lost_device_is_made_anew() {
    let Some(lent) = Lent::emulated() else { return };
    let sets = sets(&mut StdRng::seed_from_u64(1), 40, 20);
    let device = lent.open().unwrap();
    let before = ResidentSets::on(&device, &sets, false).unwrap();
    lent.fake().fault("cuMemcpyHtoDAsync", 1, ILLEGAL_ADDRESS);
    assert!(ResidentSets::on(&device, &sets, true).is_err());
    assert!(device.is_lost() && lent.open().is_err(), "the copy holds the lost device");
    drop((device, before));
    lent.fake().reset();
    let device = lent.open().unwrap();
    assert_eq!(ResidentSets::bytes_on(&device, &sets), 0);
    assert!(ResidentSets::on(&device, &sets, true).is_ok());
    drop((device, sets));
    lent.expect_nothing_left();
}

#[test]
fn images_are_what_their_names_say() {
    for images in [&TILES, &INDEXED] {
        for (_, cubin) in images.cubins {
            assert!(cubin.starts_with(b"\x7fELF"));
            assert_eq!(cubin.as_ptr() as usize % 16, 0);
        }
        assert!(images.ptx.ends_with('\0') && images.ptx.contains(".version 8.4"));
    }
}
