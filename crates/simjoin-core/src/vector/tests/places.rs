//! Where the numbers of a collection lie.

use crate::engine::Collection;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::vector::collection::{Content, ReadRow, ReadRows, Vectors};
use crate::vector::gather::VectorGathering;
use crate::vector::width::Vector;

/// Vectors of three numbers in parts of `of_part` rows: `count` rows with `distinct` vectors.
fn parts(count: u32, of_part: u32, distinct: u32) -> Vec<ReadRows> {
    let rows: Vec<u32> = (0..count).collect();
    let part = |rows: &[u32]| {
        let numbers = Vec::with_capacity(3 * rows.len()).into();
        let mut read = ReadRows { rows: vec![], numbers };
        for &row in rows {
            let start = read.numbers.len();
            let content = if row % 7 == 3 { Content::WithNull } else { Content::Vector };
            if content == Content::Vector {
                read.numbers.extend(vector(row % distinct));
            }
            read.rows.push(ReadRow { row, key: 0, content, len: 3, start });
        }
        read
    };
    rows.chunks(of_part as usize).map(part).collect()
}

fn vector(number: u32) -> [f64; 3] {
    [number, number / 2, 7].map(f64::from)
}

fn numbers(vector: Vector<'_>) -> Vec<f64> {
    vector.iter().collect()
}

fn gathered(parts: Vec<ReadRows>, grants: bool) -> Vectors {
    let cancel = CancelFlag::default();
    let how = VectorGathering {
        order: None,
        threads: Threads::small(3),
        cancel: &cancel,
        reserve: &|_| grants,
    };
    Vectors::gather(parts, how).unwrap()
}

/// Every row's item has its numbers.
fn check(vectors: &Vectors, distinct: u32) {
    let mut rows = 0;
    for item in 0..vectors.len() {
        for &row in vectors.groups().rows(item) {
            let expected = vector(row % distinct);
            let is_vector = row % 7 != 3;
            assert_eq!(vectors.is_vector(item), is_vector);
            assert_eq!(numbers(vectors.vector(item)), if is_vector { &expected[..] } else { &[] });
            assert_eq!(vectors.dimensions(item), 3);
            rows += 1;
        }
    }
    assert_eq!(rows, 1000);
}

#[test]
fn numbers_stay_where_they_were_read() {
    let vectors = gathered(parts(1000, 90, 1000), true);
    check(&vectors, 1000);
    assert_eq!(vectors.parts.len(), 12);
    assert_eq!(vectors.number_count(), 3 * (1000 - 143));
    let some: Vec<f64> = (4..10).flat_map(vector).collect();
    let of = |items| vectors.numbers_of(items).map(numbers);
    assert_eq!(of(4..10).as_ref(), Some(&some));
    assert_eq!(of(3..10), Some(some), "an item without numbers");
    assert_eq!(of(70..90), None, "of two parts");
    assert_eq!(of(3..4), Some(vec![]));
    assert_eq!(of(5..5), Some(vec![]));
}

#[test]
fn numbers_of_few_among_many_equal_vectors_are_copied() {
    let vectors = gathered(parts(1000, 90, 21), true);
    check(&vectors, 21);
    assert_eq!(vectors.parts.len(), 1);
    assert!(vectors.size_in_bytes() < 8000, "{}", vectors.size_in_bytes());
    // As `f32`, half as many bytes.
    let narrow = parts(1000, 90, 21).into_iter().map(ReadRows::narrowed).collect();
    let of_narrow = gathered(narrow, true);
    check(&of_narrow, 21);
    let distinct = of_narrow.number_count();
    assert_eq!(vectors.size_in_bytes() - of_narrow.size_in_bytes(), 4 * distinct);
    // Some narrow parts among others.
    let narrow_some = |(number, part): (usize, ReadRows)| match number % 3 {
        1 => part.narrowed(),
        _ => part,
    };
    let mixed = parts(1000, 90, 21).into_iter().enumerate().map(narrow_some);
    let of_mixed = gathered(mixed.collect(), true);
    check(&of_mixed, 21);
    assert_eq!((of_mixed.len(), of_mixed.parts.len()), (vectors.len(), 1));
    // Where the memory is refused, they stay.
    let vectors = gathered(parts(1000, 90, 21), false);
    check(&vectors, 21);
    assert_eq!(vectors.parts.len(), 12);
}
