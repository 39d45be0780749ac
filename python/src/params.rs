//! Parameters of statements: Python's values as scalars.

use std::collections::HashMap;

use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, ScalarValue};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::values;

/// The parameters of a statement; `None` where there are none.
///
/// # Errors
///
/// A type error for a value that is no scalar, and for parameters by place and by name together.
pub(crate) fn read(
    positional: &Bound<'_, PyList>,
    named: &Bound<'_, PyDict>,
) -> PyResult<Option<ParamValues>> {
    if !positional.is_empty() && !named.is_empty() {
        return Err(PyTypeError::new_err(
            "a statement takes parameters by place ($1) or by name ($t), not both",
        ));
    }
    if !positional.is_empty() {
        let values: PyResult<Vec<_>> = positional.iter().map(|value| scalar(&value)).collect();
        return Ok(Some(ParamValues::List(values?)));
    }
    if named.is_empty() {
        return Ok(None);
    }
    let mut values = HashMap::new();
    for (name, value) in named {
        values.insert(name.extract::<String>()?, scalar(&value)?);
    }
    Ok(Some(ParamValues::Map(values)))
}

/// A value, of the type that a column of it would have.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarAndMetadata> {
    let column = values::array(std::slice::from_ref(value), "parameter")?;
    let value = ScalarValue::try_from_array(&column, 0);
    let value = value.map_err(|error| PyTypeError::new_err(error.to_string()))?;
    Ok(ScalarAndMetadata::from(value))
}
