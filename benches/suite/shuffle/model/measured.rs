//! Constants of a collection at one threshold.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion::common::Result;
use datafusion_simjoin::internals::set::SetCollection;
use datafusion_simjoin::internals::set::{Bounds, Role};

use super::super::broadcast::Broadcast;
use super::super::postings::Lists;
use super::super::prefix::PrefixTokens;
use super::super::rates::Rates;
use super::super::rows::{Input, Partners, ROW_BYTES, TOKEN_BYTES};

/// Rows of a batch that is sent.
const BATCH: usize = 8192;

/// Bytes of a row with its id and task, in Arrow IPC: as it is, and by LZ4.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub plain: f64,
    pub lz4: f64,
}

/// Writes the lists as a shuffle would.
pub fn bytes(lists: &[ArrayRef]) -> Result<Sent> {
    let mut sums = [0; 2];
    let mut rows = 0;
    for list in lists {
        for start in (0..list.len()).step_by(BATCH) {
            let list = list.slice(start, BATCH.min(list.len() - start));
            let ids = (rows as i64..).take(list.len());
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(ids)),
                Arc::clone(&list),
                Arc::new(Int32Array::from(vec![1; list.len()])),
            ];
            let fields = [
                ("id", DataType::Int64),
                ("tokens", list.data_type().clone()),
                ("task", DataType::Int32),
            ];
            let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
            let schema = Arc::new(Schema::new(fields.to_vec()));
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
            for (sum, compression) in sums.iter_mut().zip([None, Some(CompressionType::LZ4_FRAME)])
            {
                let options = IpcWriteOptions::default().try_with_compression(compression)?;
                let mut writer = StreamWriter::try_new_with_options(vec![], &schema, options)?;
                writer.write(&batch)?;
                writer.finish()?;
                *sum += writer.get_ref().len();
            }
            rows += list.len();
        }
    }
    let [plain, lz4] = sums.map(|sum| sum as f64 / rows.max(1) as f64);
    Ok(Sent { plain, lz4 })
}

/// What is measured of a self-join.
#[derive(Debug)]
pub struct Measured {
    pub name: String,
    pub bounds: Bounds,
    /// Rows measured.
    pub rows: f64,
    /// Sizes, ascending, with the share of the rows of each.
    pub sizes: Vec<(u32, f64)>,
    pub sent: Sent,
    /// Admissible pairs of a pair of rows.
    pub admissible: f64,
    /// Postings met, and the exponent by which they grow with rows, over the last two doublings.
    pub postings: f64,
    pub exponent: f64,
    /// Of each token the share of the postings, and of all bytes the share of the rows that have
    /// it in their prefixes.
    pub tokens: Vec<(f64, f64)>,
    pub rates: Rates,
}

impl Measured {
    pub fn new(
        name: &str,
        sets: &SetCollection,
        input: &Input,
        bounds: Bounds,
        heavy: usize,
        sent: Sent,
    ) -> Self {
        let rows = input.all().0 as f64;
        let quarter = Input::first_rows(sets, (rows / 4.0) as u32);
        let prefix = PrefixTokens::new(input, bounds, heavy);
        let postings: f64 = prefix.postings().sum();
        let of_quarter: f64 = PrefixTokens::new(&quarter, bounds, heavy).postings().sum();
        let all = input.all();
        let bytes = |(rows, tokens)| (rows * ROW_BYTES + tokens * TOKEN_BYTES) as f64;
        let holders = prefix.holders().into_iter().map(|holders| bytes(holders) / bytes(all));
        let tokens = prefix.postings().map(|of_token| of_token / postings).zip(holders).collect();
        let lists = Lists::new(input, bounds);
        let rates = Broadcast::new(input, bounds, &lists).rates(bounds);
        let partners = Partners::new(&input.left, &input.left, bounds, true);
        let pairs: f64 = (0..input.left.len())
            .map(|place| {
                let partners = partners.of(place);
                let (rows, others) =
                    (input.left.rows(place..place + 1).0, input.left.rows(partners).0);
                rows as f64 * (others as f64 - rows as f64 / 2.0)
            })
            .sum();
        let sizes = input.left.histogram().iter().map(|&(s, count)| (s, count / rows)).collect();
        Self {
            name: name.split('@').next().unwrap_or(name).to_string(),
            bounds,
            rows,
            sizes,
            sent,
            admissible: pairs / (rows * rows / 2.0),
            postings,
            exponent: (postings / of_quarter).log(rows / quarter.all().0 as f64),
            tokens,
            rates,
        }
    }

    /// A mean over the rows.
    pub fn mean(&self, of: impl Fn(u32) -> f64) -> f64 {
        self.sizes.iter().map(|&(size, share)| share * of(size)).sum()
    }

    pub fn average_size(&self) -> f64 {
        self.mean(f64::from)
    }

    /// The prefix of a set of a size.
    pub fn prefix(&self, size: u32) -> f64 {
        f64::from(self.bounds.prefix_len(Role::First, size, 1))
    }

    pub fn average_prefix(&self) -> f64 {
        self.mean(|size| self.prefix(size))
    }

    /// Bytes sent for each byte that plain Int32 tokens are.
    pub fn wire(&self) -> f64 {
        self.sent.lz4 / (ROW_BYTES as f64 + TOKEN_BYTES as f64 * self.average_size())
    }

    /// Postings met among the rows of a collection: quadratic, an upper bound where a larger collection has
    /// rarer tokens.
    pub fn postings_of(&self, rows: f64) -> f64 {
        self.postings * (rows / self.rows).powi(2)
    }
}

/// Prints the constants as a table.
pub fn print(all: &[Measured]) {
    println!(
        "| collection | rows | size | IPC bytes a row | by LZ4 | threshold | prefix | admissible pairs | \
         postings of a pair | exponent | heaviest token: bytes | postings |"
    );
    println!("|---|{}", "---|".repeat(11));
    for m in all {
        println!(
            "| {} | {} | {:.1} | {:.0} | {:.0} | {} | {:.1} | {:.3} | {:.2e} | {:.2} | {:.1}% | {:.1}% |",
            m.name,
            m.rows,
            m.average_size(),
            m.sent.plain,
            m.sent.lz4,
            m.bounds.threshold,
            m.average_prefix(),
            m.admissible,
            m.postings / (m.rows * m.rows / 2.0),
            m.exponent,
            100.0 * m.tokens.iter().map(|token| token.1).fold(0.0, f64::max),
            100.0 * m.tokens.iter().map(|token| token.0).fold(0.0, f64::max),
        );
    }
}
