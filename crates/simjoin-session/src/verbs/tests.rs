//! Tests of the statements.
