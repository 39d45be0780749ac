//! The native half of the Python package `simjoin`: sessions and frames of the engine, with the
//! parameters, rows, errors and signals that cross the border. `python/simjoin` holds what users see.

mod adbc;
mod cells;
mod errors;
mod extension;
mod frame;
mod params;
mod runtime;
mod session;
mod stream;
mod values;
mod verbs;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the command line, and gives its exit status.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<String>) -> u8 {
    py.detach(|| simjoin_cli::run(args, || (), true))
}

/// Fails as a defect of the engine does, for tests.
#[pyfunction]
fn panic(py: Python<'_>) -> PyResult<()> {
    runtime::wait(py, async { panic!("asked to") })
}

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<session::Session>()?;
    module.add_class::<frame::Frame>()?;
    module.add_class::<verbs::VerbAnswer>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(panic, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::suggest, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::measures, module)?)?;
    module.add_function(wrap_pyfunction!(extension::scalar_functions, module)?)?;
    runtime::end_before_fork(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
