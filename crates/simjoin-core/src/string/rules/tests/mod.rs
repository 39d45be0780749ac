//! The functions against textbook dynamic programmes, which share nothing with them.

mod distances;
mod long;
mod similarities;
pub(crate) mod textbook;
mod thresholds;
mod waves;

/// A seeded generator of random numbers (splitmix64).
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A symbol of an alphabet of this size, which may be all of Unicode.
    pub(crate) fn symbol(&mut self, alphabet: usize) -> u32 {
        match alphabet {
            0x11_0000 => loop {
                if let Some(scalar) = char::from_u32(self.below(alphabet) as u32) {
                    return scalar.into();
                }
            },
            _ => u32::from(b'a') + self.below(alphabet) as u32,
        }
    }

    pub(crate) fn string(&mut self, len: usize, alphabet: usize) -> Vec<u32> {
        (0..len).map(|_| self.symbol(alphabet)).collect()
    }

    /// The string after so many random edits, transpositions among them.
    pub(crate) fn edited(&mut self, string: &[u32], edits: usize, alphabet: usize) -> Vec<u32> {
        let mut result = string.to_vec();
        for _ in 0..edits {
            let symbol = self.symbol(alphabet);
            let at = self.below(result.len() + 1);
            match self.below(4) {
                0 if at < result.len() => result[at] = symbol,
                1 if at < result.len() => drop(result.remove(at)),
                2 if at + 1 < result.len() => result.swap(at, at + 1),
                _ => result.insert(at, symbol),
            }
        }
        result
    }

    /// Two strings: unrelated ones or one after some edits.
    pub(crate) fn pair(&mut self, lens: &[usize], alphabet: usize) -> (Vec<u32>, Vec<u32>) {
        let len = lens[self.below(lens.len())];
        let a = self.string(len, alphabet);
        let b = match self.below(3) {
            0 => {
                let len = lens[self.below(lens.len())];
                self.string(len, alphabet)
            }
            1 => {
                let edits = self.below(9);
                self.edited(&a, edits, alphabet)
            }
            _ => {
                let edits = self.below(len + 1);
                self.edited(&a, edits, alphabet)
            }
        };
        (a, b)
    }
}

/// Two letters, an alphabet, all scalar values.
pub(crate) const ALPHABETS: [usize; 3] = [2, 26, 0x11_0000];
