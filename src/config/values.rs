//! The values that the options accept, and how their text is read and shown.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use datafusion::common::{Result, config_err};

use crate::engine::{DeviceChoice, LayoutChoice, Ordinals, StrategyName, listed};
use crate::simd::Simd;
use crate::spec::Side;

/// The form of the vector kernels; the best one by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SimdChoice(pub(super) Option<Simd>);

impl SimdChoice {
    /// The form to use.
    pub fn form(self) -> Simd {
        self.0.unwrap_or_else(Simd::detect)
    }
}

/// Which input is collected and indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BuildSideChoice {
    /// The smaller one by statistics, the left one where they are missing.
    #[default]
    Auto,
    /// This side.
    Fixed(Side),
}

/// Whether inputs may be kept on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpillChoice {
    /// Where the build side does not fit into memory.
    #[default]
    Auto,
    /// Too little memory is an error.
    Never,
    /// Always.
    Always,
}

/// The way in which a cluster shares the work of a join. Within one process nothing has to be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DistributionChoice {
    /// By the estimated sizes of the inputs.
    #[default]
    Auto,
    /// Every task reads the whole of one side.
    Broadcast,
    /// Both sides are repartitioned by the sizes of their sets.
    Repartition,
}

/// A count from 1 to [`Self::MOST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositiveCount(pub(super) usize);

impl PositiveCount {
    /// Buffers of more entries exceed every cache, and are no faster.
    pub const MOST: usize = 1 << 24;

    /// `None` for 0 and for more than [`Self::MOST`].
    pub fn new(count: usize) -> Option<Self> {
        (1..=Self::MOST).contains(&count).then_some(Self(count))
    }

    /// The number, at least 1.
    pub fn get(self) -> usize {
        self.0
    }
}

impl fmt::Display for PositiveCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A count of partitions, from 1 to [`Self::MOST`]; `None` where the cluster decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionCount(pub Option<PositiveCount>);

impl PartitionCount {
    /// Every task has a list of all others.
    pub const MOST: usize = 1 << 16;
}

/// A number of bytes of at least 1; `K`, `M` and `G` stand for powers of 1,024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "G"), (20, "M"), (10, "K")];
        match units.into_iter().find(|(shift, _)| self.0.is_multiple_of(1 << shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => self.0.fmt(f),
        }
    }
}

/// A limit in bytes; `None` where it is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryLimit(pub Option<Bytes>);

/// A number of rows of at least 1; `None` where memory decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowLimit(pub Option<usize>);

impl fmt::Display for RowLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(rows) => rows.fmt(f),
        }
    }
}

impl OptionValue for RowLimit {
    fn accepts() -> Cow<'static, str> {
        "auto, or a whole number of at least 1".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self(None)),
            rows => rows.parse().ok().filter(|v| *v >= 1).map(|rows| Self(Some(rows))),
        }
    }
}

impl OptionValue for SpillChoice {
    fn accepts() -> Cow<'static, str> {
        "auto, never or always".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "auto" => Self::Auto,
            "never" => Self::Never,
            "always" => Self::Always,
            _ => return None,
        })
    }
}

impl fmt::Display for SpillChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Never => "never",
            Self::Always => "always",
        })
    }
}

/// The threads of a block; `None` where sizes decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockSizeChoice(pub Option<u32>);

/// A value that an option accepts, and how its text is read.
pub(super) trait OptionValue: Sized {
    fn accepts() -> Cow<'static, str>;
    fn parse(text: &str) -> Option<Self>;
}

pub(super) fn parse_option<T: OptionValue>(name: &str, text: &str) -> Result<T> {
    match T::parse(&text.trim().to_ascii_lowercase()) {
        Some(value) => Ok(value),
        None => config_err!("simjoin.{name} = '{text}' is not valid; use {}", T::accepts()),
    }
}

impl OptionValue for bool {
    fn accepts() -> Cow<'static, str> {
        "true or false".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl OptionValue for f64 {
    fn accepts() -> Cow<'static, str> {
        "a number of at least 0".into()
    }

    fn parse(text: &str) -> Option<Self> {
        f64::from_str(text).ok().filter(|v| *v >= 0.0)
    }
}

impl OptionValue for PositiveCount {
    fn accepts() -> Cow<'static, str> {
        "a whole number from 1 to 16777216".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().and_then(Self::new)
    }
}

