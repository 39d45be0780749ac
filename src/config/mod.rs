//! The options of the join, `simjoin.*` in SQL.
//!
//! Set them with `SET simjoin.strategy = 'ppjoin'`, from the environment
//! (`SIMJOIN_STRATEGY=ppjoin`, read by [`SimJoinOptions::from_env`]) or in Rust through
//! `SessionConfig::with_option_extension`. `SHOW simjoin.strategy` and
//! `information_schema.df_settings` list them. Those under `simjoin.debug.` serve measurements and
//! tests: their defaults are right for every statement.

mod names;
mod values;

use std::any::Any;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;

pub use names::nearest;
use values::parse_option;
pub use values::{
    BlockSizeChoice, BuildSideChoice, Bytes, DistributionChoice, MemoryLimit, PartitionCount,
    PositiveCount, RowLimit, SimdChoice, SpillChoice,
};

pub use crate::engine::{DeviceChoice, GpuOptions, LayoutChoice, Ordinals, StrategyName};

/// Declares the options once: name, field, default and documentation, which SQL shows as well.
macro_rules! options {
    ($($(#[doc = $doc:literal])+ $name:literal $field:ident: $type:ty = $default:expr;)+) => {
        /// The options under `simjoin.*`; the fields leave out the prefix `debug.`.
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
            pub const NAMES: &'static [&'static str] = &[$($name),+];
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
                    $($name => {
                        self.$field = parse_option($name, value)?;
                        Ok(())
                    })+
                    _ => Err(unknown(key)),
                }
            }

            fn entries(&self) -> Vec<ConfigEntry> {
                vec![$(ConfigEntry {
                    key: concat!("simjoin.", $name).to_string(),
                    value: Some(self.$field.to_string()),
                    description: concat!($($doc),+).trim_ascii(),
                }),+]
            }
        }
    };
}

