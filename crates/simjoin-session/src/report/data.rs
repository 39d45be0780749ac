//! The data of a page: the pairs, the rows in them, and what was asked.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::prelude::SessionContext;
use serde_json::{Map, Value, json};
use simjoin_core::util::forest::Forest;

use super::PageWords;
use crate::verbs::{AtThreshold, ReportStatements, count_of, suggestion};

/// Integers beyond are no numbers in a browser.
const EXACT: i64 = 1 << 53;

/// ReportedPairs by the places of their rows.
#[derive(Debug, Default)]
struct ReportedPairs {
    left: Vec<u32>,
    right: Vec<u32>,
    score: Vec<f64>,
    parts: Map<String, Value>,
}

/// The rows of a table that are in pairs.
struct Rows {
    /// By the number of a row its place.
    places: HashMap<i64, u32>,
    ids: Vec<Value>,
    cells: Vec<Vec<Value>>,
    total: i64,
}

/// The data of a report whose first statements have run.
pub(super) async fn of(
    ctx: &SessionContext,
    report: &ReportStatements,
    words: &PageWords,
) -> Result<Value> {
    let mut tables = vec![];
    for [rows, count] in &report.rows {
        let batch = batch_of(ctx, rows).await?;
        let numbers = batch.column(0).as_primitive::<Int64Type>().values();
        let places = numbers.iter().copied().zip(0..).collect();
        let columns = batch.columns()[2..].iter().map(values);
        tables.push(Rows {
            places,
            ids: values(batch.column(1))?,
            cells: columns.collect::<Result<_>>()?,
            total: count_of(ctx, count).await?,
        });
    }
    let [first, .., last] = tables.as_slice() else {
        let [only] = tables.as_slice() else { return internal_err!("a page has a table") };
        return whole(ctx, report, words, &tables, pairs(ctx, report, [only, only]).await?).await;
    };
    whole(ctx, report, words, &tables, pairs(ctx, report, [first, last]).await?).await
}

async fn whole(
    ctx: &SessionContext,
    report: &ReportStatements,
    words: &PageWords,
    tables: &[Rows],
    pairs: ReportedPairs,
) -> Result<Value> {
    let counted = count_of(ctx, &report.count).await?;
    let made = batch_of(ctx, "SELECT to_char(now(), '%Y-%m-%d %H:%M UTC')").await?;
    let mut labels = vec![];
    if let Some(sql) = &report.labels {
        let batch = batch_of(ctx, sql).await?;
        let columns = batch.columns().iter().map(values).collect::<Result<Vec<_>>>()?;
        let [left, right, label] = columns.as_slice() else {
            return internal_err!("labels have three columns");
        };
        labels =
            left.iter().zip(right).zip(label).map(|((l, r), label)| json!([l, r, label])).collect();
    }
    let suggested = suggestion(&steps(report, &pairs, tables));
    let told = tables.iter().enumerate().map(|(side, rows)| {
        json!({
            "name": words.inputs.get(side),
            "total": rows.total,
            "columns": report.columns[side],
            "compared": report.compared[side],
            "ids": rows.ids,
            "rank": null,
            "cells": rows.cells,
        })
    });
    let left_out = counted - pairs.score.len() as i64;
    Ok(json!({
        "format": 1,
        "title": words.title,
        "made": values(made.column(0))?[0],
        "question": report.question,
        "command": words.command,
        "sql": words.sql,
        "at": report.at,
        "suggested": suggested.as_ref().map(|(threshold, _)| threshold),
        "why": suggested.as_ref().map(|(_, why)| why),
        "weakest": report.weakest,
        "best": report.best,
        "distance": report.is_distance,
        "steps": report.steps,
        "tables": told.collect::<Vec<_>>(),
        "pairs": {
            "left": pairs.left, "right": pairs.right, "score": pairs.score, "parts": pairs.parts
        },
        "id_name": report.id,
        "told_by": report.id.as_deref().unwrap_or(words.rows),
        "labels": labels,
        "left_out": left_out,
    }))
}

