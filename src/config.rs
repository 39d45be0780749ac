//! The options of the join, `simjoin.*` in SQL.
//!
//! Set them with `SET simjoin.strategy = 'ppjoin'`, from the environment
//! (`SIMJOIN_STRATEGY=ppjoin`, read by [`SimJoinOptions::from_env`]) or in Rust through
//! `SessionConfig::with_option_extension`. `SHOW simjoin.strategy` and
//! `information_schema.df_settings` list them.

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Result, config_err};
use datafusion::config::ConfigOptions;

use crate::exec::Side;
use crate::simd::Simd;

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
}

impl StrategyChoice {
    /// Every choice, in the order of the documentation.
    pub const ALL: [Self; 5] =
        [Self::Auto, Self::AllPairs, Self::PPJoin, Self::GroupJoin, Self::Bitmap];
}

/// Where the join runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU when one is there and pays, the CPU otherwise.
    #[default]
    Auto,
    Cpu,
    /// A CUDA device, by ordinal where one is given. An error when it cannot be used.
    Cuda(Option<u32>),
}

/// The form of the vector kernels; the best one by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SimdChoice(Option<Simd>);

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
    Fixed(Side),
}

/// Declares the options once: field, default and documentation, which SQL shows as well.
macro_rules! options {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr;)+) => {
        /// The options under `simjoin.*`.
        #[derive(Debug, Clone, PartialEq)]
        pub struct SimJoinOptions {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl Default for SimJoinOptions {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl SimJoinOptions {
            /// The options' names, without the `simjoin.` prefix.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];
        }

        impl ExtensionOptions for SimJoinOptions {
            fn as_any(&self) -> &dyn Any {
                self
            }

            fn as_any_mut(&mut self) -> &mut dyn Any {
                self
            }

            fn cloned(&self) -> Box<dyn ExtensionOptions> {
                Box::new(self.clone())
            }

            fn set(&mut self, key: &str, value: &str) -> Result<()> {
                match key {
                    $(stringify!($field) => {
                        self.$field = parse_option(stringify!($field), value)?;
                        Ok(())
                    })+
                    _ => config_err!(
                        "simjoin.{key} is no option; the options are: simjoin.{}",
                        Self::NAMES.join(", simjoin.")
                    ),
                }
            }

            fn entries(&self) -> Vec<ConfigEntry> {
                vec![$(ConfigEntry {
                    key: concat!("simjoin.", stringify!($field)).to_string(),
                    value: Some(self.$field.to_string()),
                    description: concat!($($doc),+).trim_ascii(),
                }),+]
            }
        }
    };
}

options! {
    /// Recognise similarity predicates in plain joins (SIMJOIN is always recognised).
    recognize_joins: bool = true;
    /// How pairs are found: by an index of prefixes (allpairs, ppjoin, groupjoin), by blocks of bit signatures (bitmap), or by whichever costs least (auto).
    strategy: StrategyChoice = StrategyChoice::Auto;
    /// Where the join runs: auto, cpu, cuda or cuda:N. This build has no CUDA kernels: cuda is refused.
    device: DeviceChoice = DeviceChoice::Auto;
    /// The vector instructions of the CPU's filters: auto (the best that the processor has), avx512, avx2 or portable.
    simd: SimdChoice = SimdChoice(None);
    /// Which input is collected and indexed: auto (the smaller one by statistics), left or right.
    build_side: BuildSideChoice = BuildSideChoice::Auto;
    /// Read and index a join of an input with itself once.
    self_join: bool = true;
    /// In plain joins with equality conjuncts, leave the join to the hash join when statistics promise at most this many rows per key.
    hash_join_rows_per_key: f64 = 4.0;
    /// Candidate pairs filtered before they are verified, at least 1.
    candidate_chunk: PositiveCount = PositiveCount(16_384);
    /// Greatest number of matched set pairs held between verification and output, at least 1.
    match_buffer: PositiveCount = PositiveCount(16_384);
}

impl ConfigExtension for SimJoinOptions {
    const PREFIX: &'static str = "simjoin";
}

impl SimJoinOptions {
    /// The session's options, the defaults where the session carries none.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The defaults, changed by the environment: `SIMJOIN_STRATEGY` sets `simjoin.strategy`.
    pub fn from_env() -> Result<Self> {
        let mut options = Self::default();
        for name in Self::NAMES {
            let variable = format!("SIMJOIN_{}", name.to_uppercase());
            if let Some(value) = std::env::var_os(&variable) {
                options
                    .set(name, &value.to_string_lossy())
                    .map_err(|e| e.context(format!("environment variable {variable}")))?;
            }
        }
        Ok(options)
    }
}

/// A count of at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositiveCount(pub usize);

impl fmt::Display for PositiveCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an option accepts, and how its text is read.
trait OptionValue: Sized {
    const ACCEPTS: &'static str;
    fn parse(text: &str) -> Option<Self>;
}

fn parse_option<T: OptionValue>(name: &str, text: &str) -> Result<T> {
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
    const ACCEPTS: &'static str = "a whole number of at least 1";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|v| *v >= 1).map(Self)
    }
}

impl OptionValue for StrategyChoice {
    const ACCEPTS: &'static str = "auto, allpairs, ppjoin, groupjoin or bitmap";

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.to_string() == text)
    }
}

impl fmt::Display for StrategyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::AllPairs => "allpairs",
            Self::PPJoin => "ppjoin",
            Self::GroupJoin => "groupjoin",
            Self::Bitmap => "bitmap",
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_reads_back_what_it_shows() {
        let mut options = SimJoinOptions::default();
        for entry in options.entries() {
            let name = entry.key.strip_prefix("simjoin.").unwrap();
            options.set(name, entry.value.as_deref().unwrap()).unwrap();
            assert!(!entry.description.is_empty(), "{name}");
        }
        assert_eq!(options, SimJoinOptions::default());
        options.set("device", "cuda:1").unwrap();
        options.set("build_side", "Right").unwrap();
        assert_eq!(options.device, DeviceChoice::Cuda(Some(1)));
        assert_eq!(options.build_side, BuildSideChoice::Fixed(Side::Right));
    }

    #[test]
    fn wrong_values_and_names_say_what_works() {
        let mut options = SimJoinOptions::default();
        let error = options.set("strategy", "fast").unwrap_err().to_string();
        assert!(error.contains("auto, allpairs, ppjoin, groupjoin or bitmap"), "{error}");
        let error = options.set("stratgy", "auto").unwrap_err().to_string();
        assert!(error.contains("simjoin.strategy"), "{error}");
        assert!(options.set("candidate_chunk", "0").is_err());
        assert!(options.set("hash_join_rows_per_key", "NaN").is_err());
        assert!(options.set("device", "cuda:x").is_err());
    }
}
