//! Benches of the engine; see benches/README.md.

fn main() {}
