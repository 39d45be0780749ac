//! The operators of this crate as bytes, for plans that travel to other processes.
//!
//! A plan reaches an executor as protobuf. DataFusion writes its own operators, Ballista those
//! that it puts between stages, and [`SimJoinPhysicalCodec`] those of this crate; it wraps the
//! codec that comes next. Expressions inside are written by DataFusion, functions by their name.
//! Thresholds travel as bits, so that a NaN or the last place of `t*` survives.
//!
//! The bytes begin with a mark that no protobuf message begins with, and name the version of this
//! crate. Processes of different versions could divide a join differently and lose pairs: bytes of
//! another version are refused, with both versions in the error.
//!
//! Statements and joins need no codec in *logical* plans: the operator is planned by the scheduler, and
//! until then a similarity join is a plain join of SQL. Table functions over pairs and joins with
//! nearest rows are nodes of the logical plan, which [`SimJoinLogicalCodec`](super::SimJoinLogicalCodec) writes.

mod grid;
mod join;
mod messages;
mod nearest;
mod results;
mod rounds;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{Result, exec_err, internal_datafusion_err, internal_err, plan_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{PhysicalExprNode, Schema as SchemaNode};
use messages::{DeclinedNode, Envelope, JoinPartsNode, OperatorKind, OperatorMessage};
use prost::Message;

use datafusion_simjoin::Families;
use datafusion_simjoin::exec::{JoinPartsExec, SetSimilarityJoinExec};
use datafusion_simjoin::families;
use datafusion_simjoin::functions;
use datafusion_simjoin::internals::shuffle::{AxisGridExec, AxisHistogramExec};
use datafusion_simjoin::nearest::{BestPairsExec, NearestJoinExec};
use datafusion_simjoin::plan::{SimilarityJoinDeclinedExec, internal_functions};
use simjoin_files::{Pipes, watch_plan};

/// The version of the messages. It grows with every change of them.
const FORMAT: u32 = 11;

/// The first bytes. A protobuf message begins with a tag, which is never 0: a process
/// that does not know this codec fails at the first byte.
const MARK: &[u8] = b"\0simjoin";

/// Reads and writes the operators of this crate, and leaves all others to the codec inside.
///
/// Hand it to a scheduler and its executors, around the codec that they have. See
/// [the crate](crate) for a whole program.
///
/// ```
/// use std::sync::Arc;
/// use ballista_core::serde::BallistaPhysicalExtensionCodec;
/// use simjoin_ballista::SimJoinPhysicalCodec;
///
/// let codec = SimJoinPhysicalCodec::new(Arc::new(BallistaPhysicalExtensionCodec::default()));
/// # let _ = codec;
/// ```
pub struct SimJoinPhysicalCodec {
    inner: Arc<dyn PhysicalExtensionCodec>,
    families: Families,
    /// Where plans run: their scans are watched then, so that errors of readers name the file.
    watched: Option<Arc<Pipes>>,
}

impl SimJoinPhysicalCodec {
    /// A codec around `inner`, for joins by the functions of [`families`].
    pub fn new(inner: Arc<dyn PhysicalExtensionCodec>) -> Self {
        Self::with_families(inner, families())
    }

    /// A codec with other families.
    pub(crate) fn with_families(
        inner: Arc<dyn PhysicalExtensionCodec>,
        families: Families,
    ) -> Self {
        Self { inner, families, watched: None }
    }

    /// The codec of a process that runs the plans that it reads, and sends none of them on.
    pub(crate) fn watching_files(self) -> Self {
        Self { watched: Some(Arc::new(Pipes::of_others())), ..self }
    }
}

impl fmt::Debug for SimJoinPhysicalCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimJoinPhysicalCodec").field("inner", &self.inner).finish()
    }
}

