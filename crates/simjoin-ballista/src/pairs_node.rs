//! Table functions over pairs in the logical plan of a statement.

use std::sync::Arc;

use datafusion::common::{Result, exec_err, internal_datafusion_err, internal_err};
use datafusion::logical_expr::{Extension, LogicalPlan};
use prost::{Enumeration, Message};

use datafusion_simjoin::plan::{PairFunction, PairsNode, ScoreOrder};

/// The first bytes. A protobuf message begins with a tag, which is never 0.
const MARK: &[u8] = b"\0simjoin pairs";

#[derive(Clone, PartialEq, Message)]
struct PairFunctionNode {
    #[prost(enumeration = "ResultKind", tag = "1")]
    kind: i32,
    #[prost(double, repeated, tag = "2")]
    thresholds: Vec<f64>,
    #[prost(bool, tag = "3")]
    is_distance: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
enum ResultKind {
    Components = 0,
    Representatives = 1,
    OneToOne = 2,
}

/// Writes a node; `false` where it is another one.
pub(super) fn write(node: &Extension, buf: &mut Vec<u8>) -> Result<bool> {
    let Some(node) = node.node.as_any().downcast_ref::<PairsNode>() else { return Ok(false) };
    let (kind, thresholds, order) = match node.function() {
        PairFunction::ConnectedComponents { thresholds, order } => {
            (ResultKind::Components, thresholds.clone(), order)
        }
        PairFunction::Representatives { order } => (ResultKind::Representatives, vec![], order),
        PairFunction::OneToOne { order } => (ResultKind::OneToOne, vec![], order),
    };
    let is_distance = *order == ScoreOrder::Distance;
    buf.extend_from_slice(MARK);
    let message = PairFunctionNode { kind: kind.into(), thresholds, is_distance };
    let written = message.encode(buf);
    written.map_err(|e| internal_datafusion_err!("a table function as bytes: {e}"))?;
    Ok(true)
}

/// Reads what [`write`] wrote; `None` where the bytes are of another node.
pub(super) fn read(buf: &[u8], inputs: &[LogicalPlan]) -> Result<Option<Extension>> {
    let Some(bytes) = buf.strip_prefix(MARK) else { return Ok(None) };
    let message = match PairFunctionNode::decode(bytes) {
        Ok(message) => message,
        Err(e) => return exec_err!("the bytes of a table function cannot be read: {e}"),
    };
    let order = if message.is_distance { ScoreOrder::Distance } else { ScoreOrder::Similarity };
    let kind = message.kind();
    let function = match kind {
        ResultKind::Components => {
            PairFunction::ConnectedComponents { thresholds: message.thresholds, order }
        }
        ResultKind::Representatives => PairFunction::Representatives { order },
        ResultKind::OneToOne => PairFunction::OneToOne { order },
    };
    let [input] = inputs else {
        return internal_err!("{} has one input", function.name());
    };
    let node = PairsNode::try_new(function, input.clone())?;
    Ok(Some(Extension { node: Arc::new(node) }))
}
