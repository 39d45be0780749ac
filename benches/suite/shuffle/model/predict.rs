//! What a plan needs, from the distribution of set sizes and the constants of a collection.

use std::sync::Arc;

use super::super::load::nanos;
use super::super::prefix::PrefixTokens;
use super::super::rows::{ROW_BYTES, TOKEN_BYTES};
use super::super::tiling::{Axis, Tiling, Work};
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
#[derive(Clone, Copy)]
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

    fn seconds(&self, work: &Work) -> f64 {
        let (encode, index) = (self.tokens() * nanos::ENCODE, self.tokens() * nanos::INDEX);
        let nanos = match work {
            Work::Pairs => encode + self.pairs * nanos::PAIR,
            Work::Postings(_) => {
                encode + index + self.lookups * nanos::LOOKUP + self.postings * nanos::POSTING
            }
        };
        nanos / 1e9
    }
}

impl Needs {
    fn add(&mut self, task: &Task, work: &Work) {
        self.bytes = self.bytes.max(task.bytes);
        self.memory = self.memory.max(task.memory());
        self.pairs = self.pairs.max(task.pairs);
        self.postings = self.postings.max(task.postings);
        self.seconds = self.seconds.max(task.seconds(work));
    }
}

impl Measured {
    /// Work by postings.
    pub fn postings_work(&self) -> Work {
        Work::Postings(Arc::clone(&self.rates))
    }

    fn axis(&self, rows: f64, work: &Work) -> Axis {
        let sizes: Vec<(u32, f64)> =
            self.sizes.iter().map(|&(s, share)| (s, share * rows)).collect();
        Axis::new(&sizes, work.clone())
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
pub fn needs(measured: &Measured, size: Size, plan: Plan) -> Needs {
    let of = |work: &Work| match plan {
        Plan::Broadcast => broadcast(measured, size, work),
        Plan::Grid => grid(measured, size, work),
        Plan::Prefix => prefix(measured, size, work),
    };
    let (pairs, postings) = (of(&Work::Pairs), of(&measured.postings_work()));
    match pairs.seconds < postings.seconds {
        true => Needs { strategy: "signatures", ..pairs },
        false => Needs { strategy: "prefixes", ..postings },
    }
}

/// Every task gets all rows and its share of the work.
fn broadcast(measured: &Measured, size: Size, work: &Work) -> Needs {
    let task = measured.share(size);
    let copies = size.tasks as f64;
    let mut needs =
        Needs { copies, sent: copies * task.bytes * measured.wire(), ..Needs::default() };
    needs.add(&task, work);
    needs
}

/// The tiles that the histogram of so many rows gives.
pub fn grid(measured: &Measured, size: Size, work: &Work) -> Needs {
    let axis = measured.axis(size.rows, work);
    let tiling = Tiling::plan(&axis, &axis, measured.bounds, true, size.tasks, usize::MAX);
    let mut needs = Needs::default();
    for strip in &tiling.strips {
        for (piece, &products) in strip.pieces.windows(2).zip(&strip.products) {
            let (left, right) = strip.rows_of(&axis, measured.bounds, piece[0]..piece[1]);
            let of_work = match work {
                Work::Pairs => (products, 0.0),
                Work::Postings(_) => {
                    let share = products / tiling.products;
                    (0.0, share * measured.postings_of(size.rows))
                }
            };
            let task = Task {
                rows: axis.rows(left.clone()) + axis.rows(right.clone()),
                bytes: axis.bytes(left.clone()) + axis.bytes(right),
                lookups: axis.lookups(left),
                pairs: of_work.0,
                postings: of_work.1,
            };
            needs.add(&task, work);
            needs.sent += task.bytes * measured.wire();
            needs.copies += task.rows / size.rows;
        }
    }
    needs
}

/// Rows at the tasks of their prefix tokens, these dealt out by hash.
pub fn prefix(measured: &Measured, size: Size, work: &Work) -> Needs {
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
        needs.add(&task, work);
    }
    needs
}
