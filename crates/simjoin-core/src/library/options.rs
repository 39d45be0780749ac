//! The options of a search.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use super::devices::Devices;
use super::measure::Measure;
use crate::engine::{AnyMatcher, DeviceChoice, StrategyName, listed};
use crate::error::{Error, Result, plan_err};
use crate::memory::Budget;
use crate::tuning::Tuning;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::values::TextTokenizer;

/// Pairs of a batch that a callback gets, where nothing else is asked for.
const BATCH_PAIRS: usize = 8192;

#[derive(Debug, Clone)]
pub(super) struct Options {
    /// 0 stands for all cores.
    threads: usize,
    memory_limit: Option<usize>,
    strategy: Option<String>,
    tokenizer: Tokenizer,
    pub cancel: CancelFlag,
    pub tuning: Tuning,
    pub devices: Devices,
    pub device: DeviceChoice,
    /// Pairs of a batch, at least 1.
    pub batch_pairs: usize,
}

/// The tokenizer that makes sets of texts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tokenizer {
    None,
    Words,
    QGrams(usize),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 0,
            memory_limit: None,
            strategy: None,
            tokenizer: Tokenizer::None,
            cancel: CancelFlag::default(),
            tuning: Tuning::default(),
            devices: Devices::default(),
            device: DeviceChoice::Cpu,
            batch_pairs: BATCH_PAIRS,
        }
    }
}

impl Options {
    pub(super) fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    pub(super) fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_limit = Some(bytes);
    }

    pub(super) fn set_strategy(&mut self, name: String) {
        self.strategy = Some(name);
    }

    pub(super) fn set_tokenizer(&mut self, tokenizer: Tokenizer) {
        self.tokenizer = tokenizer;
    }

    /// The threads that share the work.
    pub(super) fn threads(&self) -> Threads {
        let count = match self.threads {
            0 => available_parallelism().map_or(1, NonZeroUsize::get),
            threads => threads,
        };
        Threads::new(count, self.tuning)
    }

    pub(super) fn memory_limit(&self) -> Option<usize> {
        self.memory_limit
    }

    pub(super) fn memory(&self) -> Arc<Budget> {
        self.memory_limit.map_or_else(Budget::unlimited, Budget::new)
    }

    /// # Errors
    ///
    /// A plan error for q-grams of no character.
    pub(super) fn tokenizer(&self) -> Result<Option<TextTokenizer>> {
        Ok(match self.tokenizer {
            Tokenizer::None => None,
            Tokenizer::Words => Some(TextTokenizer::Words),
            Tokenizer::QGrams(q) => match NonZeroUsize::new(q) {
                Some(q) => Some(TextTokenizer::QGrams(q)),
                None => return plan_err!("q-grams have at least 1 character, not 0"),
            },
        })
    }

    pub(super) fn is_strategy_named(&self) -> bool {
        self.strategy.as_deref().is_some_and(|name| name != "auto")
    }

    /// The strategy that is asked for.
    ///
    /// # Errors
    ///
    /// A plan error that lists the strategies where none has the name, or it needs another device.
    pub(super) fn strategy(
        &self,
        measure: Measure,
        matcher: &dyn AnyMatcher,
    ) -> Result<StrategyName> {
        let name = match &self.strategy {
            Some(name) if self.is_strategy_named() => name,
            _ => return Ok(StrategyName::AUTO),
        };
        let all = matcher.strategies();
        let Some(found) = all.iter().find(|info| info.name() == name) else {
            let names = listed(all.iter().map(|info| info.name()));
            return plan_err!("{name:?} is no strategy of {measure}; use {names}");
        };
        let strategy = StrategyName::new(found.name());
        matcher.admit(strategy, self.device)?;
        Ok(strategy)
    }

    /// An error with advice, where memory was refused.
    pub(super) fn explained(&self, error: Error) -> Error {
        match self.memory_limit {
            Some(limit) if error.is_out_of_memory() && !error.is_out_of_device_memory() => error
                .context(format!(
                    "the similarity join does not fit into its memory limit of {limit} bytes on {} \
                     threads; raise memory_limit, take fewer threads, give the pairs to a callback \
                     instead of collecting them, or join one part of the rows after the other",
                    self.threads().count()
                )),
            _ => error,
        }
    }
}

/// The methods by which a question gets its options.
macro_rules! option_methods {
    ($question:ty) => {
        impl $question {
            /// Shares the work among this many threads; 0, the default, stands for as many as the
            /// machine has cores. The pairs do not depend on it.
            pub fn threads(mut self, threads: usize) -> Self {
                self.options.set_threads(threads);
                self
            }

            /// Limits the bytes that the search takes at any time: the index of one side, batches of
            /// the other, buffers of each thread, and pairs that are collected. The columns that are
            /// joined are not counted. There is no limit by default.
            pub fn memory_limit(mut self, bytes: usize) -> Self {
                self.options.set_memory_limit(bytes);
                self
            }

            /// Ends the search with an error soon after the flag, or a clone of it, has been
            /// [cancelled](crate::CancelFlag::cancel): within some milliseconds, mostly.
            pub fn cancel(mut self, flag: &$crate::CancelFlag) -> Self {
                self.options.cancel = flag.clone();
                self
            }

            /// Searches by other sizes than the usual ones: [`Tuning::small`]($crate::tuning::Tuning::small)
            /// makes tests reach every part with few rows. The pairs do not depend on it.
            pub fn tuning(mut self, tuning: $crate::tuning::Tuning) -> Self {
                self.options.tuning = tuning;
                self
            }

            /// Searches by the strategy of this name, one of [those of a
            /// join](crate::Join::strategies); `auto`, the default, takes the one with the least
            /// estimated time. The pairs do not depend on it. Another name is an error of the
            /// search, which lists the strategies.
            pub fn strategy(mut self, name: impl Into<String>) -> Self {
                self.options.set_strategy(name.into());
                self
            }

            /// Lets devices take part, such as `simjoin_gpu::DEVICES`. The default is the CPU alone; the
            /// choice `Auto` takes a device where one is there and pays.
            pub fn on(mut self, devices: $crate::Devices, choice: $crate::DeviceChoice) -> Self {
                self.options.devices = devices;
                self.options.device = choice;
                self
            }

            /// Compares texts as the sets of their words, in lower case. It is for measures of sets,
            /// and changes nothing for columns of lists.
            pub fn words(mut self) -> Self {
                self.options.set_tokenizer($crate::library::options::Tokenizer::Words);
                self
            }

            /// Compares texts as the sets of their runs of `q` characters; a shorter text, which is
            /// not empty, is one such run. It is for measures of sets, and changes nothing for
            /// columns of lists. `q` of 0 is an error of the search.
            pub fn qgrams(mut self, q: usize) -> Self {
                self.options.set_tokenizer($crate::library::options::Tokenizer::QGrams(q));
                self
            }
        }
    };
}

pub(super) use option_methods;
