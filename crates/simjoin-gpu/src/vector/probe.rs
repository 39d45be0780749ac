//! The kernel of a device: the quickest one whose instructions round as its bounds take for granted.
//!
//! No document says how matrix instructions round sums of products. The bounds hold what was measured
//! on some devices; a device of another name is asked before its products are trusted.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::offload::ask;
use crate::runtime::{Device, DeviceError, LaunchGrid};
use crate::vector::abi::Probe;
use crate::vector::shape::{VECTORS, VectorKernel};

/// The steps of the longest sums that are asked for.
const STEPS: u32 = 16;

/// The name and compute capability of a device.
type Model = (String, (i32, i32));

/// By model of devices and kernel that asks, the greatest error of a step.
static ERRORS: Mutex<BTreeMap<(Model, &'static str), f64>> = Mutex::new(BTreeMap::new());

/// The kernel of a device.
///
/// # Errors
///
/// Where the device fails.
pub(super) fn kernel_of(device: &Arc<Device>) -> Result<VectorKernel, DeviceError> {
    let mut kernel = VectorKernel::of(device.capability());
    while !is_exact_enough(device, kernel)? {
        kernel = kernel.next_slower();
    }
    Ok(kernel)
}

/// Whether the products of a kernel round on a device as its bounds take for granted.
///
/// # Errors
///
/// Where the device fails.
pub(super) fn is_exact_enough(
    device: &Arc<Device>,
    kernel: VectorKernel,
) -> Result<bool, DeviceError> {
    let Some((probe, threads)) = kernel.probe() else { return Ok(true) };
    let name = ((device.name().to_string(), device.capability()), probe);
    let known = ERRORS.lock().get(&name).copied();
    let error = match known {
        Some(error) => error,
        None => {
            let error = greatest_error(device, probe, threads)?;
            ERRORS.lock().insert(name, error);
            error
        }
    };
    Ok(error <= kernel.rounding())
}

/// The greatest error of a step that a kernel finds.
fn greatest_error(
    device: &Arc<Device>,
    kernel: &'static str,
    threads: u32,
) -> Result<f64, DeviceError> {
    let greatest = ask(device, move |stage| {
        let greatest = stage.reserve("the rounding of products", size_of::<u64>() as u64)?;
        let kernel = stage.kernel(&VECTORS, kernel)?;
        let grid = LaunchGrid { blocks: 1, threads, shared_words: 0 };
        // SAFETY: the kernel takes a `Probe`, whose address has room for a number.
        unsafe { stage.launch(kernel, grid, Probe { greatest, steps: STEPS, reserved: 0 })? };
        stage.note(0, size_of::<u64>())
    })?;
    Ok(f64::from_bits(greatest))
}
