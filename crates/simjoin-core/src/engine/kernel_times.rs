//! Time in the kernels of a device.

/// Nanoseconds in kernels, by the kernel's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelTimes {
    /// The names in use come first; the others are empty.
    of: [(&'static str, u64); Self::MOST],
}

impl KernelTimes {
    /// Kernels that one cursor may launch.
    const MOST: usize = 8;

    /// Adds time in the kernel `name`. Beyond [`Self::MOST`] names the time counts as the last
    /// name's, so that the sum stays right.
    pub fn add(&mut self, name: &'static str, nanos: u64) {
        let known = self.of.iter().position(|(of, _)| of.is_empty() || *of == name);
        debug_assert!(known.is_some(), "room for {name}");
        let (of, sum) = &mut self.of[known.unwrap_or(Self::MOST - 1)];
        if of.is_empty() {
            *of = name;
        }
        *sum += nanos;
    }

    /// Adds the times of another cursor.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(name, nanos)| self.add(name, nanos));
    }

    /// The kernels that ran, in the order of their first launch.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.of.iter().copied().take_while(|(name, _)| !name.is_empty())
    }

    /// The time in one kernel.
    pub fn of(&self, name: &str) -> u64 {
        self.iter().find(|(of, _)| *of == name).map_or(0, |(_, nanos)| nanos)
    }

    /// The time in all kernels.
    pub fn sum(&self) -> u64 {
        self.iter().map(|(_, nanos)| nanos).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up_by_name() {
        let mut times = KernelTimes::default();
        for (name, nanos) in [("b", 3), ("a", 5), ("b", 4)] {
            times.add(name, nanos);
        }
        assert_eq!(times.iter().collect::<Vec<_>>(), [("b", 7), ("a", 5)]);
        let mut sum = times;
        sum.merge(&times);
        assert_eq!((sum.of("a"), sum.of("b"), sum.of("c"), sum.sum()), (10, 14, 0, 24));
    }
}