options! {
    /// Recognise similarity predicates in plain joins. SIMJOIN is always recognised.
    "recognize_joins" recognize_joins: bool = true;
    /// How pairs are found: by an index of prefixes (allpairs, ppjoin), by blocks of bit signatures
    /// (bitmap), by counting what all sets share (bitsliced, scancount), by lists of sets for one set after the other
    /// (rising, which finds nearest sets), by an index on a GPU (bwjoin), or by the strategy with the least estimated
    /// cost (auto). Published filters run for comparison: groupjoin
    /// and, on a GPU, bwjoin-published, fgssjoin and sf-gssjoin. Weighted sets are joined by ppjoin or
    /// nested-loop, texts by deletions, boxes or nested-loop, vectors by nested-loop or directory and, for comparison, on a GPU by
    /// nested-loop-published or directory-published.
    "strategy" strategy: StrategyName = StrategyName::AUTO;
    /// Where signatures are tested or candidates verified: on a GPU where that is estimated to pay
    /// (auto), on the CPU (cpu), on as many GPUs as there is work for (cuda; an error where none can
    /// be used), or on GPUs by number (cuda:1, or cuda:0,2 for as many of these).
    "device" device: DeviceChoice = DeviceChoice::Auto;
    /// The input that is collected and indexed: the smaller one by statistics (auto), left or
    /// right.
    "build_side" build_side: BuildSideChoice = BuildSideChoice::Auto;
    /// Read and index a join of an input with itself once.
    "self_join" self_join: bool = true;
    /// A plain join with equalities stays a hash join when statistics promise at most this many
    /// rows per key.
    "hash_join_rows_per_key" hash_join_rows_per_key: f64 = 4.0;
    /// Keep inputs on disk: when the build side does not fit into memory (auto), never (an error
    /// then), or always.
    "spill" spill: SpillChoice = SpillChoice::Auto;
    /// How a cluster shares a join: each task reads one side whole (broadcast), both sides are
    /// repartitioned by the sizes of their sets (repartition), or by the estimated sizes of the
    /// inputs (auto; an inner join of an input with itself by a symmetric measure is
    /// repartitioned).
    "distribution" distribution: DistributionChoice = DistributionChoice::Auto;
    /// Bytes up to which simjoin.distribution = auto broadcasts a side, or has one task read each side of
    /// a one-to-one match.
    "broadcast_limit" broadcast_limit: Bytes = Bytes(64 << 20);
    /// Tasks into which the scheduler of a cluster cuts a statement, in place of
    /// datafusion.execution.target_partitions: as many as its executors run at the same time
    /// (auto), or a number from 1 to 65,536.
    "cluster_partitions" cluster_partitions: PartitionCount = PartitionCount(None);
    /// Bytes of candidates that travel to the GPU together, at most 64M; with signature tiles and
    /// filters on the GPU, bytes of hits or candidates that a work has room for. Each partition pins
    /// three such chunks in host memory, and two more for each further GPU, with room for their
    /// matches.
    "gpu.candidate_memory" gpu_candidate_memory: Bytes = Bytes(2 << 20);
    /// Bytes of GPU memory that a join may fill: all that is free (auto), or a number. Collections
    /// that do not fit travel with the candidates, set by set.
    "gpu.memory_limit" gpu_memory_limit: MemoryLimit = MemoryLimit(None);
    /// Candidate pairs that are filtered before they are verified, at least 1.
    "debug.candidate_chunk" candidate_chunk: PositiveCount = PositiveCount(16_384);
    /// Similar pairs of sets held between verification and output, at least 1.
    "debug.match_buffer" match_buffer: PositiveCount = PositiveCount(16_384);
    /// Bands of set sizes that inputs on disk are cut into, at least 1; fewer where memory is
    /// short.
    "debug.spill_bands" spill_bands: PositiveCount = PositiveCount(64);
    /// Rows of the build side that are joined at a time from disk: as many as fit into memory
    /// (auto), or at most this number.
    "debug.spill_piece_rows" spill_piece_rows: RowLimit = RowLimit(None);
    /// The vector instructions of the CPU's filters: the best that the processor has (auto),
    /// amx, avx512, avx2 or portable.
    "debug.simd" simd: SimdChoice = SimdChoice(None);
    /// How the GPU's threads share the work: by the sizes of the sets (auto), a thread for each
    /// probe set (a), a block for each probe set and a thread for each candidate (b), a block for
    /// each pair (c), or four threads for each pair (d4).
    "debug.gpu_layout" gpu_layout: LayoutChoice = LayoutChoice::Auto;
    /// Threads in a block of the GPU: by the sizes of the sets (auto), 32, 64, 128 or 256.
    "debug.gpu_block_size" gpu_block_size: BlockSizeChoice = BlockSizeChoice(None);
    /// Sets that the GPU's published filters (bwjoin-published, fgssjoin, sf-gssjoin) index together,
    /// at least 1.
    "debug.gpu_partition" gpu_partition: PositiveCount = PositiveCount(50_000);
    /// Estimated work of GPUs, in microseconds, for which simjoin.device = cuda takes one more of
    /// them, at least 1.
    "debug.gpu_work" gpu_work: PositiveCount = PositiveCount(10_000);
    /// Whether the GPU multiplies vectors of integers of 8 bits as integers.
    "debug.gpu_integers" gpu_integers: bool = true;
}

impl ConfigExtension for SimJoinOptions {
    const PREFIX: &'static str = "simjoin";
}

impl SimJoinOptions {
    /// The session's options, the defaults where the session carries none.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The defaults, changed by the environment: `SIMJOIN_STRATEGY` sets `simjoin.strategy`,
    /// `SIMJOIN_GPU_MEMORY_LIMIT` sets `simjoin.gpu.memory_limit`.
    pub fn from_env() -> Result<Self> {
        let mut options = Self::default();
        for name in Self::NAMES {
            let variable = Self::variable(name);
            if let Some(value) = std::env::var_os(&variable) {
                options
                    .set(name, &value.to_string_lossy())
                    .map_err(|e| e.context(format!("environment variable {variable}")))?;
            }
        }
        Ok(options)
    }

    /// The environment variable of an option, given without its prefix.
    pub fn variable(name: &str) -> String {
        format!("SIMJOIN_{}", name.to_uppercase().replace('.', "_"))
    }

