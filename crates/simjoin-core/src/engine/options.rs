//! Requests of a session to a family: the strategy, the device, the use of a GPU.

use std::fmt;

/// The strategy that finds the pairs: one by its name, or the one with the least estimated cost.
///
/// A name need not be that of a strategy. The option `simjoin.strategy` accepts those of the families
/// that every session knows; the planner refuses one that is no strategy of the join's similarity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StrategyName(Option<&'static str>);

impl StrategyName {
    /// The strategy with the least estimated cost.
    pub const AUTO: Self = Self(None);

    /// The strategy of this name.
    pub const fn new(name: &'static str) -> Self {
        Self(Some(name))
    }

    /// The name of the strategy; `None` for [`Self::AUTO`].
    pub fn name(self) -> Option<&'static str> {
        self.0
    }

    /// Whether the estimates choose the strategy.
    pub fn is_auto(self) -> bool {
        self.0.is_none()
    }
}

/// The values of `simjoin.strategy` that name one of `strategies` or none, as an error lists them.
pub fn listed<'a>(strategies: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = vec!["auto"];
    names.extend(strategies);
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}

impl fmt::Display for StrategyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.unwrap_or("auto"))
    }
}

/// The devices on which the session wants its joins to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU when one is there and pays, the CPU otherwise.
    #[default]
    Auto,
    /// The processor alone.
    Cpu,
    /// CUDA devices by number, or all that are visible. An error where none can be used.
    Cuda(Option<Ordinals>),
}

impl DeviceChoice {
    /// One CUDA device by its number, which is less than 128.
    ///
    /// # Panics
    ///
    /// When the number is 128 or more.
    pub const fn cuda(ordinal: u32) -> Self {
        Self::Cuda(Some(Ordinals::one(ordinal)))
    }
}

/// The numbers of some CUDA devices, at least one, each less than 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordinals(u128);

impl Ordinals {
    const LIMIT: u32 = u128::BITS;

    const fn one(ordinal: u32) -> Self {
        assert!(ordinal < Self::LIMIT, "a number of a CUDA device is less than 128");
        Self(1 << ordinal)
    }

    /// The numbers of a list such as `0,2`; `None` where it has something else, or a number twice.
    pub fn listed(text: &str) -> Option<Self> {
        text.split(',').try_fold(Self(0), |ordinals, number| {
            let number: u32 = number.trim().parse().ok()?;
            let fits = number < Self::LIMIT && ordinals.0 >> number & 1 == 0;
            fits.then(|| Self(ordinals.0 | 1 << number))
        })
    }

    /// The numbers, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..Self::LIMIT).filter(move |ordinal| self.0 >> ordinal & 1 == 1)
    }
}

impl fmt::Display for Ordinals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.iter().map(|ordinal| ordinal.to_string()).collect();
        f.write_str(&numbers.join(","))
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(ordinals)) => write!(f, "cuda:{ordinals}"),
        }
    }
}

/// A layout of the GPU's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LayoutChoice {
    /// By the sizes of the sets: `D4` or `C`.
    #[default]
    Auto,
    /// A thread for each probe set.
    A,
    /// A block for each probe set, a thread for each candidate.
    B,
    /// A block for each candidate.
    C,
    /// Four threads for each candidate.
    D4,
}

impl LayoutChoice {
    /// Every choice, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::Auto, Self::A, Self::B, Self::C, Self::D4];
}

impl fmt::Display for LayoutChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D4 => "d4",
        })
    }
}

/// The use of a GPU, where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuOptions {
    /// Bytes of candidates in a chunk.
    pub candidate_memory: u64,
    /// Bytes of device memory that a join may fill; `None`: what is free.
    pub memory_limit: Option<u64>,
    /// A fixed layout, for measurements.
    pub layout: LayoutChoice,
    /// Threads of a block; `None`: as the work asks for.
    pub block_size: Option<u32>,
    /// Sets of a part of an index, for measurements.
    pub partition: u32,
    /// Nanoseconds of estimated work for which a join takes one more device.
    pub work: u64,
    /// Whether vectors of integers of 8 bits are multiplied as such.
    pub integers: bool,
}

impl Default for GpuOptions {
    fn default() -> Self {
        Self {
            candidate_memory: 2 << 20,
            memory_limit: None,
            layout: LayoutChoice::Auto,
            block_size: None,
            partition: 50_000,
            work: 10_000_000,
            integers: true,
        }
    }
}
