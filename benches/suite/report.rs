//! Summary.
#[derive(Debug, clap::Args)]
pub struct Arguments {}
pub fn run(_: &Arguments) -> datafusion::common::Result<()> {
    Ok(())
}
