//! Drops near duplicates from a Polars data frame: titles that share most of their words.
//!
//! The column is handed over by Arrow's C data interface, and not copied. `cargo run` in this folder
//! prints the rows that stay.

use std::error::Error;

use arrow::array::{ArrayRef, make_array};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use polars::prelude::*;
use polars_arrow::datatypes::Field as PolarsField;
use polars_arrow::ffi::{export_array_to_c, export_field_to_c};
use simjoin_core::{Join, Measure};

/// The column as an Arrow array, which shares its memory.
fn to_arrow(column: &Column) -> Result<ArrayRef, Box<dyn Error>> {
    let chunk = column.as_materialized_series().rechunk().to_arrow(0, CompatLevel::newest());
    let field = PolarsField::new(column.name().clone(), chunk.dtype().clone(), true);
    let (mut array, mut schema) = (export_array_to_c(chunk), export_field_to_c(&field));
    // SAFETY: both libraries lay these structs out as the C data interface has them, and they describe
    // each other. `from_raw` moves out of a struct and leaves one that owns nothing.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw((&raw mut array).cast());
        let schema = FFI_ArrowSchema::from_raw((&raw mut schema).cast());
        from_ffi(array, &schema)?
    };
    Ok(make_array(data))
}

fn main() -> Result<(), Box<dyn Error>> {
    let books = df!(
        "title" => [
            Some("The Hound of the Baskervilles"),
            Some("Moby-Dick; or, The Whale"),
            Some("The hound of the Baskervilles."),
            None,
            Some("Moby Dick, or the Whale"),
            Some("A Study in Scarlet"),
        ],
        "year" => [1902, 1851, 1901, 1900, 1892, 1887],
    )?;
    let titles = to_arrow(books.column("title")?)?;
    let pairs = Join::new(Measure::Jaccard, 0.8).words().self_join(&titles)?;
    let mut keep = vec![true; books.height()];
    // The pairs are ordered by their left row, the lesser one: whether it stays is known by then.
    for pair in &pairs {
        println!("row {} is like row {}: {}", pair.right, pair.left, pair.score);
        if keep[pair.left as usize] {
            keep[pair.right as usize] = false;
        }
    }
    let mask: BooleanChunked = keep.into_iter().collect();
    println!("{}", books.filter(&mask)?);
    Ok(())
}
