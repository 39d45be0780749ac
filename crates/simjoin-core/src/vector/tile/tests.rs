//! Products in every form against their definition.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::{Element, Heads, PANEL, Panels, RowLayout, Rows, products_by_heads};
use crate::simd::Simd;

/// Rows and panels of bytes.
struct Case {
    places: usize,
    /// By row, and by vector of a panel.
    rows: Vec<Vec<i32>>,
    vectors: Vec<Vec<i32>>,
    of_rows: Vec<i32>,
    of_vectors: Vec<i32>,
    /// How many panels one lies behind the last.
    step: usize,
}

fn bound(rng: &mut StdRng) -> i32 {
    match rng.random_range(0..12) {
        0 => i32::NEVER,
        1 => i32::ALWAYS,
        2 => -(1 << 28),
        3 => 1 << 28,
        4 => i32::SURE,
        _ => rng.random_range(-200_000..200_000),
    }
}

impl Case {
    fn draw(rng: &mut StdRng, places: usize) -> Self {
        let (row_count, panels) = (rng.random_range(1..=100), rng.random_range(1..=5));
        let step = rng.random_range(1..=3);
        let is_extreme = rng.random_bool(0.1);
        let mut vectors = |count: usize| -> Vec<Vec<i32>> {
            let number = |rng: &mut StdRng| match is_extreme {
                true => *[0x7F7F_7F7F, -0x7F7F_7F80, -1].choose(rng).unwrap(),
                false => rng.random(),
            };
            (0..count).map(|_| (0..places).map(|_| number(rng)).collect()).collect()
        };
        let all = ((panels - 1) * step + 1) * PANEL;
        let (rows, vectors) = (vectors(row_count), vectors(all));
        // Many cases leave few pairs, or none.
        let share = *[1.0, 0.02, 0.0].choose(rng).unwrap();
        let mut bounds = |count: usize, other: i32| -> Vec<i32> {
            (0..count).map(|_| if rng.random_bool(share) { bound(rng) } else { other }).collect()
        };
        let (of_rows, of_vectors) = (bounds(row_count, -1), bounds(all, -(1 << 28)));
        Self { places, rows, vectors, of_rows, of_vectors, step }
    }

    fn panels(&self) -> Range<usize> {
        0..(self.vectors.len() / PANEL).div_ceil(self.step)
    }

    /// The product of a row and a vector, with both bounds added.
    fn product(&self, row: usize, vector: usize) -> i32 {
        let bounds = self.of_rows[row] + self.of_vectors[vector];
        let places = self.rows[row].iter().zip(&self.vectors[vector]);
        places.fold(bounds, |sum, (x, y)| {
            let bytes = x.to_ne_bytes().into_iter().zip(y.to_ne_bytes());
            bytes.fold(sum, |sum, (x, y)| sum + i32::from(x as i8) * i32::from(y))
        })
    }

    /// The products of all rows and vectors, by row.
    fn products(&self) -> Vec<Vec<i32>> {
        let of_row =
            |row| (0..self.vectors.len()).map(|vector| self.product(row, vector)).collect();
        (0..self.rows.len()).map(of_row).collect()
    }

    /// The pairs that are not rejected, as `(row, vector)`.
    fn expected(&self, products: &[Vec<i32>]) -> Vec<(usize, usize)> {
        let vectors = self.panels().flat_map(|p| (0..PANEL).map(move |lane| (p, lane)));
        let vectors: Vec<usize> = vectors.map(|(p, lane)| p * self.step * PANEL + lane).collect();
        let pairs = (0..self.rows.len()).flat_map(|row| vectors.iter().map(move |&v| (row, v)));
        pairs.filter(|&(row, vector)| products[row][vector] >= 0).collect()
    }

    /// The pairs that products leave, each of which is `product` of a row and a vector.
    fn found(&self, simd: Simd, product: impl Fn(usize, usize) -> i32) -> Vec<(usize, usize)> {
        self.found_by(simd, None, product)
    }

