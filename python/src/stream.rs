//! Rows across the border, by Arrow's PyCapsule interface: no buffer is copied in either direction.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray,
};
use arrow::compute::{can_cast_types, cast};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::{FutureExt, StreamExt};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use simjoin_session::host::HostError;
use tokio::sync::mpsc::{self, Receiver, error::TryRecvError};
use tokio::task::AbortHandle;

use crate::errors;
use crate::runtime::{panic_error, poll_briefly, runtime};

/// Batches that wait for the reader.
const AHEAD: usize = 2;

/// Opens the rows of an object with `__arrow_c_stream__` or `__arrow_c_array__`.
pub(crate) fn open(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = object.call_method0("__arrow_c_stream__")?;
        let capsule = capsule.cast::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: a capsule of this name holds a stream of Arrow's C interface, which is moved out.
        let reader = unsafe { ArrowArrayStreamReader::from_raw(pointer.as_ptr().cast()) };
        return Ok(Box::new(reader.map_err(|error| unreadable(object, &error))?));
    }
    if object.hasattr("__arrow_c_array__")? {
        let pair = object.call_method0("__arrow_c_array__")?;
        let pair = pair.cast::<PyTuple>()?;
        let (schema, array) = (pair.get_item(0)?, pair.get_item(1)?);
        let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?;
        let array = array.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array"))?;
        // SAFETY: capsules of these names hold a schema and an array of Arrow's C interface. The
        // array is moved out, and read before the capsule of its schema goes.
        let data = unsafe {
            let array = FFI_ArrowArray::from_raw(array.as_ptr().cast());
            from_ffi(array, &*schema.as_ptr().cast::<FFI_ArrowSchema>())
        };
        let data = data.map_err(|error| unreadable(object, &error))?;
        if !matches!(data.data_type(), DataType::Struct(_)) {
            let text = format!(
                "{} is an array; give it as a column, such as {{\"v\": array}}",
                kind(object)
            );
            return Err(PyTypeError::new_err(text));
        }
        let batch = RecordBatch::from(StructArray::from(data));
        let schema = batch.schema();
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    Err(PyTypeError::new_err(format!("{} has no __arrow_c_stream__", kind(object))))
}

fn unreadable(object: &Bound<'_, PyAny>, error: &ArrowError) -> PyErr {
    PyTypeError::new_err(format!("{} is no table: {error}", kind(object)))
}

fn kind(object: &Bound<'_, PyAny>) -> String {
    object.get_type().fully_qualified_name().map_or_else(|_| "the object".into(), |n| n.to_string())
}

/// The schema of an object with `__arrow_c_schema__`.
pub(crate) fn schema_of(object: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    let capsule = object.call_method0("__arrow_c_schema__")?;
    requested(capsule.cast::<PyCapsule>()?)
}

/// The schema in a capsule.
pub(crate) fn requested(capsule: &Bound<'_, PyCapsule>) -> PyResult<SchemaRef> {
    let pointer = capsule.pointer_checked(Some(c"arrow_schema"))?;
    // SAFETY: a capsule of this name holds a schema of Arrow's C interface, which stays there.
    let schema = unsafe { &*pointer.as_ptr().cast::<FFI_ArrowSchema>() };
    let schema = Schema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(Arc::new(schema))
}

/// A capsule with a schema.
pub(crate) fn schema_capsule<'py>(
    py: Python<'py>,
    schema: &Schema,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|e| errors::of_engine(py, e))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// A capsule with a stream of the rows.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// The batches of a reader, with a column `row` of their rows' numbers where it is asked for.
pub(crate) fn read_all(
    reader: Box<dyn RecordBatchReader + Send>,
    row: Option<&str>,
) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let schema = reader.schema();
    let Some(row) = row else {
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        return Ok((schema, batches));
    };
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(row, DataType::Int64, false)));
    let numbered: SchemaRef = Arc::new(Schema::new(fields));
    let (mut batches, mut next) = (vec![], 0i64);
    for batch in reader {
        let batch = batch?;
        let end = next + batch.num_rows() as i64;
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(Int64Array::from_iter_values(next..end)));
        next = end;
        batches.push(RecordBatch::try_new(Arc::clone(&numbered), columns)?);
    }
    Ok((numbered, batches))
}

/// A batch or the error that ends the rows; `None` at their end.
type Message = Option<Result<RecordBatch, DataFusionError>>;

/// The rows of a running statement, as a reader for any thread. Dropping it cancels the statement.
pub(crate) struct Batches {
    schema: SchemaRef,
    batches: Receiver<Message>,
    task: AbortHandle,
    /// The reader does not wait for the task to end: it may be in the middle of a poll.
    is_cancelled: Arc<AtomicBool>,
    has_ended: bool,
}

/// Cancels a statement whose rows are being read.
pub(crate) struct Canceller {
    task: AbortHandle,
    is_cancelled: Arc<AtomicBool>,
}

