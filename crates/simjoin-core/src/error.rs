//! The errors of everything below the operator, in four kinds, and what the crates below it report.
//!
//! A message names the function or option, what was found and what would work. The operator gives these
//! errors on as DataFusion's of the same kinds.

use std::fmt;
use std::sync::Arc;

use arrow::error::ArrowError;

/// The result of everything below the operator.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error.
#[derive(Debug)]
pub enum Error {
    /// A join that cannot be planned.
    Plan(String),
    /// A join that failed.
    Execution(String),
    /// Memory, of the host or of a device, that was refused.
    ResourcesExhausted(String),
    /// A contradiction in the code.
    Internal(String),
    /// An error of Arrow.
    Arrow(ArrowError),
    /// An error, and what would help.
    Context(String, Box<Error>),
    /// An error that several tasks get.
    Shared(Arc<Error>),
    /// An error of the caller's code: of its memory, for one.
    Foreign(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The error that this one stands for.
    pub fn root(&self) -> &Self {
        match self {
            Self::Shared(error) => error.root(),
            Self::Context(_, error) => error.root(),
            error => error,
        }
    }

    /// The error with a text before it.
    pub fn context(self, text: impl Into<String>) -> Self {
        Self::Context(text.into(), Box::new(self))
    }

    /// Whether less data would have fitted into memory.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self.root(), Self::ResourcesExhausted(_))
    }

    /// Whether a device has run out of memory. Its error names the device, and says what would help.
    pub fn is_out_of_device_memory(&self) -> bool {
        matches!(self.root(), Self::ResourcesExhausted(message) if message.contains(DEVICE))
    }

    /// Whether the machine has no GPU that could be used, as most have none.
    pub fn is_without_gpu(&self) -> bool {
        match self.root() {
            Self::Execution(message) => NO_GPU.iter().any(|part| message.contains(part)),
            _ => false,
        }
    }

    /// The message without its kind.
    pub fn message(&self) -> String {
        match self.root() {
            Self::Plan(message)
            | Self::Execution(message)
            | Self::ResourcesExhausted(message)
            | Self::Internal(message) => message.clone(),
            error => error.to_string(),
        }
    }

    /// The message without what may follow it in further lines, such as the consumers of memory.
    pub fn first_line(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_string()
    }
}

/// The name of a device in messages.
pub const DEVICE: &str = "CUDA device";

/// Parts of the messages of a machine without a GPU.
const NO_GPU: [&str; 2] = ["libcuda was not found", "sees no CUDA device"];

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(message) => write!(f, "Error during planning: {message}"),
            Self::Execution(message) => write!(f, "Execution error: {message}"),
            Self::ResourcesExhausted(message) => write!(f, "Resources exhausted: {message}"),
            Self::Internal(message) => write!(f, "Internal error: {message}"),
            Self::Arrow(error) => write!(f, "Arrow error: {error}"),
            Self::Context(text, error) => write!(f, "{text}\ncaused by\n{error}"),
            Self::Shared(error) => error.fmt(f),
            Self::Foreign(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Arrow(error) => Some(error),
            Self::Context(_, error) => Some(error.as_ref()),
            Self::Shared(error) => Some(error.as_ref()),
            Self::Foreign(error) => Some(error.as_ref()),
            Self::Plan(_)
            | Self::Execution(_)
            | Self::ResourcesExhausted(_)
            | Self::Internal(_) => None,
        }
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! plan_error {
    ($($message:tt)*) => { $crate::error::Error::Plan(format!($($message)*)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! exec_error {
    ($($message:tt)*) => { $crate::error::Error::Execution(format!($($message)*)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! resources_error {
    ($($message:tt)*) => { $crate::error::Error::ResourcesExhausted(format!($($message)*)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! internal_error {
    ($($message:tt)*) => { $crate::error::Error::Internal(format!($($message)*)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! plan_err {
    ($($message:tt)*) => { Err($crate::error::plan_error!($($message)*)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! exec_err {
    ($($message:tt)*) => { Err($crate::error::exec_error!($($message)*)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! resources_err {
    ($($message:tt)*) => { Err($crate::error::resources_error!($($message)*)) };
}

#[doc(hidden)]
#[macro_export]
macro_rules! internal_err {
    ($($message:tt)*) => { Err($crate::error::internal_error!($($message)*)) };
}

#[doc(hidden)]
pub use {
    exec_err, exec_error, internal_err, internal_error, plan_err, plan_error, resources_err,
    resources_error,
};