impl OptionValue for PartitionCount {
    fn accepts() -> Cow<'static, str> {
        "auto, or a whole number from 1 to 65536".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self(None)),
            count => {
                let count = PositiveCount::parse(count).filter(|count| count.0 <= Self::MOST)?;
                Some(Self(Some(count)))
            }
        }
    }
}

impl fmt::Display for PartitionCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(count) => count.fmt(f),
        }
    }
}

/// The names of all strategies. The options know no family: a test compares the names with the
/// strategies that there are, and the planner says which of them run a join.
pub(crate) const STRATEGIES: [&str; 17] = [
    "bitmap",
    "ppjoin",
    "allpairs",
    "bitsliced",
    "scancount",
    "rising",
    "bwjoin",
    "groupjoin",
    "bwjoin-published",
    "fgssjoin",
    "sf-gssjoin",
    "boxes",
    "nested-loop",
    "deletions",
    "directory",
    "nested-loop-published",
    "directory-published",
];

impl OptionValue for StrategyName {
    fn accepts() -> Cow<'static, str> {
        listed(STRATEGIES).into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::AUTO),
            name => STRATEGIES.into_iter().find(|known| *known == name).map(Self::new),
        }
    }
}

impl OptionValue for SimdChoice {
    fn accepts() -> Cow<'static, str> {
        "auto, or what this processor has of amx, avx512, avx2 and portable".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self(None)),
            name => Simd::named(name).map(|form| Self(Some(form))),
        }
    }
}

impl fmt::Display for SimdChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(form) => form.fmt(f),
        }
    }
}

impl OptionValue for DeviceChoice {
    fn accepts() -> Cow<'static, str> {
        "auto, cpu, cuda, or cuda: with numbers of devices below 128, such as cuda:1 or cuda:0,2"
            .into()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "cuda" => Self::Cuda(None),
            other => Self::Cuda(Some(Ordinals::listed(other.strip_prefix("cuda:")?)?)),
        })
    }
}

impl OptionValue for Bytes {
    fn accepts() -> Cow<'static, str> {
        "a number of bytes of at least 1, such as 65536, 512K, 2M or 1G".into()
    }

    fn parse(text: &str) -> Option<Self> {
        let units = [("k", 10), ("m", 20), ("g", 30)];
        let unit =
            units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
        let (number, shift) = unit.unwrap_or((text, 0));
        let number: u64 = number.trim_end().parse().ok()?;
        let bytes = number.checked_mul(1 << shift)?;
        (bytes >= 1).then_some(Self(bytes))
    }
}

impl OptionValue for MemoryLimit {
    fn accepts() -> Cow<'static, str> {
        "auto, or a number of bytes such as 512M or 8G".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self(None)),
            bytes => Bytes::parse(bytes).map(|bytes| Self(Some(bytes))),
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(bytes) => bytes.fmt(f),
        }
    }
}

impl OptionValue for LayoutChoice {
    fn accepts() -> Cow<'static, str> {
        "auto, a, b, c or d4".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.to_string() == text)
    }
}

impl OptionValue for BlockSizeChoice {
    fn accepts() -> Cow<'static, str> {
        "auto, 32, 64, 128 or 256".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self(None)),
            number => {
                let threads = number.parse().ok()?;
                [32, 64, 128, 256].contains(&threads).then_some(Self(Some(threads)))
            }
        }
    }
}

impl fmt::Display for BlockSizeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(threads) => threads.fmt(f),
        }
    }
}

impl OptionValue for DistributionChoice {
    fn accepts() -> Cow<'static, str> {
        "auto, broadcast or repartition".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "auto" => Self::Auto,
            "broadcast" => Self::Broadcast,
            "repartition" => Self::Repartition,
            _ => return None,
        })
    }
}

impl fmt::Display for DistributionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Broadcast => "broadcast",
            Self::Repartition => "repartition",
        })
    }
}

impl OptionValue for BuildSideChoice {
    fn accepts() -> Cow<'static, str> {
        "auto, left or right".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "auto" => Self::Auto,
            "left" => Self::Fixed(Side::Left),
            "right" => Self::Fixed(Side::Right),
            _ => return None,
        })
    }
}

impl fmt::Display for BuildSideChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(side) => side.fmt(f),
        }
    }
}
