//! The protobuf messages of the operators.
//!
//! A change of any of them is a change of [`super::FORMAT`].

use datafusion::common::JoinType;
use datafusion_proto::protobuf::{PhysicalExprNode, Schema};
use prost::{Enumeration, Message, Oneof};

/// The version, which tells whether the rest can be read; its own tags never change their meaning.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Envelope {
    #[prost(uint32, tag = "1")]
    pub format: u32,
    /// The version of this crate.
    #[prost(string, tag = "2")]
    pub version: String,
    /// An [`OperatorMessage`].
    #[prost(bytes = "vec", tag = "3")]
    pub operator: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorMessage {
    #[prost(oneof = "OperatorKind", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub kind: Option<OperatorKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum OperatorKind {
    #[prost(message, tag = "1")]
    Join(Box<JoinNode>),
    #[prost(message, tag = "2")]
    Declined(DeclinedNode),
    #[prost(message, tag = "3")]
    AxisHistogram(Box<AxisHistogramNode>),
    #[prost(message, tag = "4")]
    AxisGrid(Box<AxisGridNode>),
    #[prost(message, tag = "5")]
    JoinParts(JoinPartsNode),
    #[prost(message, tag = "6")]
    Results(ResultsNode),
    #[prost(message, tag = "7")]
    Nearest(Box<NearestJoinNode>),
    #[prost(message, tag = "8")]
    BestPairs(Box<BestPairsNode>),
}

/// A [`BestPairsExec`](datafusion_simjoin::nearest::BestPairsExec).
#[derive(Clone, PartialEq, Message)]
pub(super) struct BestPairsNode {
    /// The join with all its pairs.
    #[prost(message, required, tag = "1")]
    pub join: JoinNode,
    /// Not of a one-to-one match.
    #[prost(uint64, tag = "2")]
    pub count: u64,
    /// The side whose rows have so many pairs each; none for the first pairs of all.
    #[prost(enumeration = "SideNode", optional, tag = "3")]
    pub side: Option<i32>,
    #[prost(bool, tag = "4")]
    pub any_tie: bool,
    /// The columns that decide among ties.
    #[prost(message, repeated, tag = "5")]
    pub ties: Vec<TieColumnNode>,
    /// The columns of a one-to-one match.
    #[prost(message, optional, tag = "6")]
    pub nodes: Option<MatchedNodesNode>,
}

/// The columns of the output with the left and the right node of a pair.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MatchedNodesNode {
    #[prost(uint64, tag = "1")]
    pub left: u64,
    #[prost(uint64, tag = "2")]
    pub right: u64,
}

/// A [`TieColumn`](datafusion_simjoin::spec::TieColumn).
#[derive(Clone, PartialEq, Message)]
pub(super) struct TieColumnNode {
    #[prost(uint64, tag = "1")]
    pub column: u64,
    #[prost(bool, tag = "2")]
    pub descending: bool,
    #[prost(bool, tag = "3")]
    pub nulls_first: bool,
}

