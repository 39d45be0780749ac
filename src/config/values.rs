//! What the options accept, and how their text is read and shown.

use std::fmt;
use std::str::FromStr;

use datafusion::common::{Result, config_err};

use crate::simd::Simd;
use crate::spec::Side;

/// Which algorithm finds the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StrategyChoice {
    /// By cost.
    #[default]
    Auto,
    /// Prefix and length filter.
    AllPairs,
    /// Prefix, length and positional filter.
    PPJoin,
    /// The same filters, once for all sets with the same prefix.
    GroupJoin,
    /// Blocks of bit signatures compared with each other, without an index.
    Bitmap,
    /// What all sets share, counted by lists and bitmaps of their tokens.
    ScanCount,
    /// An inverted index on a GPU, postings decided one by one.
    Bwjoin,
    /// The same with blockwise filtering as published, for measurements.
    BwjoinPublished,
    /// fgSSJoin on a GPU, for measurements.
    FgssJoin,
    /// sf-gSSJoin on a GPU, for measurements.
    SfGssJoin,
    /// Every vector with every other.
    NestedLoop,
    /// Boxes around neighbours by cells as wide as the threshold, for vectors.
    Grid,
    /// Boxes around neighbours by quantiles, for vectors.
    Directory,
    /// The published nested loop of points on a GPU, for measurements.
    NestedLoopPublished,
    /// The published directory of points on a GPU, for measurements.
    DirectoryPublished,
}

impl StrategyChoice {
    /// Every choice, in the order of the documentation.
    pub const ALL: [Self; 15] = [
        Self::Auto,
        Self::AllPairs,
        Self::PPJoin,
        Self::GroupJoin,
        Self::Bitmap,
        Self::ScanCount,
        Self::Bwjoin,
        Self::BwjoinPublished,
        Self::FgssJoin,
        Self::SfGssJoin,
        Self::NestedLoop,
        Self::Grid,
        Self::Directory,
        Self::NestedLoopPublished,
        Self::DirectoryPublished,
    ];
    /// The choices for sets that need no GPU.
    pub const ON_CPU: [Self; 6] =
        [Self::Auto, Self::AllPairs, Self::PPJoin, Self::GroupJoin, Self::Bitmap, Self::ScanCount];

    /// The name of the strategy; `None` for [`Self::Auto`].
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::AllPairs => Some("allpairs"),
            Self::PPJoin => Some("ppjoin"),
            Self::GroupJoin => Some("groupjoin"),
            Self::Bitmap => Some("bitmap"),
            Self::ScanCount => Some("scancount"),
            Self::Bwjoin => Some("bwjoin"),
            Self::BwjoinPublished => Some("bwjoin-published"),
            Self::FgssJoin => Some("fgssjoin"),
            Self::SfGssJoin => Some("sf-gssjoin"),
            Self::NestedLoop => Some("nested-loop"),
            Self::Grid => Some("grid"),
            Self::Directory => Some("directory"),
            Self::NestedLoopPublished => Some("nested-loop-published"),
            Self::DirectoryPublished => Some("directory-published"),
        }
    }
}

/// Where the join runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU when one is there and pays, the CPU otherwise.
    #[default]
    Auto,
    /// The processor alone.
    Cpu,
    /// One CUDA device by its ordinal, or all that are visible. An error where none can be used.
    Cuda(Option<u32>),
}

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

/// How a cluster shares the work of a join. Within one process nothing has to be chosen.
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
    const ACCEPTS: &'static str = "auto, or a whole number of at least 1";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self(None)),
            rows => rows.parse().ok().filter(|v| *v >= 1).map(|rows| Self(Some(rows))),
        }
    }
}

impl OptionValue for SpillChoice {
    const ACCEPTS: &'static str = "auto, never or always";

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

/// The threads of a block; `None` where sizes decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockSizeChoice(pub Option<u32>);

/// What an option accepts, and how its text is read.
pub(super) trait OptionValue: Sized {
    const ACCEPTS: &'static str;
    fn parse(text: &str) -> Option<Self>;
}

pub(super) fn parse_option<T: OptionValue>(name: &str, text: &str) -> Result<T> {
    match T::parse(&text.trim().to_ascii_lowercase()) {
        Some(value) => Ok(value),
        None => config_err!("simjoin.{name} = '{text}' is not valid; use {}", T::ACCEPTS),
    }
}

impl OptionValue for bool {
    const ACCEPTS: &'static str = "true or false";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl OptionValue for f64 {
    const ACCEPTS: &'static str = "a number of at least 0";

    fn parse(text: &str) -> Option<Self> {
        f64::from_str(text).ok().filter(|v| *v >= 0.0)
    }
}

impl OptionValue for PositiveCount {
    const ACCEPTS: &'static str = "a whole number from 1 to 16777216";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().and_then(Self::new)
    }
}

impl OptionValue for PartitionCount {
    const ACCEPTS: &'static str = "auto, or a whole number from 1 to 65536";

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

impl OptionValue for StrategyChoice {
    const ACCEPTS: &'static str = "auto, allpairs, ppjoin, groupjoin, bitmap, scancount, bwjoin, \
                                   bwjoin-published, fgssjoin, sf-gssjoin, nested-loop, grid, \
                                   directory, nested-loop-published or directory-published";

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.to_string() == text)
    }
}

impl fmt::Display for StrategyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("auto"))
    }
}

impl OptionValue for SimdChoice {
    const ACCEPTS: &'static str = "auto, or what this processor has of avx512, avx2 and portable";

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
    const ACCEPTS: &'static str = "auto, cpu, cuda or cuda:N with the device's number";

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "cuda" => Self::Cuda(None),
            other => Self::Cuda(Some(other.strip_prefix("cuda:")?.parse().ok()?)),
        })
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(ordinal)) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl OptionValue for Bytes {
    const ACCEPTS: &'static str = "a number of bytes of at least 1, such as 65536, 512K, 2M or 1G";

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
    const ACCEPTS: &'static str = "auto, or a number of bytes such as 512M or 8G";

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
    const ACCEPTS: &'static str = "auto, a, b, c or d4";

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.to_string() == text)
    }
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

impl OptionValue for BlockSizeChoice {
    const ACCEPTS: &'static str = "auto, 32, 64, 128 or 256";

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
    const ACCEPTS: &'static str = "auto, broadcast or repartition";

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
    const ACCEPTS: &'static str = "auto, left or right";

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
