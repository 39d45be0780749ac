//! Statements by the functions of each family, held against nested loops.

mod bands;
mod cosine;
#[path = "../../../tests/draw/texts.rs"]
#[allow(dead_code, unreachable_pub)]
mod draw;
mod ranked;
mod several;
mod texts;
mod vectors;
mod vectors_on_device;
mod weighted;
