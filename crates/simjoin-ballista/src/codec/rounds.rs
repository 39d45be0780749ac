//! The rounds of a search by a score of several functions as messages, and back.

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;

use super::join::{read_on, read_residual, unknown, write_on, write_predicate, write_residual};
use super::messages::{SearchDriverNode, SearchNode, SearchRoundNode};
use super::{NodeReader, Writer};
use datafusion_simjoin::spec::{DriverKind, Search, SearchDriver, SearchRound};

pub(super) fn write_search(search: &Search, writer: &Writer<'_>) -> Result<SearchNode> {
    let [left, right] = &search.arguments;
    let residual = search.residual.as_ref().map(|residual| write_residual(residual, writer));
    Ok(SearchNode {
        predicate: write_predicate(search.predicate),
        left_argument: writer.expression(left)?,
        right_argument: writer.expression(right)?,
        residual: residual.transpose()?,
    })
}

pub(super) fn read_search(
    search: SearchNode,
    [left, right]: [&Schema; 2],
    reader: &NodeReader<'_>,
) -> Result<Search> {
    Ok(Search {
        predicate: reader.predicate(search.predicate)?,
        arguments: [
            reader.expression(&search.left_argument, left)?,
            reader.expression(&search.right_argument, right)?,
        ],
        residual: search.residual.map(|residual| read_residual(residual, reader)).transpose()?,
    })
}

pub(super) fn write_rounds(
    rounds: &[SearchRound],
    writer: &Writer<'_>,
) -> Result<Vec<SearchRoundNode>> {
    let write = |round: &SearchRound| {
        let drivers = round.drivers.iter().map(|driver| write_driver(driver, writer));
        let drivers = drivers.collect::<Result<_>>()?;
        Ok(SearchRoundNode { threshold: round.threshold, drivers })
    };
    rounds.iter().map(write).collect()
}

fn write_driver(driver: &SearchDriver, writer: &Writer<'_>) -> Result<SearchDriverNode> {
    let unmet = driver.unmet.as_ref().map(|unmet| write_residual(unmet, writer)).transpose()?;
    let (search, best, keys) = match &driver.by {
        DriverKind::Bound { search, best } => {
            (Some(write_search(search, writer)?), writer.optional(best.as_ref())?, None)
        }
        DriverKind::Equality(left, right) => {
            (None, None, write_on(&[(left.clone(), right.clone())], writer)?.pop())
        }
    };
    Ok(SearchDriverNode {
        search,
        best,
        keys,
        score: write_residual(&driver.score, writer)?,
        unmet,
    })
}

pub(super) fn read_rounds(
    rounds: Vec<SearchRoundNode>,
    schemas: [&Schema; 2],
    reader: &NodeReader<'_>,
) -> Result<Vec<SearchRound>> {
    let read = |SearchRoundNode { threshold, drivers }| {
        let drivers = drivers.into_iter().map(|driver| read_driver(driver, schemas, reader));
        Ok(SearchRound { threshold, drivers: drivers.collect::<Result<_>>()? })
    };
    rounds.into_iter().map(read).collect()
}

fn read_driver(
    driver: SearchDriverNode,
    schemas: [&Schema; 2],
    reader: &NodeReader<'_>,
) -> Result<SearchDriver> {
    let SearchDriverNode { search, best, keys, score, unmet } = driver;
    let by = match (search, keys) {
        (Some(search), None) => {
            let search = read_search(search, schemas, reader)?;
            let best = reader.optional(best.as_ref(), &search.value_schema(schemas)?)?;
            DriverKind::Bound { search, best }
        }
        (None, Some(keys)) => match read_on(&[keys], schemas, reader)?.pop() {
            Some((left, right)) => DriverKind::Equality(left, right),
            None => return unknown("driver of a round"),
        },
        _ => return unknown("driver of a round"),
    };
    let unmet = unmet.map(|unmet| read_residual(unmet, reader)).transpose()?;
    Ok(SearchDriver { by, score: read_residual(score, reader)?, unmet })
}
