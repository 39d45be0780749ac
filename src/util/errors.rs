//! Kinds of errors.

use datafusion::common::DataFusionError;

/// Whether less data would have fitted into memory.
pub(crate) fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// Whether it is a device that has run out of memory: its error names it, and says what would help.
pub(crate) fn is_out_of_device_memory(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(message) => message.contains("CUDA device"),
        _ => false,
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;
    use crate::gpu::DeviceError;

    #[test]
    fn memory_of_devices_is_told_from_that_of_the_host() {
        let of_host = DataFusionError::ResourcesExhausted("greedy".to_string()).context("build");
        assert!(is_out_of_memory(&of_host) && !is_out_of_device_memory(&of_host));
        for error in [
            DeviceError::OutOfMemory { what: "vectors", bytes: 3 << 20, free: 1 << 20 },
            DeviceError::OutOfMemory { what: "vectors", bytes: 0, free: 0 },
        ] {
            let error = DataFusionError::from(error).context("build");
            assert!(is_out_of_memory(&error) && is_out_of_device_memory(&error), "{error}");
        }
    }
}