    /// The pairs that products leave, where `head` first places reject tiles.
    fn found_by(
        &self,
        simd: Simd,
        head: Option<usize>,
        product: impl Fn(usize, usize) -> i32,
    ) -> Vec<(usize, usize)> {
        let (layout, count, places) = (i32::layout(simd), self.rows.len(), self.places);
        let mut numbers = vec![0; layout.len(count, places)];
        for (row, own) in self.rows.iter().enumerate() {
            let to = layout.row(&mut numbers, row, places);
            to.zip(own).for_each(|(to, number)| *to = *number);
        }
        let mut reject = self.of_rows.clone();
        reject.resize(layout.padded(count), i32::NEVER);
        let mut of_panels = vec![0; self.vectors.len() * places];
        for (vector, own) in self.vectors.iter().enumerate() {
            let panel = &mut of_panels[vector / PANEL * PANEL * places..];
            for (place, number) in own.iter().enumerate() {
                panel[place * PANEL + vector % PANEL] = *number;
            }
        }
        let rows = Rows { places, numbers: &numbers, reject: &reject };
        let panels = Panels {
            numbers: &of_panels,
            stride: self.step * places * PANEL,
            step: self.step,
            reject: &self.of_vectors,
        };
        let mut found = vec![];
        let from = head.unwrap_or(places);
        let mut head_of_rows: Vec<i32> = self
            .rows
            .iter()
            .zip(&self.of_rows)
            .map(|(own, &reject)| i32::head_of_row(reject, own[from..].iter().copied()))
            .collect();
        head_of_rows.resize(layout.padded(count), i32::NEVER);
        let head_of_vectors: Vec<i32> = self
            .vectors
            .iter()
            .zip(&self.of_vectors)
            .map(|(own, &reject)| i32::head_of_vector(reject, own[from..].iter().copied()))
            .collect();
        let heads = head.map(|places| Heads {
            places,
            of_rows: &head_of_rows,
            of_panels: &head_of_vectors,
        });
        products_by_heads(
            simd,
            rows,
            panels,
            heads,
            self.panels().end,
            |row, first, mask, products| {
                // Rows that fill the last group meet vectors that are never rejected.
                if row >= count {
                    return;
                }
                assert_ne!(mask, 0);
                for (lane, found_product) in products.iter().enumerate() {
                    assert_eq!(*found_product, product(row, first + lane), "{simd} {row} {first}");
                    if mask >> lane & 1 == 1 {
                        found.push((row, first + lane));
                    }
                }
            },
        );
        found.sort_unstable();
        found
    }
}

/// Products of all lengths, of some rows with some panels at some distance, by all forms and an emulated matrix
/// unit.
#[test]
fn products_in_lanes_and_by_a_matrix_unit_are_those_of_the_definition() {
    let mut rng = StdRng::seed_from_u64(20);
    let lens = (1..=200).chain([768, 960, 1 << 13]).map(|d: usize| d.div_ceil(4));
    let (mut some, mut none) = (0, 0);
    for places in lens.chain([0]) {
        let case = Case::draw(&mut rng, places);
        let all = case.products();
        let expected = case.expected(&all);
        some += usize::from(!expected.is_empty());
        none += usize::from(expected.is_empty());
        for simd in Simd::tested() {
            let found = case.found(simd, |row, vector| all[row][vector]);
            assert_eq!(found, expected, "{simd} {places}");
        }
    }
    assert!(some > 50 && none > 10, "{some} {none}");
}