impl PhysicalExtensionCodec for SimJoinPhysicalCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(envelope) = buf.strip_prefix(MARK) else {
            let Some(pipes) = &self.watched else {
                return self.inner.try_decode(buf, inputs, ctx, proto_converter);
            };
            // Above every scan is an operator of Ballista, which writes its rows.
            let inputs = inputs.iter().map(|input| watch_plan(Arc::clone(input), pipes));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            return self.inner.try_decode(buf, &inputs, ctx, proto_converter);
        };
        let reader = NodeReader {
            families: &self.families,
            context: PhysicalPlanDecodeContext::new(ctx, self),
            converter: proto_converter,
        };
        match open(envelope)? {
            OperatorKind::Join(node) => Ok(Arc::new(join::read(*node, inputs, &reader)?)),
            OperatorKind::BestPairs(node) => {
                Ok(Arc::new(join::read_best_pairs(*node, inputs, &reader)?))
            }
            OperatorKind::AxisHistogram(node) => {
                Ok(Arc::new(grid::read_histogram(*node, inputs, &reader)?))
            }
            OperatorKind::AxisGrid(node) => Ok(Arc::new(grid::read(*node, inputs, &reader)?)),
            OperatorKind::JoinParts(JoinPartsNode {}) => {
                let [input] = inputs else {
                    return internal_err!("JoinPartsExec has one input");
                };
                Ok(Arc::new(JoinPartsExec::over(Arc::clone(input))))
            }
            OperatorKind::Declined(DeclinedNode { reason }) => {
                let [input] = inputs else {
                    return internal_err!("SimilarityJoinDeclined has one input");
                };
                Ok(Arc::new(SimilarityJoinDeclinedExec::new(Arc::clone(input), reason)))
            }
            OperatorKind::Nearest(node) => Ok(Arc::new(nearest::read(*node, inputs, &reader)?)),
            OperatorKind::Results(node) => results::read(&node, inputs, &reader),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let writer = Writer { codec: self, converter: proto_converter };
        let kind = if let Some(node) = node.downcast_ref::<SetSimilarityJoinExec>() {
            OperatorKind::Join(Box::new(join::write(node, &writer)?))
        } else if let Some(node) = node.downcast_ref::<BestPairsExec>() {
            OperatorKind::BestPairs(Box::new(join::write_best_pairs(node, &writer)?))
        } else if let Some(node) = node.downcast_ref::<AxisHistogramExec>() {
            OperatorKind::AxisHistogram(Box::new(grid::write_histogram(node, &writer)?))
        } else if let Some(node) = node.downcast_ref::<AxisGridExec>() {
            OperatorKind::AxisGrid(Box::new(grid::write(node, &writer)?))
        } else if node.is::<JoinPartsExec>() {
            OperatorKind::JoinParts(JoinPartsNode {})
        } else if let Some(node) = node.downcast_ref::<SimilarityJoinDeclinedExec>() {
            OperatorKind::Declined(DeclinedNode { reason: node.reason().to_string() })
        } else if let Some(node) = node.downcast_ref::<NearestJoinExec>() {
            OperatorKind::Nearest(Box::new(nearest::write(node, &writer)?))
        } else if let Some(node) = results::write(&node, &writer)? {
            OperatorKind::Results(node)
        } else {
            return self.inner.try_encode(node, buf, proto_converter);
        };
        seal(kind, env!("CARGO_PKG_VERSION"), FORMAT, buf)
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        // Names that the executor's registry does not have come here.
        let ours = || functions::all().into_iter().chain(internal_functions());
        match ours().find(|function| function.name() == name) {
            Some(function) => Ok(function),
            None => self.inner.try_decode_udf(name, buf),
        }
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udf(node, buf)
    }

    fn try_decode_higher_order_function(
        &self,
        name: &str,
        buf: &[u8],
    ) -> Result<Arc<HigherOrderUDF>> {
        self.inner.try_decode_higher_order_function(name, buf)
    }

    fn try_encode_higher_order_function(
        &self,
        node: &HigherOrderUDF,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        self.inner.try_encode_higher_order_function(node, buf)
    }

    fn try_decode_expr(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        ctx: &PhysicalExprDecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.inner.try_decode_expr(buf, inputs, ctx)
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buf: &mut Vec<u8>,
        ctx: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        self.inner.try_encode_expr(node, buf, ctx)
    }

    fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.inner.try_decode_udaf(name, buf)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udaf(node, buf)
    }

    fn try_decode_udwf(&self, name: &str, buf: &[u8]) -> Result<Arc<WindowUDF>> {
        match functions::windows().into_iter().find(|function| function.name() == name) {
            Some(function) => Ok(function),
            None => self.inner.try_decode_udwf(name, buf),
        }
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udwf(node, buf)
    }
}

