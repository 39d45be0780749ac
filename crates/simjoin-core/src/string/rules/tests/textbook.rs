//! The definitions of the functions, as slow as they come.

use std::collections::HashMap;

pub(crate) fn levenshtein(a: &[u32], b: &[u32]) -> u32 {
    let mut d = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            d[i][j] = match (i, j) {
                (0, j) => j as u32,
                (i, 0) => i as u32,
                _ => (d[i - 1][j - 1] + u32::from(a[i - 1] != b[j - 1]))
                    .min(d[i - 1][j] + 1)
                    .min(d[i][j - 1] + 1),
            };
        }
    }
    d[a.len()][b.len()]
}

pub(crate) fn indel(a: &[u32], b: &[u32]) -> u32 {
    let mut common = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            common[i][j] = if a[i - 1] == b[j - 1] {
                common[i - 1][j - 1] + 1
            } else {
                common[i - 1][j].max(common[i][j - 1])
            };
        }
    }
    (a.len() + b.len()) as u32 - 2 * common[a.len()][b.len()]
}

/// Lowrance and Wagner's algorithm over the whole matrix, with a border of "infinite" cells.
pub(crate) fn damerau(a: &[u32], b: &[u32]) -> u32 {
    let far = (a.len() + b.len()) as u32;
    let mut d = vec![vec![far; b.len() + 2]; a.len() + 2];
    for i in 0..=a.len() {
        d[i + 1][1] = i as u32;
    }
    for j in 0..=b.len() {
        d[1][j + 1] = j as u32;
    }
    let mut last_row = HashMap::new();
    for i in 1..=a.len() {
        let mut last_column = 0;
        for j in 1..=b.len() {
            let k = last_row.get(&b[j - 1]).copied().unwrap_or(0);
            let l = last_column;
            let equal = a[i - 1] == b[j - 1];
            if equal {
                last_column = j;
            }
            d[i + 1][j + 1] = (d[i][j] + u32::from(!equal))
                .min(d[i + 1][j] + 1)
                .min(d[i][j + 1] + 1)
                .min(d[k][l] + (i - k) as u32 + (j - l) as u32 - 1);
        }
        last_row.insert(a[i - 1], i);
    }
    d[a.len() + 1][b.len() + 1]
}

/// Common symbols and transpositions (halved downwards), by flags.
pub(crate) fn common(a: &[u32], b: &[u32]) -> (usize, usize) {
    let window = (a.len().max(b.len()) as i64 / 2 - 1).max(0);
    let mut taken = vec![false; a.len()];
    let mut of_b = vec![];
    for (j, y) in b.iter().enumerate() {
        for (i, x) in a.iter().enumerate() {
            if x == y && !taken[i] && (i as i64 - j as i64).abs() <= window {
                taken[i] = true;
                of_b.push(*y);
                break;
            }
        }
    }
    let of_a: Vec<u32> = (0..a.len()).filter(|&i| taken[i]).map(|i| a[i]).collect();
    let differing = of_a.iter().zip(&of_b).filter(|(x, y)| x != y).count();
    (of_b.len(), differing / 2)
}

pub(crate) fn jaro(a: &[u32], b: &[u32]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let (m, t) = common(a, b);
    if m == 0 {
        return 0.0;
    }
    let m = m as f64;
    (m / a.len() as f64 + m / b.len() as f64 + (m - t as f64) / m) / 3.0
}

pub(crate) fn jaro_winkler(a: &[u32], b: &[u32]) -> f64 {
    let j = jaro(a, b);
    let mut p = 0;
    while p < 4 && p < a.len() && p < b.len() && a[p] == b[p] {
        p += 1;
    }
    if j > 0.7 { (j + p as f64 * 0.1 * (1.0 - j)).min(1.0) } else { j }
}
