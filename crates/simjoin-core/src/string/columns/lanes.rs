//! Some rows on their way through lanes.

use super::codes::CharacterCodes;
use crate::simd::Simd;
use crate::simd::texts::lanes_kernel;
use crate::string::lanes::pairs::{LONGEST, LaneCount, PendingPairs, Text};
use crate::string::lanes::{Characters, MOST_BYTES};

/// Counts the distances of some rows at a time, in lanes.
#[derive(Debug)]
pub(super) struct LaneCounter {
    simd: Simd,
    /// Pairs whose symbols are bytes, and those whose symbols are characters of two bytes, once there are any.
    narrow: PendingPairs<1>,
    wide: Option<Box<PendingPairs<2>>>,
    count: LaneCount,
    characters: Characters,
    codes: CharacterCodes,
    rows: CountedRows,
}

/// The rows that are counted at a time, by their numbers from 0 on.
#[derive(Debug, Default)]
pub(super) struct CountedRows {
    /// The count of each, and the lengths of its texts.
    pub counts: Vec<u32>,
    pub lens: Vec<[u8; 2]>,
    /// Rows that lanes do not take, in ascending order.
    pub left: Vec<usize>,
}

impl LaneCounter {
    pub(super) fn new(simd: Simd, count: LaneCount) -> Self {
        Self {
            simd,
            narrow: PendingPairs::new(count),
            wide: None,
            count,
            characters: Characters::default(),
            codes: CharacterCodes::default(),
            rows: CountedRows::default(),
        }
    }

    /// The rows that were taken last.
    pub(super) fn rows(&self) -> &CountedRows {
        &self.rows
    }

    /// Takes rows of which all texts are ASCII. Their counts are there after [`Self::flush`].
    pub(super) fn take_ascii(&mut self, [a, b]: &[Vec<Text<'_>>; 2]) {
        let Self { simd, narrow, rows, .. } = self;
        rows.begin(a.len());
        for (row, (&a, &b)) in a.iter().zip(b).enumerate() {
            rows.push(*simd, narrow, row, [[a], [b]]);
        }
    }

    /// [`Self::take_ascii`] for rows of any texts; `is_scalar` tells columns whose texts are all the same.
    pub(super) fn take(&mut self, texts: &[Vec<Text<'_>>; 2], is_scalar: [bool; 2]) {
        self.characters.clear();
        for (texts, is_scalar) in texts.iter().zip(is_scalar) {
            self.characters.extend(if is_scalar { &texts[..1] } else { texts });
        }
        let all_two = self.characters.split(self.simd);
        // Where many texts are not ASCII, a guess which pairs are would cost more than it saves.
        let tells_ascii = self.characters.bytes_beyond() < self.characters.bytes() / 16;
        take(self.simd, self, texts, is_scalar, all_two, tells_ascii);
    }

    /// Takes a row that was left because of its characters; returns whether lanes count it.
    pub(super) fn take_coded(&mut self, row: usize, pair: [&str; 2]) -> bool {
        if pair.iter().any(|text| text.len() > 4 * LONGEST) {
            return false;
        }
        let mut bytes = [[0; LONGEST]; 2];
        let Some([a, b]) = self.codes.encode(pair, &mut bytes) else { return false };
        let pair = [[Text::new(&bytes[0], a)], [Text::new(&bytes[1], b)]];
        let left = self.rows.left.len();
        self.rows.push(self.simd, &mut self.narrow, row, pair);
        let is_left = self.rows.left.len() > left;
        self.rows.left.truncate(left);
        !is_left
    }

    /// Counts the rows that wait.
    pub(super) fn flush(&mut self) {
        self.narrow.flush(self.simd, &mut self.rows.counts);
        if let Some(wide) = &mut self.wide {
            wide.flush(self.simd, &mut self.rows.counts);
        }
    }
}

lanes_kernel! {
    /// Takes rows whose characters were split. `all_two` says that none is beyond U+FFFF, `tells_ascii` to look
    /// for pairs of ASCII.
    fn take[F, Z = 1 or 1](
        lanes: &mut LaneCounter,
        texts: &[Vec<Text<'_>>; 2],
        is_scalar: [bool; 2],
        all_two: bool,
        tells_ascii: bool,
    ) {
        let LaneCounter { simd, narrow, wide, count, characters, rows, .. } = lanes;
        let wide = wide.get_or_insert_with(|| Box::new(PendingPairs::new(*count)));
        rows.begin(texts[0].len());
        let second = if is_scalar[0] { 1 } else { texts[0].len() };
        for (row, (&a, &b)) in texts[0].iter().zip(&texts[1]).enumerate() {
            let first = if is_scalar[0] { 0 } else { row };
            let other = second + if is_scalar[1] { 0 } else { row };
            let pair = [characters.text(first), characters.text(other)];
            let is_ascii = (pair[0][0].len() == a.len()) & (pair[1][0].len() == b.len());
            if a.len().max(b.len()) > MOST_BYTES {
                rows.left.push(row);
            } else if is_ascii && tells_ascii {
                rows.push(*simd, narrow, row, [[a], [b]]);
            } else if all_two || !(has_four(a) || has_four(b)) {
                rows.push(*simd, wide, row, pair);
            } else {
                rows.left.push(row);
            }
        }
    }
}

/// Whether a text has a character of four bytes.
fn has_four(text: Text<'_>) -> bool {
    text.bytes().iter().any(|&byte| byte >= 0xf0)
}

impl CountedRows {
    fn begin(&mut self, rows: usize) {
        self.counts.clear();
        self.counts.resize(rows, 0);
        self.lens.clear();
        self.lens.resize(rows, [0; 2]);
        self.left.clear();
    }

    /// Has a pair counted, or leaves its row: if a text is too long, or the pair has no count.
    #[inline(always)]
    fn push<const P: usize>(
        &mut self,
        simd: Simd,
        pairs: &mut PendingPairs<P>,
        row: usize,
        pair: [[Text<'_>; P]; 2],
    ) {
        let [a, b] = [pair[0][0].len(), pair[1][0].len()];
        if a.max(b) > LONGEST || !pairs.counts(a, b) {
            self.left.push(row);
            return;
        }
        self.lens[row] = [a as u8, b as u8];
        if a.min(b) == 0 {
            self.counts[row] = pairs.of_empty(a.max(b));
            return;
        }
        pairs.push(simd, row, pair, &mut self.counts);
    }
}