impl Canceller {
    /// A handle of a task without a reader.
    pub(crate) fn of(task: AbortHandle) -> Self {
        Self { task, is_cancelled: Arc::default() }
    }

    /// Cancels the statement. Its reader fails.
    pub(crate) fn cancel(self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

impl Batches {
    /// Reads the stream ahead of its reader on the runtime.
    pub(crate) fn new(mut stream: SendableRecordBatchStream) -> PyResult<Self> {
        let (send, batches) = mpsc::channel(AHEAD);
        let schema = stream.schema();
        let task = runtime()?.spawn(async move {
            loop {
                let next = AssertUnwindSafe(stream.next()).catch_unwind().await;
                let next = next.unwrap_or_else(|panic| Some(Err(panic_error(panic.as_ref()))));
                let is_last = !matches!(next, Some(Ok(_)));
                if send.send(next).await.is_err() || is_last {
                    break;
                }
            }
        });
        let task = task.abort_handle();
        Ok(Self { schema, batches, task, is_cancelled: Arc::default(), has_ended: false })
    }

    /// A handle that cancels the statement.
    pub(crate) fn canceller(&self) -> Canceller {
        Canceller { task: self.task.clone(), is_cancelled: Arc::clone(&self.is_cancelled) }
    }

    /// Waits for the next batch, without Python's lock, and looks at its signals meanwhile.
    fn receive(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        match self.batches.try_recv() {
            Ok(message) => return message.map(|batch| batch.map_err(told)),
            Err(TryRecvError::Disconnected) => return Some(Err(cancelled())),
            Err(TryRecvError::Empty) => {}
        }
        let batches = &mut self.batches;
        loop {
            // A reader that holds Python's lock would keep it from scans of Python's objects.
            let waited =
                Python::try_attach(|py| py.detach(|| poll_briefly(&mut pin!(batches.recv()))));
            match waited {
                Some(Some(Some(message))) => return message.map(|batch| batch.map_err(told)),
                Some(Some(None)) => return Some(Err(cancelled())),
                Some(None) if self.is_cancelled.load(Ordering::Relaxed) => {
                    return Some(Err(cancelled()));
                }
                Some(None) => {
                    if let Some(Err(error)) = Python::try_attach(|py| py.check_signals()) {
                        return Some(Err(interrupted(error)));
                    }
                }
                // The interpreter ends.
                None => return Some(Err(ArrowError::CDataInterface("Python has ended".into()))),
            }
        }
    }
}

/// The error of a reader whose task has gone before its end.
fn cancelled() -> ArrowError {
    ArrowError::ComputeError("the statement was cancelled".to_string())
}

/// The error as its user reads it: consumers show text only.
fn told(error: DataFusionError) -> ArrowError {
    let error = HostError::of(error, "");
    let hint = error.hint().map(|hint| format!("\nHint: {hint}")).unwrap_or_default();
    ArrowError::ComputeError(format!("{}{hint}", error.text()))
}

/// The time in which a reader gives its error to Python's code.
const UNWINDING: Duration = Duration::from_millis(10);

/// The error of a reader whose process got a signal. The library that reads puts an error of its own
/// in the place of Python's. So the reader raises Ctrl-C once more, when Python's code goes on.
fn interrupted(error: PyErr) -> ArrowError {
    let (is_ctrl_c, text) =
        Python::attach(|py| (error.is_instance_of::<PyKeyboardInterrupt>(py), error.to_string()));
    if is_ctrl_c {
        std::thread::spawn(|| {
            std::thread::sleep(UNWINDING);
            // SAFETY: the call sets a flag, and needs no lock.
            unsafe { pyo3::ffi::PyErr_SetInterrupt() };
        });
    }
    ArrowError::ComputeError(format!("interrupted: {text}"))
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.receive();
        self.has_ended = !matches!(next, Some(Ok(_)));
        if self.has_ended {
            self.task.abort();
        }
        next
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A reader whose columns are cast to the types that a consumer asks for.
pub(crate) struct Cast {
    input: Batches,
    schema: SchemaRef,
}

impl Cast {
    /// Casts `input` to `schema`, as far as it has as many columns and Arrow casts their types; other
    /// requests are left to the consumer, as the interface allows.
    pub(crate) fn over(input: Batches, schema: SchemaRef) -> Box<dyn RecordBatchReader + Send> {
        let own = input.schema();
        let castable = own.fields().len() == schema.fields().len()
            && own
                .fields()
                .iter()
                .zip(schema.fields())
                .all(|(from, to)| can_cast_types(from.data_type(), to.data_type()));
        if !castable || own == schema {
            return Box::new(input);
        }
        Box::new(Self { input, schema })
    }
}

impl Iterator for Cast {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.input.next()? {
            Ok(batch) => batch,
            Err(error) => return Some(Err(error)),
        };
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()));
        let columns: Result<Vec<ArrayRef>, _> = columns.collect();
        Some(columns.and_then(|columns| RecordBatch::try_new(Arc::clone(&self.schema), columns)))
    }
}

impl RecordBatchReader for Cast {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
