//! Out of core: how many bands of the build side each probe row must visit.

use datafusion_simjoin::internals::set::{Bounds, Role};

/// A build side cut in `pieces` of equal tokens in the order of sizes. Where `whole_sizes`, cuts
/// are moved to the nearest limit between two sizes, so that there may be fewer bands and larger
/// ones; otherwise a size is cut into blocks.
pub struct Bands {
    sizes: Vec<u32>,
    /// Bands in front of each size and of all, fractions where a size is cut.
    starts: Vec<f64>,
    /// Tokens of the greatest band, in those of an equal share.
    pub greatest: f64,
    /// Bands that are not empty.
    pub bands: usize,
}

impl Bands {
    /// From the sizes, ascending, with the rows of each.
    pub fn new(histogram: &[(u32, f64)], pieces: usize, whole_sizes: bool) -> Self {
        let total: f64 = histogram.iter().map(|&(size, rows)| f64::from(size) * rows).sum();
        let budget = total / pieces as f64;
        let mut ends = vec![0.0];
        for &(size, rows) in histogram {
            ends.push(ends[ends.len() - 1] + f64::from(size) * rows / budget);
        }
        let sizes = histogram.iter().map(|h| h.0).collect();
        if !whole_sizes {
            return Self { sizes, starts: ends, greatest: 1.0, bands: pieces };
        }
        let mut cuts: Vec<usize> = (1..pieces)
            .map(|cut| {
                let cut = cut as f64;
                let above = ends.partition_point(|&end| end < cut).min(ends.len() - 1);
                let below = above.max(1) - 1;
                if cut - ends[below] < ends[above] - cut { below } else { above }
            })
            .collect();
        cuts.retain(|&cut| cut > 0 && cut < histogram.len());
        cuts.dedup();
        let bands = cuts.len() + 1;
        let limits: Vec<usize> = [0].into_iter().chain(cuts).chain([histogram.len()]).collect();
        let greatest = limits.windows(2).map(|l| ends[l[1]] - ends[l[0]]).fold(0.0, f64::max);
        let starts = (0..=histogram.len())
            .map(|class| limits.partition_point(|&limit| limit <= class) as f64 - 1.0)
            .collect();
        Self { sizes, starts, greatest, bands }
    }

    /// The mean number of bands that a probe row of a size visits: those that sizes it can match
    /// are in. In a self-join its own band and those behind it.
    pub fn visits(&self, size: u32, bounds: Bounds, self_join: bool) -> f64 {
        let Some((least, greatest)) = bounds.size_range(Role::First, size) else { return 0.0 };
        let first = self.sizes.partition_point(|&s| s < least);
        let end = self.sizes.partition_point(|&s| s <= greatest);
        if first >= end {
            return 0.0;
        }
        let last = self.last(end);
        if !self_join {
            return last - floor(self.starts[first]) + 1.0;
        }
        // The rows of a size lie evenly over its bands.
        let own = self.sizes.partition_point(|&s| s < size);
        let (start, stop) = (self.starts[own], self.starts[own + 1]);
        if stop <= start {
            return last - start + 1.0;
        }
        let mut visits = 0.0;
        let mut band = floor(start);
        while band < stop - ROUNDING {
            let share = ((band + 1.0).min(stop) - band.max(start)) / (stop - start);
            visits += share * (last - band + 1.0);
            band += 1.0;
        }
        visits
    }

    /// The band of the last row of the sizes in front of `end`.
    fn last(&self, end: usize) -> f64 {
        let (start, stop) = (self.starts[end - 1], self.starts[end]);
        if stop > start { (stop - ROUNDING).ceil() - 1.0 } else { floor(start) }
    }
}

/// Sums of shares that should be whole are off by less.
const ROUNDING: f64 = 1e-6;

fn floor(place: f64) -> f64 {
    (place + ROUNDING).floor()
}

/// The mean visits of the rows of a probe side, and weighted by their tokens.
pub fn replication(
    bands: &Bands,
    probe: &[(u32, f64)],
    bounds: Bounds,
    self_join: bool,
) -> (f64, f64) {
    let (mut rows, mut tokens) = ((0.0, 0.0), (0.0, 0.0));
    for &(size, count) in probe {
        let visits = bands.visits(size, bounds, self_join);
        rows = (rows.0 + count * visits, rows.1 + count);
        let count = count * f64::from(size);
        tokens = (tokens.0 + count * visits, tokens.1 + count);
    }
    (rows.0 / f64::max(rows.1, 1.0), tokens.0 / f64::max(tokens.1, 1.0))
}
