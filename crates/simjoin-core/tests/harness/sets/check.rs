//! Holds what a strategy gives to what the nested loop found.

use std::collections::BTreeSet;

use simjoin_core::engine::{Match, MatchNeed, Pairing, RowPairCounts, Strategy};
use simjoin_core::set::{JoinSpec, SetId, SetJoin};

use super::Sides;
use super::drive::{Drive, OnDevice, Run};

impl Sides {
    /// Holds a strategy's matches to those expected.
    pub(crate) fn check(
        &self,
        strategy: &dyn Strategy<SetJoin>,
        spec: JoinSpec,
        drive: Drive,
        expected: &[Match],
    ) {
        let what = || format!("{strategy:?} {self:?} {spec:?} {drive:?}");
        let Run { mut found, counts, funnel } = self.run(strategy, spec, drive, &what);
        if let Some(OnDevice { demanded: true, .. }) = drive.device {
            let decided = funnel.device.candidates;
            // A set and itself are no candidates.
            let itself = |m: &Match| self.pairing == Pairing::Unordered && m.probe == m.build;
            assert!(decided > 0 || expected.iter().all(itself), "not on the device: {}", what());
        }
        match spec.need {
            MatchNeed::Count => {
                self.check_counts(&found, counts, expected, &what);
                assert_eq!(funnel.matches, expected.len() as u64, "counted wrongly: {}", what());
                return;
            }
            _ => assert_eq!(funnel.matches, found.len() as u64, "counted wrongly: {}", what()),
        }
        assert_eq!(counts, RowPairCounts::default(), "only counted: {}", what());
        if spec.pairing == Pairing::Unordered {
            // Either set of a pair may be the one that was probed.
            for m in &mut found {
                (m.probe, m.build) = (m.probe.max(m.build), m.probe.min(m.build));
            }
        }
        let distinct: BTreeSet<SetId> = found.iter().map(|m| m.probe).collect();
        let mut sorted = found.clone();
        sorted.sort_unstable();
        let pair = |m: &Match| (m.probe, m.build);
        match spec.need {
            MatchNeed::Scores => assert_eq!(sorted, expected, "{}", what()),
            MatchNeed::Count | MatchNeed::Pairs | MatchNeed::Exists => {
                for m in &sorted {
                    let place = expected.binary_search_by_key(&pair(m), pair);
                    let Ok(place) = place else {
                        panic!("{m:?} is no match: {}", what());
                    };
                    let wanted = expected[place];
                    let (_, p, b) = self.pair(m.probe, m.build).unwrap();
                    let value = self.value(&spec, (m.detail.into(), p, b));
                    assert!(
                        m.detail <= wanted.detail && value >= spec.bounds.threshold,
                        "{m:?} has a wrong overlap, exact is {wanted:?}: {}",
                        what()
                    );
                }
                let found: Vec<_> = sorted.iter().map(pair).collect();
                let unique: BTreeSet<_> = found.iter().copied().collect();
                assert_eq!(unique.len(), found.len(), "a pair came twice: {}", what());
                if spec.need == MatchNeed::Pairs {
                    let expected: Vec<_> = expected.iter().map(pair).collect();
                    assert_eq!(found, expected, "{}", what());
                } else {
                    let expected: BTreeSet<_> = expected.iter().map(|m| m.probe).collect();
                    assert_eq!(distinct, expected, "{}", what());
                }
            }
        }
    }

    /// Holds the pairs of rows behind given and counted matches to those of the expected ones.
    fn check_counts(
        &self,
        found: &[Match],
        mut counts: RowPairCounts,
        expected: &[Match],
        what: &dyn Fn() -> String,
    ) {
        let add = |counts: &mut RowPairCounts, m: &Match| {
            let rows = u64::from(self.probe.row_count_of(m.probe));
            if self.pairing == Pairing::Unordered && m.probe == m.build {
                counts.squares += rows * rows;
                counts.rows += rows;
            } else {
                counts.cross += rows * u64::from(self.build.row_count_of(m.build));
            }
        };
        let mut wanted = RowPairCounts::default();
        expected.iter().for_each(|m| add(&mut wanted, m));
        found.iter().for_each(|m| add(&mut counts, m));
        assert_eq!(counts, wanted, "{}", what());
    }
}
