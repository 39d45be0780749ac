//! Kinds of errors.

use datafusion::common::DataFusionError;

/// An error without the consumers of memory that may follow it.
pub(crate) fn first_line(error: &DataFusionError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_string()
}

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

/// Whether the machine has no GPU that could be used, as most have none.
pub(crate) fn is_without_gpu(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Execution(message) => NO_GPU.iter().any(|part| message.contains(part)),
        _ => false,
    }
}

/// Parts of the messages that tell of it.
const NO_GPU: [&str; 2] = ["libcuda was not found", "sees no CUDA device"];

/// The message of an error without its kind.
pub(crate) fn without_kind(error: &DataFusionError) -> String {
    match error {
        DataFusionError::Execution(message)
        | DataFusionError::Plan(message)
        | DataFusionError::ResourcesExhausted(message) => {
            message.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default().to_string()
        }
        error => error.strip_backtrace(),
    }
}
