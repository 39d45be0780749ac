//! Units that a device has left, and those that take them up again.

use crate::gpu::DeviceError;

/// Marks the number of a unit that a kernel gives back: alone it has more hits than there is room.
const TOO_MANY: u32 = 1 << 31;
/// Units that are done again in one job, at least, where the former job has done some.
const LEAST_UNITS: usize = 64;
/// The parts of a unit, or of a job, that takes the place of one that was too large.
pub(super) const PARTS: u32 = 8;

/// A strip of rows and some stages of columns.
pub trait TileUnit: Copy {
    /// The first stage, and how many there are.
    fn stages(&self) -> (u32, u32);

    /// The unit of the same rows with other stages.
    fn with(self, first: u32, stages: u32) -> Self;

    /// Smaller units in place of one with too many hits; `None` where it is the smallest.
    fn split(self) -> Option<impl Iterator<Item = Self>> {
        let (first, stages) = self.stages();
        let share = stages.div_ceil(PARTS).max(1);
        let end = first + stages;
        let starts = (first..end).step_by(share as usize);
        (stages > 1).then(|| starts.map(move |at| self.with(at, share.min(end - at))))
    }
}

/// The units that a device has left.
#[derive(Debug)]
pub(crate) struct Left<U> {
    /// Units that found no room.
    pub again: Vec<U>,
    /// Units that alone have too many hits.
    pub too_many: Vec<U>,
}

/// The units of jobs that take up those that were left.
#[derive(Debug)]
pub(crate) struct Again<U> {
    /// The units of each job.
    pub sparse: Vec<Vec<U>>,
    /// Units whose pairs are decided one by one.
    pub dense: Vec<U>,
}

impl<U> Default for Left<U> {
    fn default() -> Self {
        Self { again: vec![], too_many: vec![] }
    }
}

impl<U: TileUnit> Left<U> {
    /// Takes the units of a job whose numbers a kernel gave back.
    ///
    /// # Errors
    ///
    /// Where the job has no such unit.
    pub(crate) fn take(&mut self, units: &[U], numbers: Vec<u32>) -> Result<(), DeviceError> {
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
    pub(crate) fn jobs(self, count: usize, needed: impl Fn(&U) -> bool) -> Again<U> {
        let finished = count.saturating_sub(self.again.len() + self.too_many.len());
        let most = match finished {
            0 => count.div_ceil(PARTS as usize).max(1),
            // A job of all of them would find no room for most, over and over.
            _ => (4 * finished).max(LEAST_UNITS),
        };
        let mut sparse: Vec<U> = self.again.into_iter().filter(&needed).collect();
        let mut dense = vec![];
        for unit in self.too_many.into_iter().filter(&needed) {
            match unit.split() {
                Some(smaller) => sparse.extend(smaller),
                None => dense.push(unit),
            }
        }
        Again { sparse: sparse.chunks(most).map(<[U]>::to_vec).collect(), dense }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl TileUnit for (u32, u32) {
        fn stages(&self) -> (u32, u32) {
            *self
        }

        fn with(self, first: u32, stages: u32) -> Self {
            (first, stages)
        }
    }

    /// A device on which blocks fill the room side by side: a launch of more than `most` units
    /// finishes none.
    #[test]
    fn jobs_of_which_nothing_finishes_become_smaller() {
        for most in [1, 2, 63, 200] {
            let mut jobs = vec![(0..500).map(|first| (first, 1)).collect::<Vec<(u32, u32)>>()];
            let (mut done, mut launches) = (vec![], 0);
            while let Some(units) = jobs.pop() {
                launches += 1;
                assert!(launches < 5000, "no end with {most}");
                if units.len() <= most {
                    done.extend(units);
                    continue;
                }
                let left = Left { again: units.clone(), too_many: vec![] };
                let again = left.jobs(units.len(), |_| true);
                assert!(again.dense.is_empty());
                jobs.extend(again.sparse);
            }
            done.sort_unstable();
            assert_eq!(done, (0..500).map(|first| (first, 1)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn units_with_too_many_hits_become_smaller() {
        let units = [(3, 20), (40, 1), (50, 2), (60, 9)];
        let mut left = Left::default();
        left.take(&units, vec![TOO_MANY, TOO_MANY | 1, 2]).unwrap();
        assert!(left.take(&units, vec![4]).is_err());
        let Again { sparse, dense } = left.jobs(4, |unit| unit.0 < 55);
        assert_eq!(dense, [(40, 1)]);
        let smaller = [(50, 2), (3, 3), (6, 3), (9, 3), (12, 3), (15, 3), (18, 3), (21, 2)];
        assert_eq!(sparse, [smaller]);
    }
}
