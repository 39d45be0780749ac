//! The rows in which each symbol stands, for at most 64 rows of a matrix.

/// An element of a string: a byte of ASCII text, a Unicode scalar value, or a code for one.
pub(crate) trait Symbol: Copy + Eq + Send + Sync {
    /// The bytes of a symbol among those of a string: one or four.
    const BYTES: usize = 4;

    /// A number that is the symbol's own.
    fn key(self) -> u32;

    /// Appends the bytes of a string.
    fn append(string: &[Self], to: &mut Vec<u8>) {
        to.extend(string.iter().flat_map(|symbol| symbol.key().to_le_bytes()));
    }
}

impl Symbol for u8 {
    const BYTES: usize = 1;

    #[inline(always)]
    fn key(self) -> u32 {
        u32::from(self)
    }

    fn append(string: &[Self], to: &mut Vec<u8>) {
        to.extend_from_slice(string);
    }
}

impl Symbol for u32 {
    #[inline(always)]
    fn key(self) -> u32 {
        self
    }
}

impl Symbol for char {
    #[inline(always)]
    fn key(self) -> u32 {
        self.into()
    }
}

/// Places for at most 64 different symbols, half of them free.
const SLOTS: usize = 128;

/// Bit `i` of a symbol's mask says that row `i` of the pattern holds it.
///
/// Symbols below 256 have a place each; others are looked for from the place of their hash on. A
/// place whose mask is zero is free.
#[derive(Debug, Clone)]
pub(super) struct Masks {
    direct: [u64; 256],
    keys: [u32; SLOTS],
    hashed: [u64; SLOTS],
}

impl Default for Masks {
    fn default() -> Self {
        Self { direct: [0; 256], keys: [0; SLOTS], hashed: [0; SLOTS] }
    }
}

impl Masks {
    /// Runs `work` with the masks of `pattern`, which has at most 64 symbols.
    #[inline]
    pub(super) fn with<T: Symbol, R>(&mut self, pattern: &[T], work: impl FnOnce(&Self) -> R) -> R {
        debug_assert!(pattern.len() <= 64);
        for (row, symbol) in pattern.iter().enumerate() {
            let key = symbol.key();
            let mask = match self.direct.get_mut(key as usize) {
                Some(mask) => mask,
                None => {
                    let slot = self.slot(key);
                    self.keys[slot] = key;
                    &mut self.hashed[slot]
                }
            };
            *mask |= 1 << row;
        }
        let result = work(self);
        let mut hashed = false;
        for symbol in pattern {
            match self.direct.get_mut(symbol.key() as usize) {
                Some(mask) => *mask = 0,
                None => hashed = true,
            }
        }
        if hashed {
            self.hashed.fill(0);
        }
        result
    }

    /// The mask of a symbol, 0 where the pattern has it not.
    #[inline(always)]
    pub(super) fn of<T: Symbol>(&self, symbol: T) -> u64 {
        let key = symbol.key();
        match self.direct.get(key as usize) {
            Some(&mask) => mask,
            None => self.hashed[self.slot(key)],
        }
    }

    /// The place of a key that has one, otherwise a free place.
    #[inline(always)]
    fn slot(&self, key: u32) -> usize {
        let mut slot = (key.wrapping_mul(0x9E37_79B1) >> 25) as usize;
        while self.hashed[slot] != 0 && self.keys[slot] != key {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }
}