/// A [`SetSimilarityJoinExec`](datafusion_simjoin::exec::SetSimilarityJoinExec) without its inputs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct JoinNode {
    #[prost(message, required, tag = "1")]
    pub input: JoinInputNode,
    #[prost(message, required, tag = "2")]
    pub join: SimilarityJoinNode,
    #[prost(message, required, tag = "3")]
    pub mode: JoinModeNode,
    /// Why this mode.
    #[prost(string, optional, tag = "4")]
    pub reason: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub options: Vec<OptionNode>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct JoinInputNode {
    #[prost(oneof = "JoinInputKind", tags = "1, 2")]
    pub kind: Option<JoinInputKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum JoinInputKind {
    #[prost(message, tag = "1")]
    Two(TwoInputsNode),
    /// One input that is both sides: the partitions of the output.
    #[prost(uint64, tag = "2")]
    Itself(u64),
}

/// Two inputs: the side that is built, and the fewest partitions of the output.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TwoInputsNode {
    #[prost(enumeration = "SideNode", tag = "1")]
    pub build: i32,
    #[prost(uint64, tag = "2")]
    pub partitions: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct JoinModeNode {
    #[prost(oneof = "JoinModeKind", tags = "1, 2, 3, 4, 5")]
    pub kind: Option<JoinModeKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum JoinModeKind {
    #[prost(message, tag = "1")]
    Shared(Nothing),
    #[prost(message, tag = "2")]
    Single(Nothing),
    #[prost(message, tag = "3")]
    Broadcast(Nothing),
    /// The blocking keys by which the inputs are partitioned.
    #[prost(uint64, tag = "4")]
    Partitioned(u64),
    #[prost(uint64, tag = "5")]
    Mirrored(u64),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Nothing {}

/// An option of the session as it was when the join was planned.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OptionNode {
    /// Without the prefix `simjoin.`.
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A [`SimilarityJoin`](datafusion_simjoin::spec::SimilarityJoin).
#[derive(Clone, PartialEq, Message)]
pub(super) struct SimilarityJoinNode {
    #[prost(message, required, tag = "1")]
    pub predicate: PredicateNode,
    #[prost(string, tag = "3")]
    pub text: String,
    #[prost(enumeration = "JoinTypeNode", tag = "4")]
    pub join_type: i32,
    #[prost(message, required, tag = "5")]
    pub left_argument: PhysicalExprNode,
    #[prost(message, required, tag = "6")]
    pub right_argument: PhysicalExprNode,
    #[prost(message, repeated, tag = "7")]
    pub on: Vec<KeyPairNode>,
    #[prost(bool, tag = "8")]
    pub nulls_are_equal: bool,
    #[prost(message, optional, tag = "9")]
    pub left_filter: Option<PhysicalExprNode>,
    #[prost(message, optional, tag = "10")]
    pub right_filter: Option<PhysicalExprNode>,
    #[prost(message, optional, tag = "11")]
    pub residual: Option<ResidualNode>,
    #[prost(message, required, tag = "12")]
    pub need: NeedNode,
    #[prost(message, repeated, tag = "13")]
    pub output: Vec<OutputColumnNode>,
    #[prost(message, required, tag = "14")]
    pub schema: Schema,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CallNode {
    #[prost(string, tag = "1")]
    pub family: String,
    #[prost(string, tag = "2")]
    pub function: String,
    #[prost(enumeration = "SideNode", tag = "3")]
    pub first: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PredicateNode {
    #[prost(message, required, tag = "1")]
    pub call: CallNode,
    /// The bits of the bound, which may be NaN.
    #[prost(fixed64, tag = "2")]
    pub bound: u64,
    /// Whether a score that is NaN is as NULL.
    #[prost(bool, tag = "3")]
    pub nan_is_null: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyPairNode {
    #[prost(message, required, tag = "1")]
    pub left: PhysicalExprNode,
    #[prost(message, required, tag = "2")]
    pub right: PhysicalExprNode,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResidualNode {
    #[prost(message, required, tag = "1")]
    pub expression: PhysicalExprNode,
    #[prost(message, repeated, tag = "2")]
    pub columns: Vec<OutputColumnNode>,
    #[prost(message, required, tag = "3")]
    pub schema: Schema,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NeedNode {
    #[prost(oneof = "NeedKind", tags = "1, 2, 3, 4, 5")]
    pub kind: Option<NeedKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum NeedKind {
    #[prost(message, tag = "1")]
    Rows(Nothing),
    #[prost(message, tag = "2")]
    Counts(Nothing),
    #[prost(enumeration = "SideNode", tag = "3")]
    CountsPerRow(i32),
    #[prost(message, tag = "4")]
    Connections(Nothing),
    #[prost(message, tag = "5")]
    Firsts(Nothing),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OutputColumnNode {
    #[prost(oneof = "OutputColumnKind", tags = "1, 2, 3, 4, 5")]
    pub kind: Option<OutputColumnKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum OutputColumnKind {
    #[prost(message, tag = "1")]
    Input(ColumnNode),
    #[prost(message, tag = "2")]
    Score(CallNode),
    #[prost(message, tag = "3")]
    CountRows(Nothing),
    #[prost(enumeration = "SideNode", tag = "4")]
    CountMatched(i32),
    #[prost(message, tag = "5")]
    CountNonNull(ColumnNode),
}

/// A column of one side's input.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ColumnNode {
    #[prost(enumeration = "SideNode", tag = "1")]
    pub side: i32,
    #[prost(uint64, tag = "2")]
    pub index: u64,
}

/// A [`SimilarityJoinDeclinedExec`](datafusion_simjoin::plan::SimilarityJoinDeclinedExec) without its input.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DeclinedNode {
    #[prost(string, tag = "1")]
    pub reason: String,
}

/// A [`JoinPartsExec`](datafusion_simjoin::exec::JoinPartsExec) without its input.
#[derive(Clone, PartialEq, Message)]
pub(super) struct JoinPartsNode {}

/// A [`AxisGridExec`](datafusion_simjoin::internals::shuffle::AxisGridExec) without its inputs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AxisGridNode {
    #[prost(message, required, tag = "1")]
    pub rows: PlacedRowsNode,
    #[prost(message, required, tag = "2")]
    pub predicate: PredicateNode,
    #[prost(uint64, tag = "4")]
    pub tasks: u64,
    #[prost(bool, tag = "5")]
    pub left_visits_once: bool,
    #[prost(bool, tag = "6")]
    pub right_visits_once: bool,
    #[prost(enumeration = "GridPairsNode", tag = "7")]
    pub pairs: i32,
}

/// A [`GridPairs`](datafusion_simjoin::internals::shuffle::GridPairs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum GridPairsNode {
    All = 0,
    Within = 1,
    Across = 2,
}

/// A [`AxisHistogramExec`](datafusion_simjoin::internals::shuffle::AxisHistogramExec) without its input.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AxisHistogramNode {
    #[prost(message, required, tag = "1")]
    pub rows: PlacedRowsNode,
    #[prost(uint64, tag = "2")]
    pub times: u64,
}

/// A [`PlacedRows`](datafusion_simjoin::internals::shuffle::PlacedRows).
#[derive(Clone, PartialEq, Message)]
pub(super) struct PlacedRowsNode {
    #[prost(enumeration = "SideNode", tag = "1")]
    pub side: i32,
    #[prost(message, required, tag = "2")]
    pub argument: PhysicalExprNode,
    #[prost(message, repeated, tag = "3")]
    pub keys: Vec<PhysicalExprNode>,
    #[prost(bool, tag = "4")]
    pub nulls_are_equal: bool,
    #[prost(message, optional, tag = "5")]
    pub filter: Option<PhysicalExprNode>,
    #[prost(string, tag = "6")]
    pub family: String,
    #[prost(message, required, tag = "7")]
    pub predicate: PredicateNode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum SideNode {
    Unspecified = 0,
    Left = 1,
    Right = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum JoinTypeNode {
    Unspecified = 0,
    Inner = 1,
    Left = 2,
    Right = 3,
    Full = 4,
    LeftSemi = 5,
    RightSemi = 6,
    LeftAnti = 7,
    RightAnti = 8,
}

impl JoinTypeNode {
    /// The join types that the operator has.
    pub(super) const PAIRS: [(Self, JoinType); 8] = [
        (Self::Inner, JoinType::Inner),
        (Self::Left, JoinType::Left),
        (Self::Right, JoinType::Right),
        (Self::Full, JoinType::Full),
        (Self::LeftSemi, JoinType::LeftSemi),
        (Self::RightSemi, JoinType::RightSemi),
        (Self::LeftAnti, JoinType::LeftAnti),
        (Self::RightAnti, JoinType::RightAnti),
    ];
}

/// A [`NearestJoinExec`](datafusion_simjoin::nearest::NearestJoinExec) without its inputs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NearestJoinNode {
    #[prost(message, required, tag = "1")]
    pub input: JoinInputNode,
    #[prost(message, repeated, tag = "2")]
    pub options: Vec<OptionNode>,
    #[prost(uint64, tag = "3")]
    pub count: u64,
    #[prost(bool, tag = "4")]
    pub with_ties: bool,
    #[prost(bool, tag = "5")]
    pub is_distance: bool,
    #[prost(string, tag = "6")]
    pub text: String,
    #[prost(enumeration = "JoinTypeNode", tag = "7")]
    pub join_type: i32,
    #[prost(message, optional, tag = "8")]
    pub score: Option<ResidualNode>,
    #[prost(message, repeated, tag = "9")]
    pub on: Vec<KeyPairNode>,
    #[prost(bool, tag = "10")]
    pub nulls_are_equal: bool,
    #[prost(message, optional, tag = "11")]
    pub left_filter: Option<PhysicalExprNode>,
    #[prost(message, optional, tag = "12")]
    pub right_filter: Option<PhysicalExprNode>,
    #[prost(message, optional, tag = "13")]
    pub condition: Option<ResidualNode>,
    #[prost(message, optional, tag = "14")]
    pub search: Option<SearchNode>,
    #[prost(message, repeated, tag = "15")]
    pub output: Vec<OutputColumnNode>,
    #[prost(message, required, tag = "16")]
    pub schema: Schema,
    #[prost(bool, tag = "17")]
    pub shares_left_rows: bool,
    #[prost(uint64, optional, tag = "18")]
    pub fetch: Option<u64>,
    #[prost(message, repeated, tag = "19")]
    pub rounds: Vec<SearchRoundNode>,
}

/// A [`SearchRound`](datafusion_simjoin::spec::SearchRound).
#[derive(Clone, PartialEq, Message)]
pub(super) struct SearchRoundNode {
    #[prost(double, optional, tag = "1")]
    pub threshold: Option<f64>,
    #[prost(message, repeated, tag = "2")]
    pub drivers: Vec<SearchDriverNode>,
}

/// A [`SearchDriver`](datafusion_simjoin::spec::SearchDriver): a search, or a pair of keys.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SearchDriverNode {
    #[prost(message, optional, tag = "1")]
    pub search: Option<SearchNode>,
    #[prost(message, optional, tag = "2")]
    pub best: Option<PhysicalExprNode>,
    #[prost(message, optional, tag = "3")]
    pub keys: Option<KeyPairNode>,
    #[prost(message, required, tag = "4")]
    pub score: ResidualNode,
    #[prost(message, optional, tag = "5")]
    pub unmet: Option<ResidualNode>,
}

/// A [`Search`](datafusion_simjoin::spec::Search).
#[derive(Clone, PartialEq, Message)]
pub(super) struct SearchNode {
    #[prost(message, required, tag = "1")]
    pub predicate: PredicateNode,
    #[prost(message, required, tag = "2")]
    pub left_argument: PhysicalExprNode,
    #[prost(message, required, tag = "3")]
    pub right_argument: PhysicalExprNode,
    #[prost(message, optional, tag = "4")]
    pub residual: Option<ResidualNode>,
}

/// An operator over pairs without its input.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResultsNode {
    #[prost(enumeration = "ResultsKind", tag = "1")]
    pub kind: i32,
    /// The partitions that components are united of; 0 for other operators.
    #[prost(enumeration = "MergeNode", tag = "2")]
    pub merge: i32,
    /// The columns of the output, of components those of the last merge.
    #[prost(message, optional, tag = "3")]
    pub schema: Option<Schema>,
    /// Whether a lesser score is better.
    #[prost(bool, tag = "4")]
    pub is_distance: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum ResultsKind {
    Components = 0,
    Representatives = 1,
    OneToOne = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum MergeNode {
    Process = 0,
    Single = 1,
    Partial = 2,
}
