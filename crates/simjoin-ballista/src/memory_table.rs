//! Tables that live in a client's memory, as part of its statements.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::catalog::TableProvider;
use datafusion::common::{
    Result, TableReference, exec_datafusion_err, exec_err, internal_datafusion_err, not_impl_err,
    plan_err,
};
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, Extension, LogicalPlan, ScalarUDF, WindowUDF};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use prost::Message;

use super::{nearest_node, pairs_node};

/// The greatest table in memory that travels with a statement, in bytes.
const MAX_TABLE_BYTES: usize = 8 << 20;

/// The first bytes of a table.
const MARK: &[u8] = b"\0simjoin table";

/// Sends small tables of a client's memory (`CREATE TABLE … AS`) along with the statements that
/// read them, table functions over pairs and joins with nearest rows; leaves all else to the codec inside.
///
/// Files are better: a table travels again with each statement, whole.
#[derive(Debug)]
pub struct SimJoinLogicalCodec {
    inner: Arc<dyn LogicalExtensionCodec>,
}

impl SimJoinLogicalCodec {
    /// A codec around `inner`.
    pub fn new(inner: Arc<dyn LogicalExtensionCodec>) -> Self {
        Self { inner }
    }
}

impl LogicalExtensionCodec for SimJoinLogicalCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[LogicalPlan],
        ctx: &TaskContext,
    ) -> Result<Extension> {
        if let Some(node) = pairs_node::read(buf, inputs)? {
            return Ok(node);
        }
        match nearest_node::read(buf, inputs, ctx, self)? {
            Some(node) => Ok(node),
            None => self.inner.try_decode(buf, inputs, ctx),
        }
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        match pairs_node::write(node, buf)? || nearest_node::write(node, buf, self)? {
            true => Ok(()),
            false => self.inner.try_encode(node, buf),
        }
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table_ref: &TableReference,
        schema: SchemaRef,
        ctx: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match buf.strip_prefix(MARK) {
            Some(bytes) => Ok(Arc::new(read(bytes, schema)?)),
            None => self.inner.try_decode_table_provider(buf, table_ref, schema, ctx),
        }
    }

    fn try_encode_table_provider(
        &self,
        table_ref: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some(table) = node.downcast_ref::<MemTable>() {
            buf.extend_from_slice(MARK);
            return write(table, table_ref, buf);
        }
        if self.inner.try_encode_table_provider(table_ref, node, buf).is_ok() {
            return Ok(());
        }
        not_impl_err!(
            "the table {table_ref} cannot be sent to a cluster, which reads files and small tables \
             in memory; keep its rows with CREATE TABLE … AS SELECT * FROM {table_ref}, or write \
             them to a file with COPY"
        )
    }

    fn try_decode_file_format(
        &self,
        buf: &[u8],
        ctx: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.inner.try_decode_file_format(buf, ctx)
    }

    fn try_encode_file_format(
        &self,
        buf: &mut Vec<u8>,
        node: Arc<dyn FileFormatFactory>,
    ) -> Result<()> {
        self.inner.try_encode_file_format(buf, node)
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.inner.try_decode_udf(name, buf)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udf(node, buf)
    }

    fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.inner.try_decode_udaf(name, buf)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udaf(node, buf)
    }

    fn try_decode_udwf(&self, name: &str, buf: &[u8]) -> Result<Arc<WindowUDF>> {
        self.inner.try_decode_udwf(name, buf)
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udwf(node, buf)
    }
}

/// A table's partitions, each a stream of Arrow's.
#[derive(Clone, PartialEq, Message)]
struct TableNode {
    #[prost(bytes = "vec", repeated, tag = "1")]
    partitions: Vec<Vec<u8>>,
}

fn write(table: &MemTable, name: &TableReference, buf: &mut Vec<u8>) -> Result<()> {
    let mut node = TableNode { partitions: vec![] };
    let mut bytes = 0;
    for partition in &table.batches {
        let Ok(batches) = partition.try_read() else {
            return exec_err!("the table {name} is being written to; run the statement again");
        };
        let mut writer = StreamWriter::try_new(vec![], &table.schema())?;
        for batch in batches.iter() {
            writer.write(batch)?;
            if bytes + writer.get_ref().len() > MAX_TABLE_BYTES {
                return plan_err!(
                    "the table {name} lives in this session's memory and has more than the {} MiB \
                     that travel to a cluster with a statement; write it to a file that every node \
                     sees, with COPY {name} TO 'file.parquet' in a session without --scheduler, and \
                     read that",
                    MAX_TABLE_BYTES >> 20
                );
            }
        }
        let stream = writer.into_inner()?;
        bytes += stream.len();
        node.partitions.push(stream);
    }
    node.encode(buf).map_err(|e| internal_datafusion_err!("the table {name} as bytes: {e}"))
}

fn read(bytes: &[u8], schema: SchemaRef) -> Result<MemTable> {
    let node = TableNode::decode(bytes)
        .map_err(|e| exec_datafusion_err!("the bytes of a table cannot be read: {e}"))?;
    let partitions = node
        .partitions
        .iter()
        .map(|stream| {
            let reader = StreamReader::try_new(stream.as_slice(), None)?;
            Ok(reader.collect::<Result<Vec<RecordBatch>, _>>()?)
        })
        .collect::<Result<_>>()?;
    MemTable::try_new(schema, partitions)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, ListArray};
    use arrow::datatypes::Int32Type;
    use datafusion::prelude::SessionContext;
    use datafusion_proto::logical_plan::DefaultLogicalExtensionCodec;

    use super::*;

    fn codec() -> SimJoinLogicalCodec {
        SimJoinLogicalCodec::new(Arc::new(DefaultLogicalExtensionCodec {}))
    }

    fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
        let lists = ids.clone().map(|id| Some(vec![Some(id as i32), None]));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
        RecordBatch::try_from_iter([("id", ids), ("toks", lists)]).unwrap()
    }

    fn sent(table: MemTable) -> Result<Arc<dyn TableProvider>> {
        let (name, schema) = (TableReference::bare("t"), table.schema());
        let mut bytes = vec![];
        codec().try_encode_table_provider(&name, Arc::new(table), &mut bytes)?;
        let ctx = SessionContext::new().task_ctx();
        codec().try_decode_table_provider(&bytes, &name, schema, ctx.as_ref())
    }

    #[test]
    fn a_table_arrives_with_its_partitions() {
        let parts = vec![vec![batch(0..3), batch(3..4)], vec![], vec![batch(4..9)]];
        let table = MemTable::try_new(parts[0][0].schema(), parts.clone()).unwrap();
        let back = sent(table).unwrap();
        let back = back.downcast_ref::<MemTable>().unwrap();
        let found: Vec<_> = back.batches.iter().map(|p| p.try_read().unwrap().clone()).collect();
        assert_eq!(found, parts);
    }

    #[test]
    fn a_large_table_is_refused_with_what_to_do() {
        let rows = MAX_TABLE_BYTES as i64 / 8;
        let batch = batch(0..rows);
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        let error = sent(table).unwrap_err().to_string();
        assert!(error.contains("COPY t TO 'file.parquet'"), "{error}");
    }

    #[test]
    fn other_tables_are_refused_with_what_works() {
        let table = datafusion::datasource::empty::EmptyTable::new(batch(0..1).schema());
        let mut bytes = vec![];
        let name = TableReference::bare("t");
        let result = codec().try_encode_table_provider(&name, Arc::new(table), &mut bytes);
        let error = result.unwrap_err().to_string();
        assert!(error.contains("CREATE TABLE"), "{error}");
    }
}
