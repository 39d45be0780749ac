//! Random rows.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::oracle::Lists;

pub fn rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Sets with common and rare elements, near copies of each other, empty ones and NULL.
pub fn sets(rng: &mut StdRng, rows: usize) -> Lists<i64> {
    let mut all: Lists<i64> = vec![];
    while all.len() < rows {
        let row = match rng.random_range(0..20) {
            0 => None,
            1 => Some(vec![]),
            2..10 if !all.is_empty() => {
                let mut copy = all[rng.random_range(0..all.len())].clone().unwrap_or_default();
                if rng.random_bool(0.7) {
                    copy.push(rng.random_range(0..60));
                }
                if rng.random_bool(0.3) {
                    copy.pop();
                }
                Some(copy)
            }
            _ => {
                let len = rng.random_range(1..12);
                let mut token = || {
                    let most = [8, 60, i64::MAX][rng.random_range(0..3)];
                    rng.random_range(0..most)
                };
                Some((0..len).map(|_| token()).collect())
            }
        };
        all.push(row);
    }
    all
}

/// Texts that are near copies of each other, empty ones and NULL. With a `length` all have it.
pub fn texts(rng: &mut StdRng, rows: usize, length: Option<usize>) -> Vec<Option<String>> {
    let letter = |rng: &mut StdRng| ['a', 'b', 'c', 'é', '中'][rng.random_range(0..5)];
    let mut all: Vec<Option<String>> = vec![];
    while all.len() < rows {
        let len = length.unwrap_or(rng.random_range(0..14));
        let row = match rng.random_range(0..12) {
            0 => None,
            1..7 if !all.is_empty() => {
                let former = all[rng.random_range(0..all.len())].clone().unwrap_or_default();
                let mut copy: Vec<char> = former.chars().collect();
                if copy.is_empty() {
                    copy = (0..len).map(|_| letter(rng)).collect();
                }
                if !copy.is_empty() {
                    let place = rng.random_range(0..copy.len());
                    copy[place] = letter(rng);
                    if length.is_none() && rng.random_bool(0.4) {
                        copy.remove(place);
                    }
                }
                Some(copy.into_iter().collect())
            }
            _ => Some((0..len).map(|_| letter(rng)).collect()),
        };
        all.push(row);
    }
    all
}

/// Vectors around some centres, with zeros, NaN, infinity, NULL and repeats.
pub fn vectors(rng: &mut StdRng, rows: usize, dimensions: usize) -> Lists<f64> {
    let centres: Vec<Vec<f64>> =
        (0..6).map(|_| (0..dimensions).map(|_| rng.random_range(-9.0..9.0)).collect()).collect();
    let mut all: Lists<f64> = vec![];
    while all.len() < rows {
        let centre = &centres[rng.random_range(0..centres.len())];
        let mut row: Vec<f64> = centre.iter().map(|x| x + rng.random_range(-1.0..1.0)).collect();
        let place = rng.random_range(0..dimensions);
        let row = match rng.random_range(0..40) {
            0 => None,
            1 => Some(vec![0.0; dimensions]),
            2 => {
                row[place] = f64::NAN;
                Some(row)
            }
            3 => {
                row[place] = f64::INFINITY;
                Some(row)
            }
            4..8 if !all.is_empty() => all[rng.random_range(0..all.len())].clone(),
            _ => Some(row),
        };
        all.push(row);
    }
    all
}