/// Writes an operator with the versions that it is made by.
fn seal(kind: OperatorKind, version: &str, format: u32, buf: &mut Vec<u8>) -> Result<()> {
    let operator = OperatorMessage { kind: Some(kind) }.encode_to_vec();
    let envelope = Envelope { format, version: version.to_string(), operator };
    buf.extend_from_slice(MARK);
    envelope.encode(buf).map_err(|e| internal_datafusion_err!("a similarity join as bytes: {e}"))
}

/// Reads what [`seal`] wrote.
fn open(envelope: &[u8]) -> Result<OperatorKind> {
    let Envelope { format, version, operator } = match Envelope::decode(envelope) {
        Ok(envelope) => envelope,
        Err(e) => return exec_err!("the bytes of a similarity join cannot be read: {e}"),
    };
    let ours = env!("CARGO_PKG_VERSION");
    if (format, version.as_str()) != (FORMAT, ours) {
        return plan_err!(
            "this process has simjoin {ours} (plan format {FORMAT}), but the plan of the \
             similarity join was made by simjoin {version} (plan format {format}); run the same \
             version on the scheduler and on every executor"
        );
    }
    match OperatorMessage::decode(operator.as_slice()) {
        Ok(OperatorMessage { kind: Some(kind) }) => Ok(kind),
        Ok(OperatorMessage { kind: None }) => {
            internal_err!("bytes of an operator that is not known")
        }
        Err(e) => exec_err!("the bytes of a similarity join cannot be read: {e}"),
    }
}

/// Writes the expressions and schemas inside an operator.
struct Writer<'a> {
    codec: &'a dyn PhysicalExtensionCodec,
    converter: &'a dyn PhysicalProtoConverterExtension,
}

impl Writer<'_> {
    fn expression(&self, expression: &PhysicalExprRef) -> Result<PhysicalExprNode> {
        self.converter.physical_expr_to_proto(expression, self.codec)
    }

    fn optional(&self, expression: Option<&PhysicalExprRef>) -> Result<Option<PhysicalExprNode>> {
        expression.map(|e| self.expression(e)).transpose()
    }

    fn schema(&self, schema: &Schema) -> Result<SchemaNode> {
        Ok(SchemaNode::try_from(schema)?)
    }
}

/// Reads the expressions and schemas inside an operator.
struct NodeReader<'a> {
    families: &'a Families,
    context: PhysicalPlanDecodeContext<'a>,
    converter: &'a dyn PhysicalProtoConverterExtension,
}

impl NodeReader<'_> {
    fn expression(&self, node: &PhysicalExprNode, schema: &Schema) -> Result<PhysicalExprRef> {
        self.converter.proto_to_physical_expr(node, schema, &self.context)
    }

    fn optional(
        &self,
        node: Option<&PhysicalExprNode>,
        schema: &Schema,
    ) -> Result<Option<PhysicalExprRef>> {
        node.map(|e| self.expression(e, schema)).transpose()
    }

    fn schema(&self, node: &SchemaNode) -> Result<Arc<Schema>> {
        Ok(Arc::new(Schema::try_from(node)?))
    }
}
