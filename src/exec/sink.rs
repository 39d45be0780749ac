//! What becomes of the matches of a join, decided when the join is laid out.

use datafusion::common::{JoinType, Result, internal_err};

use crate::spec::{Need, Side, SimilarityJoin};

/// What becomes of the matches: of pairs of rows that match, and of the rows of each side.
///
/// | join | pairs of rows | rows that are listed one by one |
/// |---|---|---|
/// | inner, outer | to the output | rows of a preserved side without a match |
/// | semi, anti | mark their rows | rows of the side with a match, or without one |
/// | counts per row | count for their rows | probe rows with a match, and as in an outer join |
/// | a total | are added up | none |
/// | connections | to the output, where they connect anew | as in an outer join |
///
/// The answer (`exec/answer`) takes matches of items first: where they tell everything
/// (`totals::items_suffice`), no pair of rows is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sink {
    pub pairs: PairSink,
    /// The rows that are listed one by one, per side.
    pub listed: [Listed; 2],
    /// Whether probe rows are listed with their numbers of matches.
    pub counts: bool,
    /// Whether, of the pairs of rows, those suffice that connect what all pairs connect.
    pub connects: bool,
}

/// What becomes of a pair of rows that match, besides marks and counts of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairSink {
    /// A row of the output.
    Output,
    /// One more in the total of all pairs.
    Total,
    /// Nothing: rows are listed by their marks and counts.
    Rows,
}

/// The rows of a side that are listed one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Rows with a match.
    pub matched: bool,
    /// Rows without a match.
    pub unmatched: bool,
}

impl Listed {
    const NONE: Self = Self { matched: false, unmatched: false };
    const MATCHED: Self = Self { matched: true, unmatched: false };
    const UNMATCHED: Self = Self { matched: false, unmatched: true };

    pub(crate) fn any(self) -> bool {
        self.matched || self.unmatched
    }
}

impl Sink {
    /// Decides for a join whose probe side is `probe`.
    ///
    /// # Errors
    ///
    /// When the answer is one that no operator with this probe side gives.
    pub(crate) fn of(join: &SimilarityJoin, probe: Side) -> Result<Self> {
        let of_semi = |side: Side, listed| {
            let mut sink = Self {
                pairs: PairSink::Rows,
                listed: [Listed::NONE; 2],
                counts: false,
                connects: false,
            };
            sink.listed[side as usize] = listed;
            Ok(sink)
        };
        let mut listed = [Side::Left, Side::Right]
            .map(|side| Listed { unmatched: side.is_preserved(join.join_type), ..Listed::NONE });
        match (join.need, join.join_type) {
            (_, JoinType::LeftSemi) => of_semi(Side::Left, Listed::MATCHED),
            (_, JoinType::LeftAnti) => of_semi(Side::Left, Listed::UNMATCHED),
            (_, JoinType::RightSemi) => of_semi(Side::Right, Listed::MATCHED),
            (_, JoinType::RightAnti) => of_semi(Side::Right, Listed::UNMATCHED),
            (_, JoinType::LeftMark | JoinType::RightMark) => {
                internal_err!("a similarity join cannot be a mark join")
            }
            (Need::Connections, _) => {
                Ok(Self { pairs: PairSink::Output, listed, counts: false, connects: true })
            }
            (Need::Rows, _) => {
                Ok(Self { pairs: PairSink::Output, listed, counts: false, connects: false })
            }
            (Need::Counts(Some(side)), _) if side != probe => {
                internal_err!("counts per {side} row need the {side} side to probe")
            }
            (Need::Counts(None), JoinType::Inner) => {
                Ok(Self { pairs: PairSink::Total, listed, counts: false, connects: false })
            }
            (Need::Counts(_), _) => {
                listed[probe as usize].matched = true;
                Ok(Self { pairs: PairSink::Rows, listed, counts: true, connects: false })
            }
        }
    }

    /// Whether one match of a row of this side will do.
    pub(crate) fn needs_one_match_of(&self, side: Side) -> bool {
        self.pairs == PairSink::Rows && !self.counts && self.listed[side as usize].any()
    }

    /// The name in EXPLAIN.
    pub(crate) fn name(&self) -> &'static str {
        match self.pairs {
            PairSink::Output if self.connects => "connections",
            PairSink::Output => "pairs",
            PairSink::Total => "count",
            PairSink::Rows if self.counts => "counts per row",
            PairSink::Rows if self.listed.contains(&Listed::MATCHED) => "rows with a match",
            PairSink::Rows => "rows without a match",
        }
    }
}
