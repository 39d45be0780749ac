//! Samples: some of many things, evenly drawn.

/// The middle ones of about as many stretches of equal length as are wanted of `len` things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evenly {
    len: u32,
    step: u32,
}

impl Evenly {
    /// At most `wanted` of `len` things, at least one where there is one.
    pub fn new(len: u32, wanted: u32) -> Self {
        Self { len, step: len.div_ceil(wanted.max(1)).max(1) }
    }

    /// The number of things that each one stands for.
    pub(crate) fn step(self) -> u32 {
        self.step
    }

    /// The numbers of the things, ascending.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + Clone {
        (self.step / 2..self.len).step_by(self.step as usize)
    }
}

/// The number of one of each `step` things that follow each other among `len`, at random, ascending.
pub fn one_of_each(len: usize, step: usize, seed: u64) -> impl Iterator<Item = u32> {
    let step = step.max(1);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed);
    (0..len).step_by(step).map(move |first| {
        // Knuth's multiplier; the high bits are the random ones.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (first + (state >> 33) as usize % step.min(len - first)) as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_no_larger_than_wanted_and_within_the_whole() {
        for len in 0..70 {
            for wanted in 0..80 {
                let drawn = Evenly::new(len, wanted);
                let items: Vec<u32> = drawn.iter().collect();
                assert!(items.len() as u32 <= wanted.max(1) && items.is_empty() == (len == 0));
                assert!(items.iter().all(|&item| item < len));
                assert!(items.windows(2).all(|pair| pair[1] - pair[0] == drawn.step()));
                assert!(drawn.iter().len() as u32 * drawn.step() + drawn.step() > len);
            }
        }
    }
}
