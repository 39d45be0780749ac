//! Statistics of a data set: sizes, universe, skew.

use datafusion::common::Result;

use super::collection::Collection;
use crate::data::{self, DataSet};

/// Ranks at which token frequencies are shown.
const RANKS: &[usize] = &[1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000];

/// Statistics of the sets of a data set, repeats included.
pub struct Statistics {
    name: String,
    rows: usize,
    distinct: u32,
    average: f64,
    /// Sizes that 1, 10, 25, 50, 75, 90, 99 and 100 percent of the sets do not exceed.
    percentiles: Vec<usize>,
    /// The share of rows that hold each token, largest first.
    shares: Vec<f64>,
}

/// Reads and counts.
pub fn of(set: &DataSet) -> Result<Statistics> {
    let sets = data::encode(&set.name, &set.read()?, 1)?.sets;
    let mut frequencies = vec![0u64; sets.universe() as usize];
    let mut sizes = vec![];
    for id in 0..sets.len() {
        let rows = sets.groups().slots(id..id + 1).len();
        sizes.extend(std::iter::repeat_n(sets.size(id) as usize, rows));
        sets.tokens(id).iter().for_each(|&token| frequencies[token as usize] += rows as u64);
    }
    sizes.sort_unstable();
    frequencies.sort_unstable_by(|a, b| b.cmp(a));
    let rows = sizes.len();
    let at = |percent: usize| sizes.get((rows * percent / 100).min(rows.max(1) - 1)).copied();
    Ok(Statistics {
        name: set.name.clone(),
        rows,
        distinct: sets.len(),
        average: sizes.iter().sum::<usize>() as f64 / rows.max(1) as f64,
        percentiles: [1, 10, 25, 50, 75, 90, 99, 100].into_iter().filter_map(at).collect(),
        shares: frequencies.iter().map(|&f| f as f64 / rows.max(1) as f64).collect(),
    })
}

impl Statistics {
    pub fn universe(&self) -> usize {
        self.shares.len()
    }

    /// Rows whose set an earlier row has already.
    pub fn repeats(&self) -> usize {
        self.rows - self.distinct as usize
    }

    pub fn print(&self, like: Option<&Collection>) {
        println!("{}", self.name);
        println!("  rows         {}, {} repeats", self.rows, self.repeats());
        println!("  average size {:.2}", self.average);
        println!("  percentiles  {:?} (1, 10, 25, 50, 75, 90, 99, 100)", self.percentiles);
        println!("  universe     {}", self.universe());
        if let Some(like) = like {
            println!(
                "  published    {} rows, average size {}, at most {}, universe {}",
                like.rows,
                like.average_size,
                like.max_size,
                like.universe()
            );
        }
        let shares = RANKS.iter().filter_map(|&rank| {
            self.shares.get(rank - 1).map(|share| format!("{rank}: {share:.3e}"))
        });
        println!(
            "  share of rows with the token of rank {}",
            shares.collect::<Vec<_>>().join(", ")
        );
    }

    /// Prints how close the token frequencies are to those of `model`, rank by rank.
    pub fn compare(&self, model: &Statistics) {
        let total: f64 = model.shares.iter().sum();
        let scale = total / self.shares.iter().sum::<f64>();
        let ranks = self.shares.len().max(model.shares.len());
        let share = |s: &Statistics, rank: usize| s.shares.get(rank).copied().unwrap_or(0.0);
        let difference: f64 =
            (0..ranks).map(|r| (share(self, r) * scale - share(model, r)).abs()).sum();
        // The work of counting common tokens by posting lists grows with the squares.
        let squares = |s: &Statistics| s.shares.iter().map(|v| v * v).sum::<f64>();
        println!("  beside {}", model.name);
        println!("    average size {:.2} : {:.2}", self.average, model.average);
        println!("    percentiles {:?} : {:?}", self.percentiles, model.percentiles);
        println!("    universe {} : {}", self.universe(), model.universe());
        for &rank in RANKS.iter().filter(|&&rank| rank <= ranks) {
            let (own, other) = (share(self, rank - 1), share(model, rank - 1));
            println!("    share of rows with the token of rank {rank} {own:.3e} : {other:.3e}");
        }
        println!("    frequencies that would have to move {:.1}%", 50.0 * difference / total);
        println!("    sum of squared shares {:.1} : {:.1}", squares(self), squares(model));
    }
}
