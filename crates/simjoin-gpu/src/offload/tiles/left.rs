//! Units that a device has left, and those that take them up again.

use std::ops::Range;

use crate::runtime::{DeviceError, Pod};

/// Marks the number of a unit that a kernel gives back: alone it has more hits than there is room.
const TOO_MANY: u32 = 1 << 31;
/// Units that are done again in one job, at least, where the former job has done some.
const LEAST_UNITS: usize = 64;
/// The parts of a unit, or of a job, that takes the place of one that was too large.
pub(super) const PARTS: u32 = 8;

/// A strip of rows and some stages of columns, as kernels of all kinds read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct TileUnit {
    /// The strip: its first row, or its number among the strips of the plan.
    pub strip: u32,
    /// The first stage, or its place where the plan lists the stages of units.
    pub first_stage: u32,
    pub stages: u32,
}

const _: () = assert!(size_of::<TileUnit>() == 12);

// SAFETY: fields of 4 bytes, any bits are values.
unsafe impl Pod for TileUnit {}

impl TileUnit {
    /// The places of the stages.
    pub(super) fn range(self) -> Range<u32> {
        self.first_stage..self.first_stage + self.stages
    }

    /// Smaller units in place of one with too many hits; `None` where it is the smallest.
    fn split(self) -> Option<impl Iterator<Item = Self>> {
        let share = self.stages.div_ceil(PARTS).max(1);
        let end = self.range().end;
        let starts = self.range().step_by(share as usize);
        let part = move |at| Self { first_stage: at, stages: share.min(end - at), ..self };
        (self.stages > 1).then(|| starts.map(part))
    }
}

/// The units that a device has left.
#[derive(Debug, Default)]
pub(crate) struct LeftUnits {
    /// Units that found no room.
    pub again: Vec<TileUnit>,
    /// Units that alone have too many hits.
    pub too_many: Vec<TileUnit>,
}

/// The units of jobs that take up those that were left.
#[derive(Debug)]
pub(crate) struct Again {
    /// The units of each job.
    pub sparse: Vec<Vec<TileUnit>>,
    /// Units whose pairs are decided one by one.
    pub dense: Vec<TileUnit>,
}

impl LeftUnits {
    /// Takes the units of a job whose numbers a kernel gave back.
    ///
    /// # Errors
    ///
    /// Where the job has no such unit.
    pub(crate) fn take(
        &mut self,
        units: &[TileUnit],
        numbers: Vec<u32>,
    ) -> Result<(), DeviceError> {
        for number in numbers {
            let unit = units.get((number & !TOO_MANY) as usize).copied();
            let unit = unit.ok_or_else(|| {
                DeviceError::Internal(format!("a kernel gave unit {number} back"))
            })?;
            match number & TOO_MANY {
                0 => self.again.push(unit),
                _ => self.too_many.push(unit),
            }
        }
        Ok(())
    }

    /// The units of jobs in place of one of `count` units; those that are not `needed` are dropped.
    ///
    /// Blocks of a launch may fill the room for hits side by side, so that none finishes. The jobs then
    /// have ever fewer units: one alone finishes, or shows to have too many hits.
    pub(crate) fn jobs(self, count: usize, needed: impl Fn(&TileUnit) -> bool) -> Again {
        let finished = count.saturating_sub(self.again.len() + self.too_many.len());
        let most = match finished {
            0 => count.div_ceil(PARTS as usize).max(1),
            // A job of all of them would find no room for most, over and over.
            _ => (4 * finished).max(LEAST_UNITS),
        };
        let mut sparse: Vec<TileUnit> = self.again.into_iter().filter(&needed).collect();
        let mut dense = vec![];
        for unit in self.too_many.into_iter().filter(&needed) {
            match unit.split() {
                Some(smaller) => sparse.extend(smaller),
                None => dense.push(unit),
            }
        }
        Again { sparse: sparse.chunks(most).map(<[TileUnit]>::to_vec).collect(), dense }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit((first_stage, stages): (u32, u32)) -> TileUnit {
        TileUnit { strip: 7, first_stage, stages }
    }

    fn single(count: u32) -> Vec<TileUnit> {
        (0..count).map(|first| unit((first, 1))).collect()
    }

    /// A device on which blocks fill the room side by side: a launch of more than `most` units
    /// finishes none.
    #[test]
    fn jobs_of_which_nothing_finishes_become_smaller() {
        for most in [1, 2, 63, 200] {
            let mut jobs = vec![single(500)];
            let (mut done, mut launches) = (vec![], 0);
            while let Some(units) = jobs.pop() {
                launches += 1;
                assert!(launches < 5000, "no end with {most}");
                if units.len() <= most {
                    done.extend(units);
                    continue;
                }
                let left = LeftUnits { again: units.clone(), too_many: vec![] };
                let again = left.jobs(units.len(), |_| true);
                assert!(again.dense.is_empty());
                jobs.extend(again.sparse);
            }
            done.sort_unstable_by_key(|unit| unit.first_stage);
            assert_eq!(done, single(500));
        }
    }

    #[test]
    fn units_with_too_many_hits_become_smaller() {
        let units = [(3, 20), (40, 1), (50, 2), (60, 9)].map(unit);
        let mut left = LeftUnits::default();
        left.take(&units, vec![TOO_MANY, TOO_MANY | 1, 2]).unwrap();
        assert!(left.take(&units, vec![4]).is_err());
        let Again { sparse, dense } = left.jobs(4, |unit| unit.first_stage < 55);
        assert_eq!(dense, [unit((40, 1))]);
        let smaller = [(50, 2), (3, 3), (6, 3), (9, 3), (12, 3), (15, 3), (18, 3), (21, 2)];
        assert_eq!(sparse, [smaller.map(unit)]);
    }
}
