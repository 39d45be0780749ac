//! Levels and indexes of dictionaries: runs of one value, and values packed into bits.
//!
//! The hybrid of both is described with the format of Parquet (Encodings, "Run Length Encoding /
//! Bit-Packing Hybrid").

use datafusion::common::{Result, exec_err};

/// A part of a sequence of values.
#[derive(Debug, PartialEq)]
enum LevelRun<'a> {
    Repeated {
        value: u32,
        count: usize,
    },
    /// The values in bits, the lowest first.
    Packed {
        bytes: &'a [u8],
        count: usize,
    },
}

/// The runs of a sequence.
struct Runs<'a> {
    rest: &'a [u8],
    /// Bits of a value, 32 at most.
    width: u32,
    /// Values that are still to come.
    left: usize,
}

impl<'a> Runs<'a> {
    fn new(bytes: &'a [u8], width: u32, count: usize) -> Self {
        Self { rest: bytes, width, left: count }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let Some((own, rest)) = self.rest.split_at_checked(bytes) else {
            return exec_err!("a page ends before its levels or indexes");
        };
        self.rest = rest;
        Ok(own)
    }

    /// A number of seven bits a byte.
    fn header(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        exec_err!("a page holds a run of values without an end")
    }

    /// The next run; `None` behind the last value.
    fn next(&mut self) -> Result<Option<LevelRun<'a>>> {
        while self.left > 0 {
            let header = self.header()?;
            let count = usize::try_from(header >> 1).unwrap_or(usize::MAX);
            let run = if header & 1 == 0 {
                let bytes = self.take(self.width.div_ceil(8) as usize)?;
                let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
                LevelRun::Repeated { value, count: count.min(self.left) }
            } else {
                // Writers may leave out the end of the last group.
                let bytes = self.rest.len().min(count.saturating_mul(self.width as usize));
                let bytes = self.take(bytes)?;
                let count = count.saturating_mul(8).min(self.left);
                if bytes.len() * 8 < count * self.width as usize {
                    return exec_err!("a page ends before its levels or indexes");
                }
                LevelRun::Packed { bytes, count }
            };
            let (LevelRun::Repeated { count, .. } | LevelRun::Packed { count, .. }) = run;
            self.left -= count;
            if count > 0 {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }
}

/// Gives values that are packed into `width` bits each.
#[inline]
fn unpack(bytes: &[u8], width: u32, count: usize, mut give: impl FnMut(u32)) {
    let mask = (1_u64 << width) - 1;
    for place in 0..count {
        let bit = place * width as usize;
        let from = &bytes[bit / 8..];
        let word = match from.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => from.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        give((word >> (bit % 8) & mask) as u32);
    }
}

/// The places of the entries that begin a row: their repetition level is 0, and that of all others
/// is 1.
pub(super) fn row_starts(bytes: &[u8], entries: usize) -> Result<Vec<u32>> {
    let mut starts = vec![];
    let mut runs = Runs::new(bytes, 1, entries);
    let mut at = 0_u32;
    while let Some(run) = runs.next()? {
        match run {
            LevelRun::Repeated { value, count } => {
                let end = at + count as u32;
                if value == 0 {
                    starts.extend(at..end);
                }
                at = end;
            }
            LevelRun::Packed { bytes, count } => {
                for (place, bytes) in (0..count).step_by(64).zip(bytes.chunks(8)) {
                    let word =
                        bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                    let of_word = 64.min(count - place) as u32;
                    let mut zeros = !word & (u64::MAX >> (64 - of_word));
                    while zeros != 0 {
                        starts.push(at + place as u32 + zeros.trailing_zeros());
                        zeros &= zeros - 1;
                    }
                }
                at += count as u32;
            }
        }
    }
    Ok(starts)
}

/// The definition levels of entries; `None` where all are `most`.
pub(super) fn definitions(bytes: &[u8], entries: usize, most: u8) -> Result<Option<Vec<u8>>> {
    let width = most.ilog2() + 1;
    let mut levels: Option<Vec<u8>> = None;
    let mut runs = Runs::new(bytes, width, entries);
    let mut at = 0;
    while let Some(run) = runs.next()? {
        let (LevelRun::Repeated { count, .. } | LevelRun::Packed { count, .. }) = run;
        let mut put = |place: usize, level: u32| match &mut levels {
            Some(levels) => levels[at + place] = level as u8,
            None if level == u32::from(most) => {}
            None => {
                let mut all = vec![most; entries];
                all[at + place] = level as u8;
                levels = Some(all);
            }
        };
        match run {
            LevelRun::Repeated { value, .. } if value == u32::from(most) => {}
            LevelRun::Repeated { value, count } => (0..count).for_each(|place| put(place, value)),
            LevelRun::Packed { bytes, count } => {
                let mut place = 0;
                unpack(bytes, width, count, |level| {
                    put(place, level);
                    place += 1;
                });
            }
        }
        at += count;
    }
    match levels.as_ref().and_then(|levels| levels.iter().find(|level| **level > most)) {
        Some(level) => exec_err!("a page holds the definition level {level}, of {most} at most"),
        None => Ok(levels),
    }
}

/// Gives the indexes of a page of values from a dictionary: a byte with their bits, and the runs.
pub(super) fn indexes(
    bytes: &[u8],
    count: usize,
    mut give: impl FnMut(u32, usize) -> Result<()>,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let Some((&width, bytes)) = bytes.split_first().filter(|(width, _)| **width <= 32) else {
        return exec_err!("a page holds indexes of more than 32 bits");
    };
    let mut runs = Runs::new(bytes, u32::from(width), count);
    while let Some(run) = runs.next()? {
        match run {
            LevelRun::Repeated { value, count } => give(value, count)?,
            LevelRun::Packed { bytes, count } => {
                let mut result = Ok(());
                unpack(bytes, u32::from(width), count, |index| {
                    if result.is_ok() {
                        result = give(index, 1);
                    }
                });
                result?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_both_kinds_are_read() {
        // Ten times 5, then eight values of three bits: 0 to 7.
        let bytes = [20, 5, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        let mut values = vec![];
        let give = |value, count| {
            values.extend(vec![value; count]);
            Ok(())
        };
        let mut page = vec![3];
        page.extend(bytes);
        indexes(&page, 18, give).unwrap();
        assert_eq!(values[..10], [5; 10]);
        assert_eq!(values[10..], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(indexes(&page[..4], 18, |_, _| Ok(())).is_err());
        assert!(indexes(&[33], 1, |_, _| Ok(())).is_err());
        assert!(indexes(&[], 1, |_, _| Ok(())).is_err());
        assert!(indexes(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 1, |_, _| Ok(())).is_err());
    }

    #[test]
    fn rows_start_at_level_zero() {
        // 0 1 1 0 1 1 1 0, then four times 1, then two times 0.
        let bytes = [3, 0b0111_0110, 8, 1, 4, 0];
        assert_eq!(row_starts(&bytes, 14).unwrap(), [0, 3, 7, 12, 13]);
        // More values than entries are padding.
        assert_eq!(row_starts(&bytes, 4).unwrap(), [0, 3]);
        assert!(row_starts(&bytes, 15).is_err());
    }

    #[test]
    fn definitions_are_kept_where_some_are_not_the_greatest() {
        assert_eq!(definitions(&[8, 3], 4, 3).unwrap(), None);
        assert_eq!(definitions(&[3, 0xff, 0xff], 8, 3).unwrap(), None);
        // 3 3 0 2 of two bits, and four times 3.
        let bytes = [3, 0b1000_1111, 0xff];
        assert_eq!(definitions(&bytes, 8, 3).unwrap(), Some(vec![3, 3, 0, 2, 3, 3, 3, 3]));
        assert_eq!(definitions(&[4, 3, 4, 1], 4, 3).unwrap(), Some(vec![3, 3, 1, 1]));
        assert!(definitions(&[8, 3], 4, 2).is_err());
    }
}
