//! Levenshtein's distance of a column of strings and another, without a bound: as a plain function has
//! it.
//!
//! A vector holds 32 pairs of at most 16 bytes, 16 of at most 32 or 8 of at most 64. No pair needs a
//! table of its own: a comparison of patterns with a byte of their texts gives their match masks at
//! once. Texts end in one column: before a shorter one starts, nothing matches and the row above the
//! first does not ascend, which leaves its lane as it is. So no score is kept along: the last column's
//! vertical differences sum up to it.

use crate::simd::texts::lanes_kernel;
use crate::simd::{Form, Simd};
use crate::string::rules::{Cancelled, Edits, Levenshtein, Scratch};

/// Pairs between two questions whether to stop.
const PAIRS: usize = 1 << 13;

/// An ASCII string: the first `len` bytes of `rest`. Bytes behind it that can be read as well, such
/// as those of the strings that follow, spare a careful copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Text<'a> {
    /// The first `len` bytes of `rest`, which has as many.
    #[inline]
    pub(crate) fn new(rest: &'a [u8], len: usize) -> Self {
        assert!(len <= rest.len());
        Self { rest, len }
    }

    #[inline]
    fn bytes(&self) -> &'a [u8] {
        &self.rest[..self.len]
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes, bytes.len())
    }
}

/// Space for pairs of strings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pairs {
    short: Batch,
    middle: Batch,
    long: Batch,
    exact: Scratch,
}

impl Pairs {
    /// Space for pairs.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Writes the distance of pair `i`, which is `pair(i)`, to `out[i]`. The strings are ASCII.
    pub(crate) fn levenshtein<'a>(
        &mut self,
        simd: Simd,
        pair: impl Fn(usize) -> [Text<'a>; 2],
        out: &mut [u32],
        stop: &mut impl FnMut() -> bool,
    ) -> Result<(), Cancelled> {
        // Without vectors, a table for each pair is quicker.
        let longest = if simd.form() == Form::Portable { 0 } else { 64 };
        for at in 0..out.len() {
            if at % PAIRS == PAIRS - 1 && stop() {
                self.clear();
                return Err(Cancelled);
            }
            let [a, b] = pair(at);
            let (pattern, text) = if a.len >= b.len { (a, b) } else { (b, a) };
            if pattern.len <= 16.min(longest) {
                self.short.add::<16>(simd, at, pattern, text, out);
            } else if pattern.len <= 32.min(longest) {
                self.middle.add::<32>(simd, at, pattern, text, out);
            } else if pattern.len <= longest {
                self.long.add::<64>(simd, at, pattern, text, out);
            } else {
                match Levenshtein::distance(&mut self.exact, pattern.bytes(), text.bytes(), stop) {
                    Ok(distance) => out[at] = distance,
                    Err(cancelled) => {
                        self.clear();
                        return Err(cancelled);
                    }
                }
            }
        }
        self.short.flush::<16>(simd, out);
        self.middle.flush::<32>(simd, out);
        self.long.flush::<64>(simd, out);
        Ok(())
    }

    fn clear(&mut self) {
        for batch in [&mut self.short, &mut self.middle, &mut self.long] {
            batch.len = 0;
            batch.columns = 0;
        }
    }
}

/// A byte that no ASCII string holds.
const NO_SYMBOL: u8 = 0xff;

/// Bytes of the pairs of a vector.
const BYTES: usize = 512;

/// The pairs of a vector.
#[derive(Debug, Clone)]
struct Batch {
    /// Patterns from the start of their lane on, anything behind, and space for a lane's overflow.
    patterns: [u8; BYTES + 64],
    /// Texts up to the end of their lane, [`NO_SYMBOL`] before, and space for a lane's overflow.
    texts: [u8; BYTES + 64],
    /// Lengths, and where the distance goes.
    pairs: [(u8, u8, usize); 32],
    len: usize,
    /// The column in which each text starts.
    firsts: [u8; 64],
    /// The longest text.
    columns: usize,
    /// The match masks of each column.
    masks: [u64; 8 * 64],
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            patterns: [0; BYTES + 64],
            texts: [0; BYTES + 64],
            pairs: [(0, 0, 0); 32],
            len: 0,
            firsts: [0; 64],
            columns: 0,
            masks: [0; 8 * 64],
        }
    }
}

