//! Sets shared out by their hashes.

/// Neighbouring sets in shares, one for each thread.
pub(super) struct InShares {
    /// In the order of the shares, ascending in each.
    sets: Vec<u32>,
    /// By share, where its sets end.
    ends: Vec<u32>,
}

impl InShares {
    /// The sets from `first` on, by the low bits of their hashes: tables go by the high ones.
    pub(super) fn of(first: u32, hashes: &[u32], shares: usize) -> Self {
        let share = |hash: u32| ((hash & 0xFFFF) as usize * shares) >> 16;
        let mut ends = vec![0; shares];
        hashes.iter().for_each(|&hash| ends[share(hash)] += 1);
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut sets = vec![0; hashes.len()];
        for (set, &hash) in (first..).zip(hashes) {
            let end = &mut ends[share(hash)];
            sets[*end as usize] = set;
            *end += 1;
        }
        Self { sets, ends }
    }

    /// The numbers of a share.
    pub(super) fn share(&self, share: usize) -> &[u32] {
        let start = if share == 0 { 0 } else { self.ends[share - 1] };
        &self.sets[start as usize..self.ends[share] as usize]
    }
}
