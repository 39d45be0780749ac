//! What a plan needs, from the distribution of set sizes and the constants of a collection.

use datafusion::common::Result;
use datafusion_simjoin::internals::set::Role;
use datafusion_simjoin::internals::shuffle::{Grid, GridPairs, GridSpec, Histogram, Tiling};

use super::super::grid::{PARTS, sides_sent, spec};
use super::super::load::nanos;
use super::super::prefix::PrefixTokens;
use super::super::rows::{ROW_BYTES, TOKEN_BYTES};
use super::measured::Measured;

/// Bytes held while the sets of a task are encoded, in those of their CSR form (growth.csv,
/// `encode_peak_bytes` to `csr_bytes`: 2.1 to 2.7 from 10 MB on), and for a row besides: its id and
/// its place.
const ENCODE_BYTES: f64 = 2.5;
const HELD_ROW_BYTES: f64 = 12.0;

/// How many rows are joined by how many tasks.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub rows: f64,
    pub tasks: usize,
}

#[derive(Debug, Clone, Copy)]
pub enum Plan {
    Broadcast,
    Grid,
    Prefix,
}

/// How a task joins its rows.
#[derive(Debug, Clone, Copy)]
pub enum Strategy {
    Signatures,
    Prefixes,
}

/// What a plan sends, and what its greatest task holds and does.
#[derive(Debug, Clone, Copy, Default)]
pub struct Needs {
    /// Bytes sent, compressed.
    pub sent: f64,
    /// Rows sent for each of the input.
    pub copies: f64,
    /// Bytes of the rows of a task, uncompressed.
    pub bytes: f64,
    pub memory: f64,
    pub pairs: f64,
    pub postings: f64,
    pub seconds: f64,
    pub strategy: &'static str,
}

/// Rows of a task with what is done with them.
#[derive(Debug, Clone, Copy, Default)]
struct Task {
    rows: f64,
    bytes: f64,
    lookups: f64,
    pairs: f64,
    postings: f64,
}

impl Task {
    fn tokens(&self) -> f64 {
        (self.bytes - self.rows * ROW_BYTES as f64) / TOKEN_BYTES as f64
    }

    fn memory(&self) -> f64 {
        ENCODE_BYTES * (4.0 * self.tokens() + 8.0 * self.rows) + HELD_ROW_BYTES * self.rows
    }

    fn seconds(&self, strategy: Strategy) -> f64 {
        let (encode, index) = (self.tokens() * nanos::ENCODE, self.tokens() * nanos::INDEX);
        let nanos = match strategy {
            Strategy::Signatures => encode + self.pairs * nanos::PAIR,
            Strategy::Prefixes => {
                encode + index + self.lookups * nanos::LOOKUP + self.postings * nanos::POSTING
            }
        };
        nanos / 1e9
    }
}

impl Needs {
    fn add(&mut self, task: &Task, strategy: Strategy) {
        self.bytes = self.bytes.max(task.bytes);
        self.memory = self.memory.max(task.memory());
        self.pairs = self.pairs.max(task.pairs);
        self.postings = self.postings.max(task.postings);
        self.seconds = self.seconds.max(task.seconds(strategy));
    }
}

impl Measured {
    /// The histogram that the product would make of `rows` rows.
    fn histogram(&self, rows: f64) -> Histogram {
        let mut histogram = Histogram::new(false);
        for &(size, share) in &self.sizes {
            let class = histogram.resolution.class(size);
            *histogram.rows.entry((0, class, 0)).or_default() += (share * rows).round() as u64;
        }
        histogram
    }

    /// All rows, with the work of one task of many.
    fn share(&self, size: Size) -> Task {
        let (rows, tasks) = (size.rows, size.tasks as f64);
        Task {
            rows,
            bytes: rows * (ROW_BYTES as f64 + TOKEN_BYTES as f64 * self.average_size()),
            lookups: rows * self.average_prefix() / tasks,
            pairs: self.admissible * rows * rows / 2.0 / tasks,
            postings: self.postings_of(rows) / tasks,
        }
    }
}

/// A plan with the local strategy that is faster.
///
/// # Errors
///
/// When the measure has no axis.
pub fn needs(measured: &Measured, size: Size, plan: Plan) -> Result<Needs> {
    let of = |strategy| match plan {
        Plan::Broadcast => Ok(broadcast(measured, size, strategy)),
        Plan::Grid => grid(measured, size, strategy),
        Plan::Prefix => Ok(prefix(measured, size, strategy)),
    };
    let (pairs, postings) = (of(Strategy::Signatures)?, of(Strategy::Prefixes)?);
    Ok(match pairs.seconds < postings.seconds {
        true => Needs { strategy: "signatures", ..pairs },
        false => Needs { strategy: "prefixes", ..postings },
    })
}

/// Every task gets all rows and its share of the work.
fn broadcast(measured: &Measured, size: Size, strategy: Strategy) -> Needs {
    let task = measured.share(size);
    let copies = size.tasks as f64;
    let mut needs =
        Needs { copies, sent: copies * task.bytes * measured.wire(), ..Needs::default() };
    needs.add(&task, strategy);
    needs
}