impl Batch {
    #[inline(always)]
    fn add<const W: usize>(
        &mut self,
        simd: Simd,
        at: usize,
        pattern: Text<'_>,
        text: Text<'_>,
        out: &mut [u32],
    ) {
        let lane = self.len * W;
        copy::<W>(&mut self.patterns[lane..], pattern);
        self.texts[lane..lane + W].fill(NO_SYMBOL);
        // What this writes beyond the lane is the next lane's, which is not yet there.
        copy::<W>(&mut self.texts[lane + W - text.len..], text);
        self.firsts[lane / 8] = (W - text.len) as u8;
        self.pairs[self.len] = (pattern.len as u8, text.len as u8, at);
        self.columns = self.columns.max(text.len);
        self.len += 1;
        if self.len == BYTES / W {
            self.flush::<W>(simd, out);
        }
    }

    fn flush<const W: usize>(&mut self, simd: Simd, out: &mut [u32]) {
        if self.len == 0 {
            return;
        }
        let mut differences = [[0; 64]; 2];
        match W {
            16 => batch_16(simd, self, &mut differences),
            32 => batch_32(simd, self, &mut differences),
            _ => batch_64(simd, self, &mut differences),
        }
        let [plus, minus] = &differences;
        for (lane, &(rows, columns, at)) in self.pairs[..self.len].iter().enumerate() {
            let rows = !(!0_u64).checked_shl(rows.into()).unwrap_or(0);
            let plus = (word::<W>(plus, lane) & rows).count_ones();
            let minus = (word::<W>(minus, lane) & rows).count_ones();
            out[at] = u32::from(columns) + plus - minus;
        }
        self.len = 0;
        self.columns = 0;
    }
}

/// A lane of `W` bits.
#[inline(always)]
fn word<const W: usize>(bytes: &[u8; 64], lane: usize) -> u64 {
    let at = lane * W / 8;
    match W {
        16 => u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]])),
        32 => bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes).into()),
        _ => bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
    }
}

/// Copies a text of at most `W` bytes to the start of `to`, and anything behind it up to `W` bytes.
#[inline(always)]
fn copy<const W: usize>(to: &mut [u8], text: Text<'_>) {
    match (to.first_chunk_mut::<W>(), text.rest.first_chunk::<W>()) {
        (Some(to), Some(from)) => *to = *from,
        _ => to[..text.len].copy_from_slice(text.bytes()),
    }
}

/// Makes the kernel for pairs of at most `W` bytes: the vertical differences of the last column, plus
/// one and minus one.
macro_rules! batch {
    ($name:ident, $width:literal) => {
        lanes_kernel! {
            fn $name[F, Z = 1 or 1](batch: &mut Batch, differences: &mut [[u8; 64]; 2]) {
                const W: usize = $width;
                let columns = W - batch.columns.min(W)..W;
                // SAFETY: the kernel runs the instructions of the form; patterns and texts have 512
                // bytes, masks eight words for each column, and columns are below `W`.
                unsafe {
                    let firsts = F::load(batch.firsts.as_ptr());
                    let mut plus = F::splat8(0xff);
                    let mut minus = F::splat8(0);
                    let masks = batch.masks.as_mut_ptr();
                    for column in columns.clone() {
                        let (patterns, texts) = (batch.patterns.as_ptr(), batch.texts.as_ptr());
                        F::equal::<W>(masks.add(8 * column), patterns, texts, column);
                    }
                    for column in columns {
                        let equal = F::or(F::load(masks.add(8 * column).cast()), minus);
                        let sum = F::add::<W>(F::and(equal, plus), plus);
                        let diagonal = F::or(F::xor(sum, plus), equal);
                        let up = F::or(minus, F::not(F::or(diagonal, plus)));
                        let down = F::and(diagonal, plus);
                        let now = F::splat_lanes::<W>(column as u16);
                        let up = F::add_from::<W>(F::add::<W>(up, up), firsts, now);
                        plus = F::or(F::add::<W>(down, down), F::not(F::or(diagonal, up)));
                        minus = F::and(up, diagonal);
                    }
                    F::store(differences[0].as_mut_ptr(), plus);
                    F::store(differences[1].as_mut_ptr(), minus);
                }
            }
        }
    };
}

batch!(batch_16, 16);
batch!(batch_32, 32);
batch!(batch_64, 64);
