//! Exceptions: the classes of `simjoin._errors`, by the kind of an engine's error.

use datafusion::common::DataFusionError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use simjoin_session::host::HostError;

/// The kinds of errors, by the names of their classes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ErrorClass {
    /// The text is no SQL.
    Sql,
    /// The statement cannot be planned: a name, a type, an option.
    Plan,
    /// The plan failed as it ran.
    Execution,
    /// A limit of memory or disk.
    Resources,
    /// A file.
    File,
    /// A defect of the engine.
    Internal,
}

impl ErrorClass {
    fn class(self) -> &'static str {
        match self {
            Self::Sql => "SQLError",
            Self::Plan => "PlanError",
            Self::Execution => "ExecutionError",
            Self::Resources => "ResourcesExhausted",
            Self::File => "FileError",
            Self::Internal => "InternalError",
        }
    }

    fn of(error: &DataFusionError) -> Self {
        match error.find_root() {
            DataFusionError::SQL(..) => Self::Sql,
            DataFusionError::Plan(_)
            | DataFusionError::SchemaError(..)
            | DataFusionError::NotImplemented(_)
            | DataFusionError::Configuration(_) => Self::Plan,
            DataFusionError::ResourcesExhausted(_) => Self::Resources,
            DataFusionError::IoError(_)
            | DataFusionError::ObjectStore(_)
            | DataFusionError::ParquetError(_) => Self::File,
            DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => Self::Internal,
            _ => Self::Execution,
        }
    }
}

/// The exception of an error.
pub(crate) fn raise(py: Python<'_>, error: &HostError) -> PyErr {
    let kind = error.source().map_or(ErrorClass::Plan, ErrorClass::of);
    exception(py, kind, error.text(), error.hint())
}

/// The exception of an error of DataFusion outside of a statement's text.
pub(crate) fn of_engine(py: Python<'_>, error: impl Into<DataFusionError>) -> PyErr {
    raise(py, &HostError::of(error.into(), ""))
}

/// An exception of `kind`.
pub(crate) fn exception(py: Python<'_>, kind: ErrorClass, text: &str, hint: Option<&str>) -> PyErr {
    static MODULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let module = MODULE
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("simjoin._errors")?.into_any().unbind()));
    let class = module
        .and_then(|module| Ok(module.bind(py).getattr(kind.class())?.cast_into::<PyType>()?));
    match class {
        Ok(class) => PyErr::from_type(class, (text.to_string(), hint.map(str::to_string))),
        Err(_) => PyRuntimeError::new_err(text.to_string()),
    }
}

/// Issues a warning of the class `simjoin.SimjoinWarning`, once per place of the caller.
pub(crate) fn warn(py: Python<'_>, texts: &[String]) -> PyResult<()> {
    if texts.is_empty() {
        return Ok(());
    }
    let warn = py.import("simjoin._errors")?.getattr("warn")?;
    for text in texts {
        warn.call1((text,))?;
    }
    Ok(())
}