/// The tiles that the product makes for as many rows as `size` states, spread evenly over the places of each size.
///
/// # Errors
///
/// When the measure has no axis.
pub fn grid(measured: &Measured, size: Size, strategy: Strategy) -> Result<Needs> {
    let (of_join, axis) = spec(measured.bounds, size.tasks)?;
    let histogram = measured.histogram(size.rows);
    let mut tasks = vec![Task::default(); size.tasks];
    for pairs in PARTS {
        let grid = Grid { spec: GridSpec { pairs, ..of_join }, axis: axis.as_ref() };
        let tiling = Tiling::new(&grid, [&histogram, &histogram]);
        for (rows, &task) in rows_of_tiles(measured, size, &grid, &tiling).iter().zip(&tiling.tasks)
        {
            add_tile(measured, pairs, rows, &mut tasks[task as usize]);
        }
    }
    // Postings were counted by weight.
    let weight: f64 = tasks.iter().map(|task| task.postings).sum();
    let mut needs = Needs::default();
    for task in &mut tasks {
        task.postings *= measured.postings_of(size.rows) / weight.max(f64::MIN_POSITIVE);
        needs.add(task, strategy);
        needs.sent += task.bytes * measured.wire();
        needs.copies += task.rows / size.rows;
    }
    Ok(needs)
}

/// Sizes, ascending, with the rows of each.
type Sizes = Vec<(u32, f64)>;

/// The rows that each tile gets, per side.
fn rows_of_tiles(
    measured: &Measured,
    size: Size,
    grid: &Grid<'_>,
    tiling: &Tiling,
) -> Vec<[Sizes; 2]> {
    const PLACES: f64 = 4_294_967_296.0;
    let mut rows = vec![[vec![], vec![]]; tiling.tiles.len()];
    for side in sides_sent(grid.pairs) {
        for &(of_set, share) in &measured.sizes {
            let start = u64::from(of_set) << 32;
            for (places, tile) in tiling.tiles(grid, side, 0, of_set) {
                let places = places.start.max(start)..places.end.min(start + (1 << 32));
                let part = (places.end - places.start) as f64 / PLACES;
                rows[tile as usize][side as usize].push((of_set, share * part * size.rows));
            }
        }
    }
    rows
}

/// Adds what a tile gets and does to its task; postings by weight.
fn add_tile(measured: &Measured, pairs: GridPairs, [left, right]: &[Sizes; 2], task: &mut Task) {
    for &(size, rows) in left.iter().chain(right) {
        task.rows += rows;
        task.bytes += rows * (ROW_BYTES + TOKEN_BYTES * u64::from(size)) as f64;
    }
    // Sets look up those of lower places, and of two rows that are near one is lower.
    let (probe, share) = match pairs {
        GridPairs::Within => (left, 0.5),
        _ => (right, 1.0),
    };
    let mut sums = vec![(0.0, 0.0)];
    for &(size, rows) in left {
        let (all, weight) = sums[sums.len() - 1];
        sums.push((all + rows, weight + rows * measured.rates.of(size)));
    }
    for &(size, rows) in probe {
        task.lookups += rows * measured.prefix(size);
        let Some((least, greatest)) = measured.bounds.size_range(Role::First, size) else {
            continue;
        };
        let first = left.partition_point(|of_left| of_left.0 < least);
        let end = left.partition_point(|of_left| of_left.0 <= greatest).max(first);
        let weight = measured.rates.of(size) * (sums[end].1 - sums[first].1);
        task.pairs += share * rows * (sums[end].0 - sums[first].0);
        task.postings += share * rows * weight;
    }
}

/// Rows at the tasks of their prefix tokens, these dealt out by hash.
pub fn prefix(measured: &Measured, size: Size, strategy: Strategy) -> Needs {
    let tasks = size.tasks as f64;
    let copies = |size: u32| tasks * (1.0 - (1.0 - 1.0 / tasks).powf(measured.prefix(size)));
    let row = |size: u32| (ROW_BYTES + TOKEN_BYTES * u64::from(size)) as f64;
    let all = measured.share(size);
    let sent = size.rows * measured.mean(|size| copies(size) * row(size));
    // The share of the postings of each task, and of all bytes the share that it does not get.
    let mut shares = vec![(0.0, 1.0); size.tasks];
    for (token, (postings, bytes)) in (0..).zip(&measured.tokens) {
        let share = &mut shares[PrefixTokens::task(token, size.tasks)];
        *share = (share.0 + postings, share.1 * (1.0 - bytes));
    }
    let mut needs =
        Needs { copies: measured.mean(copies), sent: sent * measured.wire(), ..Needs::default() };
    let admissible = measured.admissible / 2.0;
    for (postings, missing) in shares {
        let share = 1.0 - missing;
        let rows = share * size.rows;
        let task = Task {
            rows,
            bytes: share * all.bytes,
            pairs: admissible * rows * rows,
            postings: postings * measured.postings_of(size.rows),
            ..all
        };
        needs.add(&task, strategy);
    }
    needs
}