/// Heads of any length reject no pair that all places do not: the survivors are those without heads.
#[test]
fn heads_reject_nothing_that_all_places_do_not() {
    let mut rng = StdRng::seed_from_u64(29);
    let (mut some, mut none) = (0, 0);
    for round in 0..600 {
        let places = rng.random_range(2..=40);
        let mut case = Case::draw(&mut rng, places);
        // Vectors near each other, or far; those with bounds of their own have no integers.
        let spread = *[3_i32, 40, 127].choose(&mut rng).unwrap();
        let numbers = case
            .rows
            .iter_mut()
            .map(|own| (own, 0))
            .chain(case.vectors.iter_mut().map(|own| (own, 128)));
        for (own, bias) in numbers {
            own.iter_mut().for_each(|quad| {
                let bytes =
                    std::array::from_fn(|_| (rng.random_range(-spread..=spread) + bias) as u8);
                *quad = i32::from_ne_bytes(bytes);
            });
        }
        let square = |own: &[i32], bias: i32| -> i32 {
            let bytes = own.iter().flat_map(|quad| quad.to_ne_bytes());
            bytes.map(|byte| (i32::from(byte.wrapping_sub(bias as u8) as i8)).pow(2)).sum()
        };
        let sum = |own: &[i32]| -> i32 {
            own.iter().flat_map(|quad| quad.to_ne_bytes()).map(|byte| i32::from(byte as i8)).sum()
        };
        // In some cases a few vectors match all or nothing. Pairs within a distance.
        let odd = if rng.random_bool(0.4) { 20 } else { u32::MAX };
        let far = rng.random_range(0..=2 * spread * spread * 4 * places as i32) / 3;
        for (bound, own) in case.of_rows.iter_mut().zip(&mut case.rows) {
            *bound = (far / 2 - square(own, 0)) / 2 - 128 * sum(own);
            match rng.random_range(0..odd) {
                0 => (*bound, *own) = (i32::NEVER, vec![0; places]),
                1 => (*bound, *own) = (i32::ALWAYS, vec![0; places]),
                _ => {}
            }
        }
        for (bound, own) in case.of_vectors.iter_mut().zip(&mut case.vectors) {
            *bound = (far / 2 - square(own, 128)) / 2;
            match rng.random_range(0..odd) {
                0 => (*bound, *own) = (i32::NEVER, vec![0; places]),
                1 => (*bound, *own) = (i32::ALWAYS, vec![0; places]),
                // With integers, too.
                2 => *bound = i32::ALWAYS,
                _ => {}
            }
        }
        let all = case.products();
        let expected = case.expected(&all);
        some += usize::from(!expected.is_empty());
        none += usize::from(expected.is_empty());
        let head = rng.random_range(1..places);
        for simd in Simd::tested() {
            let found = case.found_by(simd, Some(head), |row, vector| all[row][vector]);
            assert_eq!(found, expected, "{simd} {round}: {head} of {places}");
        }
    }
    assert!(some > 200 && none > 50, "{some} {none}");
}

/// Every place of every row lies somewhere else; runs are filled to their end.
#[test]
fn layouts_of_rows_for_lanes_and_a_matrix_unit_have_each_place_once() {
    for (layout, run) in [(RowLayout::LANES, 1), (RowLayout::TILES, 16)] {
        for (count, places) in [(1, 1), (13, 5), (16, 16), (33, 17), (48, 192), (5, 0)] {
            let mut numbers = vec![0; layout.len(count, places)];
            for row in 0..count {
                let mut own = layout.row(&mut numbers, row, places);
                for place in 0..places {
                    *own.next().unwrap() += 1 + row * places + place;
                }
                assert_eq!(own.count(), places.next_multiple_of(run) - places);
                let start = layout.start(row, places);
                assert!(places == 0 || numbers[start] == 1 + row * places);
            }
            let mut found: Vec<usize> = numbers.into_iter().filter(|n| *n > 0).collect();
            found.sort_unstable();
            assert!(found.into_iter().eq(1..=count * places), "{layout:?} {count} {places}");
        }
    }
    // A tile has sixteen places of sixteen rows.
    let mut numbers = vec![0; RowLayout::TILES.len(17, 20)];
    *RowLayout::TILES.row(&mut numbers, 16, 20).nth(18).unwrap() = 1;
    *RowLayout::TILES.row(&mut numbers, 3, 20).nth(17).unwrap() = 2;
    assert_eq!([numbers[2 * 256 + 256 + 2], numbers[256 + 3 * 16 + 1]], [1, 2]);
}
