//! Joins with nearest rows in the logical plan of a statement.

use std::sync::Arc;

use datafusion::common::{DataFusionError, JoinType, Result, exec_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::logical_plan::from_proto::parse_expr;
use datafusion_proto::logical_plan::to_proto::serialize_expr;
use datafusion_proto::protobuf::LogicalExprNode;
use prost::Message;

use datafusion_simjoin::plan::{ClauseWords, NearestNode};

/// The first bytes. A protobuf message begins with a tag, which is never 0.
const MARK: &[u8] = b"\0simjoin nearest";

#[derive(Clone, PartialEq, Message)]
struct NearestMessage {
    #[prost(bool, tag = "1")]
    is_outer: bool,
    #[prost(bool, tag = "2")]
    insists: bool,
    #[prost(bool, tag = "3")]
    with_ties: bool,
    #[prost(bool, tag = "4")]
    is_distance: bool,
    #[prost(message, required, tag = "5")]
    count: LogicalExprNode,
    #[prost(message, required, tag = "6")]
    score: LogicalExprNode,
    #[prost(message, optional, tag = "7")]
    condition: Option<LogicalExprNode>,
}

fn as_error(error: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::Internal(format!("a join with nearest rows as bytes: {error}"))
}

/// Writes a node; `false` where it is another one.
pub(super) fn write(
    node: &Extension,
    buf: &mut Vec<u8>,
    codec: &dyn LogicalExtensionCodec,
) -> Result<bool> {
    let Some(node) = node.node.as_any().downcast_ref::<NearestNode>() else { return Ok(false) };
    let expression = |expr: &Expr| serialize_expr(expr, codec).map_err(as_error);
    let message = NearestMessage {
        is_outer: node.join_type == JoinType::Left,
        insists: node.words.insists,
        with_ties: node.words.with_ties,
        is_distance: node.words.is_distance,
        count: expression(&node.count)?,
        score: expression(&node.score)?,
        condition: node.condition.as_ref().map(expression).transpose()?,
    };
    buf.extend_from_slice(MARK);
    message.encode(buf).map_err(as_error)?;
    Ok(true)
}

/// Reads what [`write`] wrote; `None` where the bytes are of another node.
pub(super) fn read(
    buf: &[u8],
    inputs: &[LogicalPlan],
    ctx: &TaskContext,
    codec: &dyn LogicalExtensionCodec,
) -> Result<Option<Extension>> {
    let Some(bytes) = buf.strip_prefix(MARK) else { return Ok(None) };
    let message = match NearestMessage::decode(bytes) {
        Ok(message) => message,
        Err(e) => return exec_err!("the bytes of a join with nearest rows cannot be read: {e}"),
    };
    let [left, right] = inputs else {
        return internal_err!("a join with nearest rows has two inputs");
    };
    let expression = |node: &LogicalExprNode| parse_expr(node, ctx, codec).map_err(as_error);
    let node = NearestNode::try_new(
        [Arc::new(left.clone()), Arc::new(right.clone())],
        if message.is_outer { JoinType::Left } else { JoinType::Inner },
        ClauseWords {
            insists: message.insists,
            with_ties: message.with_ties,
            is_distance: message.is_distance,
        },
        expression(&message.count)?,
        expression(&message.score)?,
        message.condition.as_ref().map(expression).transpose()?,
    )?;
    Ok(Some(Extension { node: Arc::new(node) }))
}
