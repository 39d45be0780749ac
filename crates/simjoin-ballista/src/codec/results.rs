//! Operators over pairs as bytes.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;

use super::messages::{MergeNode, ResultsKind, ResultsNode};
use super::{NodeReader, Writer};
use datafusion_simjoin::results::{
    ConnectedComponentsExec, Merge, OneToOneExec, RepresentativesExec,
};

/// The message of an operator over pairs; `None` for other operators.
pub(super) fn write(
    node: &Arc<dyn ExecutionPlan>,
    writer: &Writer<'_>,
) -> Result<Option<ResultsNode>> {
    let message = if let Some(node) = node.downcast_ref::<ConnectedComponentsExec>() {
        ResultsNode {
            kind: ResultsKind::Components.into(),
            merge: match node.merge() {
                Merge::Process => MergeNode::Process,
                Merge::Single => MergeNode::Single,
                Merge::Partial => MergeNode::Partial,
            }
            .into(),
            schema: Some(writer.schema(node.labels_schema())?),
            is_distance: false,
        }
    } else if let Some(node) = node.downcast_ref::<RepresentativesExec>() {
        ResultsNode {
            kind: ResultsKind::Representatives.into(),
            schema: Some(writer.schema(&node.schema())?),
            is_distance: node.is_distance(),
            ..ResultsNode::default()
        }
    } else if let Some(node) = node.downcast_ref::<OneToOneExec>() {
        ResultsNode {
            kind: ResultsKind::OneToOne.into(),
            is_distance: node.is_distance(),
            ..ResultsNode::default()
        }
    } else {
        return Ok(None);
    };
    Ok(Some(message))
}

pub(super) fn read(
    message: &ResultsNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &NodeReader<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else {
        return internal_err!("an operator over pairs has one input");
    };
    let input = Arc::clone(input);
    let schema = || match &message.schema {
        Some(schema) => reader.schema(schema),
        None => internal_err!("an operator over pairs has lost its schema"),
    };
    Ok(match message.kind() {
        ResultsKind::Components => {
            let merge = match message.merge() {
                MergeNode::Process => Merge::Process,
                MergeNode::Single => Merge::Single,
                MergeNode::Partial => Merge::Partial,
            };
            Arc::new(ConnectedComponentsExec::try_new(input, schema()?, merge)?)
        }
        ResultsKind::Representatives => {
            Arc::new(RepresentativesExec::try_new(input, schema()?, message.is_distance)?)
        }
        ResultsKind::OneToOne => Arc::new(OneToOneExec::try_new(input, message.is_distance)?),
    })
}
