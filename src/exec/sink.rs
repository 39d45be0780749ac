//! The sink of a join: what its matches become, decided when the join is laid out.

use datafusion::common::{JoinType, Result, internal_err};

use crate::engine::Orders;
use crate::spec::{Need, Preserved, Side, SimilarityJoin};

/// The use of matches: for the pairs of rows that match, and for the rows of each side.
///
/// | join | pairs of rows | rows that are listed one by one |
/// |---|---|---|
/// | inner, outer | to the output | rows of a preserved side without a match |
/// | semi, anti | mark their rows | rows of the side with a match, or without one |
/// | counts per row | count for their rows | probe rows with a match, and as in an outer join |
/// | a total | are added up | none |
/// | connections | to the output, where they connect anew | as in an outer join |
/// | firsts | to the output, where the lesser row is the first of its item | as in an outer join |
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
}

/// The use of a pair of rows that match, besides marks and counts of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairSink {
    /// A row of the output.
    Output,
    /// A row of the output, where it connects what no pair before it has connected.
    Connections,
    /// A row of the output, where the lesser row by the row order is the first one of its item. Every pair
    /// is one where rows have no distinct ranks, and where two parts of the input are joined.
    Firsts,
    /// One more in the total of all pairs.
    Total,
    /// Nothing: rows are listed by their marks and counts.
    Rows,
}

impl PairSink {
    /// Whether pairs become rows of the output.
    pub(crate) fn is_output(self) -> bool {
        matches!(self, Self::Output | Self::Connections | Self::Firsts)
    }
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
    /// Decides for a join whose probe side is `probe`, and which gives pairs in these orders.
    ///
    /// # Errors
    ///
    /// When the answer is one that no operator with this probe side gives.
    pub(crate) fn of(join: &SimilarityJoin, probe: Side, orders: Orders) -> Result<Self> {
        let of_semi = |side: Side, listed| {
            let mut sink = Self { pairs: PairSink::Rows, listed: [Listed::NONE; 2], counts: false };
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
                if orders != Orders::Given && listed.iter().any(|side| side.any()) {
                    // A partition meets a pair in one order, and does not know of its row that is listed
                    // whether it has a pair. All rows are listed, which connects nothing more: the join of
                    // a part of the input with itself lists the rows of the part.
                    listed = [Listed::NONE; 2];
                    if orders == Orders::Unordered {
                        listed[probe.other() as usize] = Listed::UNMATCHED;
                    }
                }
                Ok(Self { pairs: PairSink::Connections, listed, counts: false })
            }
            (Need::Nearest(_), _) => {
                internal_err!("a similarity join finds no nearest rows by itself")
            }
            (Need::Best(_), _) => {
                internal_err!("a similarity join does not raise its bound by itself")
            }
            (Need::Rows, _) => Ok(Self { pairs: PairSink::Output, listed, counts: false }),
            (Need::Firsts, _) => Ok(Self { pairs: PairSink::Firsts, listed, counts: false }),
            (Need::Counts(Some(side)), _) if side != probe => {
                internal_err!("counts per {side} row need the {side} side to probe")
            }
            (Need::Counts(None), JoinType::Inner) => {
                Ok(Self { pairs: PairSink::Total, listed, counts: false })
            }
            (Need::Counts(_), _) => {
                listed[probe as usize].matched = true;
                Ok(Self { pairs: PairSink::Rows, listed, counts: true })
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
            PairSink::Output => "pairs",
            PairSink::Connections => "connections",
            PairSink::Firsts => "pairs of first rows",
            PairSink::Total => "count",
            PairSink::Rows if self.counts => "counts per row",
            PairSink::Rows if self.listed.contains(&Listed::MATCHED) => "rows with a match",
            PairSink::Rows => "rows without a match",
        }
    }
}
