//! Why a device cannot be used.

use std::fmt;

use crate::error::{Error, exec_error, internal_error, resources_error};
use crate::util::size::HumanSize;

/// Why a device cannot be used, or not for this work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceError {
    /// No driver could be loaded; why.
    NoDriver(String),
    /// The driver is older than the kernels. Versions are CUDA's: 1000 × major + 10 × minor.
    DriverTooOld {
        /// The driver's version.
        found: i32,
        /// The least version that runs the kernels.
        needed: i32,
    },
    /// There is a driver, but no device.
    NoDevice,
    /// There is no device of this number.
    NoSuchDevice {
        /// The number asked for.
        ordinal: u32,
        /// The number of devices.
        count: u32,
    },
    /// No kernel runs on a device of this compute capability.
    Unsupported {
        /// The name of the device.
        name: String,
        /// Its compute capability (major, minor).
        capability: (i32, i32),
        /// The capability that the kernels need.
        needed: &'static str,
    },
    /// The device has `free` bytes left, too few for `what`.
    OutOfMemory {
        /// The purpose of the memory.
        what: &'static str,
        /// The bytes asked for.
        bytes: u64,
        /// The bytes left.
        free: u64,
    },
    /// `bytes` bytes of host memory could not be pinned.
    HostOutOfMemory {
        /// The bytes asked for.
        bytes: u64,
    },
    /// A call of the driver failed; the device remains usable.
    Failed {
        /// The name of the driver's function.
        call: &'static str,
        /// The driver's error code.
        code: i32,
        /// The driver's text for the code.
        message: String,
    },
    /// A call of the driver, or (code 0) this crate, says that the device is unusable from now on.
    Lost {
        /// The number of the device.
        ordinal: u32,
        /// The name of the driver's function.
        call: &'static str,
        /// The driver's error code, or 0.
        code: i32,
        /// The driver's text for the code, or the crate's own.
        message: String,
    },
    /// A work contradicts itself, or a kernel answered what cannot be: a bug.
    Internal(String),
}

/// A version as the driver counts: 12040 is 12.4.
struct Version(i32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// The number of an error, where it has one.
struct Code(i32);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            code => write!(f, " (error {code})"),
        }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver(why) => write!(
                f,
                "no NVIDIA driver could be loaded ({why}): install driver 550 or newer, or set \
                 simjoin.device = 'cpu'"
            ),
            Self::DriverTooOld { found, needed } => write!(
                f,
                "the NVIDIA driver runs CUDA {} at most, but {} is needed: install driver 550 or \
                 newer, or set simjoin.device = 'cpu'",
                Version(*found),
                Version(*needed)
            ),
            Self::NoDevice => write!(
                f,
                "the NVIDIA driver sees no CUDA device: check CUDA_VISIBLE_DEVICES and \
                 `nvidia-smi`, or set simjoin.device = 'cpu'"
            ),
            Self::NoSuchDevice { ordinal, count } => write!(
                f,
                "there is no CUDA device {ordinal}: set simjoin.device to a number below {count}, \
                 as in 'cuda:0'"
            ),
            Self::Unsupported { name, capability: (major, minor), needed } => write!(
                f,
                "the CUDA device {name} has compute capability {major}.{minor}, but the kernels \
                 need {needed}: choose another device, or set simjoin.device = 'cpu'"
            ),
            // Where the driver does not say how much it wants.
            Self::OutOfMemory { what, bytes: 0, .. } => write!(
                f,
                "the CUDA device has too little memory left for {what}: free memory of the device, \
                 or set simjoin.device = 'cpu'"
            ),
            Self::OutOfMemory { what, bytes, free } => write!(
                f,
                "the CUDA device has {} free, but {what} need {}: lower \
                 simjoin.gpu.candidate_memory, or free memory of the device",
                HumanSize(*free),
                HumanSize(*bytes)
            ),
            Self::HostOutOfMemory { bytes } => write!(
                f,
                "{} of host memory could not be pinned for transfers to the CUDA device: lower \
                 simjoin.gpu.candidate_memory",
                HumanSize(*bytes)
            ),
            Self::Failed { call, code, message } => {
                write!(f, "{call} failed on the CUDA device: {message}{}", Code(*code))
            }
            Self::Lost { ordinal, call, code, message } => write!(
                f,
                "CUDA device {ordinal} was lost: {call} reports {message}{}; check it with \
                 `nvidia-smi` and run the query again, or set simjoin.device = 'cpu'",
                Code(*code)
            ),
            Self::Internal(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for DeviceError {}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::OutOfMemory { .. } | DeviceError::HostOutOfMemory { .. } => {
                resources_error!("{error}")
            }
            DeviceError::Internal(_) => internal_error!("{error}"),
            error => exec_error!("{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_what_was_found_and_what_would_work() {
        let old = DeviceError::DriverTooOld { found: 11080, needed: 12040 }.to_string();
        assert!(old.contains("11.8") && old.contains("12.4") && old.contains("550"), "{old}");
        let other = DeviceError::NoSuchDevice { ordinal: 7, count: 2 }.to_string();
        assert!(other.contains("device 7") && other.contains("below 2"), "{other}");
    }

    #[test]
    fn running_out_of_memory_is_a_resource_error() {
        let error = DeviceError::OutOfMemory { what: "chunks", bytes: 3 << 20, free: 1 << 20 };
        let error = Error::from(error);
        assert!(matches!(error, Error::ResourcesExhausted(_)), "{error}");
        let pinned = Error::from(DeviceError::HostOutOfMemory { bytes: 1 << 20 });
        assert!(matches!(pinned, Error::ResourcesExhausted(_)), "{pinned}");
        let unknown = DeviceError::OutOfMemory { what: "chunks", bytes: 0, free: 0 };
        for error in [error, pinned, unknown.into()] {
            assert!(error.is_out_of_device_memory());
        }
        let of_host = Error::ResourcesExhausted("the pool".to_string());
        assert!(!of_host.is_out_of_device_memory());
    }

    #[test]
    fn a_machine_without_a_gpu_is_told_from_one_whose_gpu_cannot_be_used() {
        let is_without = |error: DeviceError| Error::from(error).is_without_gpu();
        assert!(is_without(DeviceError::NoDriver("libcuda was not found".into())));
        assert!(is_without(DeviceError::NoDevice));
        for error in [
            DeviceError::NoDriver("system has unsupported display driver".into()),
            DeviceError::DriverTooOld { found: 11080, needed: 12040 },
            DeviceError::Unsupported { name: "GPU".into(), capability: (6, 1), needed: "9.0" },
            DeviceError::OutOfMemory { what: "chunks", bytes: 1, free: 0 },
        ] {
            assert!(!is_without(error.clone()), "{error}");
        }
    }

    #[test]
    fn only_errors_of_the_driver_have_a_number() {
        let lost = |code| {
            DeviceError::Lost { ordinal: 1, call: "it", code, message: "nonsense".into() }
                .to_string()
        };
        assert!(lost(719).contains("it reports nonsense (error 719); check"), "{}", lost(719));
        assert!(lost(0).contains("it reports nonsense; check"), "{}", lost(0));
    }
}