async fn pairs(
    ctx: &SessionContext,
    report: &ReportStatements,
    [left, right]: [&Rows; 2],
) -> Result<ReportedPairs> {
    let batch = batch_of(ctx, &report.pairs).await?;
    let place = |rows: &Rows, column: usize| -> Result<Vec<u32>> {
        let numbers = batch.column(column).as_primitive::<Int64Type>();
        let place = |number: &i64| {
            let place = rows.places.get(number).copied();
            place.ok_or_else(|| internal_datafusion_err!("row {number} is in a pair alone"))
        };
        numbers.values().iter().map(place).collect()
    };
    let mut parts = Map::new();
    for (name, column) in report.parts.iter().zip(&batch.columns()[3..]) {
        let name = name.strip_suffix("_score").unwrap_or(name);
        parts.insert(name.to_string(), Value::Array(values(column)?));
    }
    Ok(ReportedPairs {
        left: place(left, 0)?,
        right: place(right, 1)?,
        score: batch.column(2).as_primitive::<Float64Type>().values().to_vec(),
        parts,
    })
}

/// The figures of each threshold.
fn steps(report: &ReportStatements, pairs: &ReportedPairs, tables: &[Rows]) -> Vec<AtThreshold> {
    let first = tables.first().map_or(0, |rows| rows.ids.len() as u32);
    let others = match tables {
        [_, others] => others.ids.len() as u32,
        _ => 0,
    };
    // Rows of the second table stand behind those of the first.
    let offset = if others > 0 { first } else { 0 };
    let forest = Forest::new(first + others);
    let mut sizes = vec![1_i64; (first + others) as usize];
    let (mut next, mut largest) = (0, 1);
    let mut steps = vec![];
    for &threshold in &report.steps {
        let before = next;
        let is_within = |score: f64| match report.is_distance {
            true => score <= threshold,
            false => score >= threshold,
        };
        while pairs.score.get(next).is_some_and(|score| is_within(*score)) {
            let [left, right] =
                [pairs.left[next], pairs.right[next] + offset].map(|id| forest.find(id));
            if forest.unite(left, right) {
                let size = sizes[left as usize] + sizes[right as usize];
                sizes[forest.find(left) as usize] = size;
                largest = largest.max(size);
            }
            next += 1;
        }
        steps.push(AtThreshold { threshold, added: (next - before) as i64, largest });
    }
    steps
}

async fn batch_of(ctx: &SessionContext, sql: &str) -> Result<RecordBatch> {
    let frame = ctx.sql(sql).await?;
    let schema = std::sync::Arc::new(frame.schema().as_arrow().clone());
    Ok(concat_batches(&schema, &frame.collect().await?)?)
}

/// The values of a column, as a browser has them: numbers where they are exact, others as texts.
fn values(column: &ArrayRef) -> Result<Vec<Value>> {
    let format = FormatOptions::default().with_display_error(true);
    let formatter = ArrayFormatter::try_new(column, &format)?;
    let integers = match column.data_type() {
        other if other.is_integer() && *other != DataType::UInt64 => {
            Some(cast(column, &DataType::Int64)?)
        }
        _ => None,
    };
    let floats = match column.data_type().is_floating() {
        true => Some(cast(column, &DataType::Float64)?),
        false => None,
    };
    let nulls = column.logical_nulls();
    let is_short = matches!(column.data_type(), DataType::Float16 | DataType::Float32);
    let value = |row: usize| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Value::Null;
        }
        let integer =
            integers.as_ref().map(|numbers| numbers.as_primitive::<Int64Type>().value(row));
        if let Some(integer) = integer.filter(|integer| integer.abs() < EXACT) {
            return json!(integer);
        }
        let float = floats.as_ref().map(|numbers| numbers.as_primitive::<Float64Type>().value(row));
        match float.filter(|float| float.is_finite()) {
            // As it is written with its own digits.
            Some(float) if is_short => {
                json!(formatter.value(row).to_string().parse().unwrap_or(float))
            }
            Some(float) => json!(float),
            None => Value::String(formatter.value(row).to_string()),
        }
    };
    Ok((0..column.len()).map(value).collect())
}