    /// The option that an unknown `key` most likely means, both without the `simjoin.` prefix: one
    /// that differs by a few letters, by dots and underscores, or by a missing `debug.`.
    pub fn near(key: &str) -> Option<&'static str> {
        let flat = |name: &str| name.replace('.', "_");
        let spellings = Self::NAMES.iter().flat_map(|name| {
            let short = name.strip_prefix(DEBUG).map(flat);
            [Some(flat(name)), short].into_iter().flatten().map(|spelling| (spelling, *name))
        });
        let spellings: Vec<(String, &str)> = spellings.collect();
        let found = nearest(&flat(key), spellings.iter().map(|(spelling, _)| spelling.as_str()))?;
        spellings.iter().find(|(spelling, _)| spelling == found).map(|(_, name)| *name)
    }
}

/// The prefix of options for measurements and tests.
const DEBUG: &str = "debug.";

/// The error of an option that does not exist.
fn unknown(key: &str) -> DataFusionError {
    let meant = match SimJoinOptions::near(key) {
        Some(near) => format!("did you mean simjoin.{near}? The"),
        None => "the".to_string(),
    };
    let names = SimJoinOptions::NAMES.join(", simjoin.");
    DataFusionError::Configuration(format!(
        "simjoin.{key} is no option; {meant} options are: simjoin.{names}"
    ))
}

impl SimJoinOptions {
    /// The options under `simjoin.gpu.*` and `simjoin.debug.gpu_*` together.
    pub fn gpu(&self) -> GpuOptions {
        GpuOptions {
            candidate_memory: self.gpu_candidate_memory.0,
            memory_limit: self.gpu_memory_limit.0.map(|bytes| bytes.0),
            layout: self.gpu_layout,
            block_size: self.gpu_block_size.0,
            partition: self.gpu_partition.get() as u32,
            work: self.gpu_work.get() as u64 * 1000,
            integers: self.gpu_integers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::values::STRATEGIES;
    use super::*;
    use crate::spec::Side;
    use crate::strategies;

    #[test]
    fn joins_without_options_use_a_gpu_by_the_same_defaults() {
        assert_eq!(SimJoinOptions::default().gpu(), GpuOptions::default());
    }

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
        assert_eq!(options.device, DeviceChoice::cuda(1));
        options.set("device", "cuda:2, 0").unwrap();
        assert_eq!(options.device.to_string(), "cuda:0,2");
        options.set("gpu.candidate_memory", "512k").unwrap();
        options.set("gpu.memory_limit", "3000").unwrap();
        options.set("debug.gpu_layout", "d4").unwrap();
        options.set("debug.gpu_block_size", "64").unwrap();
        options.set("distribution", "repartition").unwrap();
        options.set("broadcast_limit", "3M").unwrap();
        options.set("cluster_partitions", "6").unwrap();
        assert_eq!(options.cluster_partitions, PartitionCount(Some(PositiveCount(6))));
        assert_eq!(options.distribution, DistributionChoice::Repartition);
        assert_eq!(options.broadcast_limit, Bytes(3 << 20));
        assert_eq!(options.gpu_candidate_memory, Bytes(512 << 10));
        let shown = |key: &str| {
            let entries = options.entries().into_iter();
            entries.filter(|e| e.key == key).find_map(|e| e.value)
        };
        assert_eq!(shown("simjoin.gpu.candidate_memory").as_deref(), Some("512K"));
        assert_eq!(shown("simjoin.gpu.memory_limit").as_deref(), Some("3000"));
        assert_eq!(shown("simjoin.debug.gpu_layout").as_deref(), Some("d4"));
        assert_eq!(shown("simjoin.debug.gpu_block_size").as_deref(), Some("64"));
        assert_eq!(options.build_side, BuildSideChoice::Fixed(Side::Right));
    }

    /// Names of earlier versions among them.
    #[test]
    fn unknown_names_are_told_the_option_that_was_meant() {
        for (key, meant) in [
            ("stratgy", "strategy"),
            ("simd", "debug.simd"),
            ("candidate_chunk", "debug.candidate_chunk"),
            ("match_buffer", "debug.match_buffer"),
            ("spill_bands", "debug.spill_bands"),
            ("spill_piece_rows", "debug.spill_piece_rows"),
            ("gpu.layout", "debug.gpu_layout"),
            ("gpu.block_size", "debug.gpu_block_size"),
            ("gpu_memory_limit", "gpu.memory_limit"),
            ("debug.spill_band", "debug.spill_bands"),
        ] {
            let error = SimJoinOptions::default().set(key, "auto").unwrap_err().to_string();
            let expected = format!("simjoin.{key} is no option; did you mean simjoin.{meant}? The");
            assert!(error.contains(&expected), "{error}");
        }
        assert_eq!(SimJoinOptions::near("nosuch"), None);
    }

    const MANUAL: &str = include_str!("../../docs/options.md");

    /// The lines of the first table of a text.
    fn first_table(text: &str) -> Vec<&str> {
        let lines = text.lines().skip_while(|line| !line.starts_with('|'));
        lines.take_while(|line| line.starts_with('|')).collect()
    }

    /// A table of options as the manual has it.
    fn table(options: impl Iterator<Item = ConfigEntry>) -> Vec<String> {
        let head = ["| option | default | |", "|---|---|---|"].map(str::to_string);
        let lines = options.map(|option| {
            let default = option.value.unwrap_or_default();
            format!("| `{}` | `{default}` | {} |", option.key, option.description)
        });
        head.into_iter().chain(lines).collect()
    }

    /// The manual has one table of the options for use, and one of those for measurements and
    /// tests.
    #[test]
    fn the_manual_lists_what_is_declared() {
        let entries = SimJoinOptions::default().entries();
        let (debug, for_use): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|option| option.key.starts_with("simjoin.debug."));
        let (first, second) = MANUAL.split_once("## For measurements and tests").unwrap();
        for (part, options) in [(first, for_use), (second, debug)] {
            let expected = table(options.into_iter());
            assert_eq!(
                first_table(part),
                expected,
                "docs/options.md should have\n{}\n",
                expected.join("\n")
            );
        }
    }

