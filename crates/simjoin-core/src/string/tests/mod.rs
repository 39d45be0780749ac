//! Tests of joins of texts.

mod columns;
#[path = "../../../../../tests/draw/texts.rs"]
#[allow(dead_code, unreachable_pub)]
mod draw;
mod rules;

pub(super) use draw::{Kind, edited, text};