    /// The text of `simjoin.strategy`, which the manual repeats, names every strategy.
    #[test]
    fn every_strategy_is_an_option_and_described() {
        assert_eq!(strategies::names().collect::<Vec<_>>(), STRATEGIES);
        let entries = SimJoinOptions::default().entries();
        let option = entries.iter().find(|entry| entry.key == "simjoin.strategy").unwrap();
        let words = option.description.split(|c: char| !c.is_alphanumeric() && c != '-');
        let words: Vec<_> = words.collect();
        for name in strategies::names() {
            assert!(words.contains(&name), "{name}");
            let mut options = SimJoinOptions::default();
            options.set("strategy", name).unwrap();
            assert_eq!(options.strategy, StrategyName::new(name));
        }
    }

    #[test]
    fn wrong_values_and_names_say_what_works() {
        let mut options = SimJoinOptions::default();
        let error = options.set("strategy", "fast").unwrap_err().to_string();
        let names: Vec<_> = strategies::names().collect();
        let (last, others) = names.split_last().unwrap();
        let listed = format!("use auto, {} or {last}", others.join(", "));
        assert!(error.contains(&listed), "{error}");
        let error = options.set("nosuch", "auto").unwrap_err().to_string();
        assert!(
            error.contains("is no option; the options are: simjoin.recognize_joins"),
            "{error}"
        );
        for name in ["debug.candidate_chunk", "debug.match_buffer", "debug.spill_bands"] {
            for value in ["0", "-1", "16777217", "9223372036854775809", "1e3", ""] {
                let error = options.set(name, value).unwrap_err().to_string();
                assert!(error.contains("from 1 to 16777216"), "{error}");
            }
            options.set(name, "16777216").unwrap();
        }
        assert!(options.set("hash_join_rows_per_key", "NaN").is_err());
        for value in ["cuda:x", "cuda:", "cuda:128", "cuda:0,", "cuda:1,1"] {
            assert!(options.set("device", value).is_err(), "{value}");
        }
        assert!(options.set("debug.gpu_block_size", "48").is_err());
        let error = options.set("debug.gpu_layout", "d8").unwrap_err().to_string();
        assert!(error.contains("auto, a, b, c or d4"), "{error}");
        assert!(options.set("distribution", "hash").is_err());
        for value in ["0", "65537", "18446744073709551615"] {
            let error = options.set("cluster_partitions", value).unwrap_err().to_string();
            assert!(error.contains("from 1 to 65536"), "{error}");
        }
        assert!(options.set("gpu.candidate_memory", "0K").is_err());
        assert!(options.set("gpu.memory_limit", "99999999999G").is_err());
    }
}
