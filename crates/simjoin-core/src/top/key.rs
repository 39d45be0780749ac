//! Scores as integers whose order is that of nearness.

use crate::predicate::Order;

/// A score as an integer: the less, the better. Scores that differ in DataFusion's order of values have
/// different keys.
pub type ScoreKey = i64;

/// The key of a score.
#[inline]
pub fn key_of(score: f64, order: Order) -> ScoreKey {
    keyed(total(score), order)
}

/// The key of a score whose order is that of an integer.
#[inline]
pub fn keyed(rank: i64, order: Order) -> ScoreKey {
    match order {
        Order::Distance => rank,
        Order::Similarity => !rank,
    }
}

/// The score behind a key.
pub fn score_of(key: ScoreKey, order: Order) -> f64 {
    let total = keyed(key, order);
    f64::from_bits((total ^ (((total >> 63) as u64) >> 1) as i64) as u64)
}

/// The place of a float in the order of [`f64::total_cmp`].
#[inline]
fn total(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_scores_as_total_cmp_does_and_give_them_back() {
        let mut scores = [0.0, -0.0, 1.0, -1.0, 0.3, f64::MAX, f64::MIN, 5e-324].to_vec();
        scores.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN]);
        for order in [Order::Distance, Order::Similarity] {
            for a in &scores {
                assert_eq!(score_of(key_of(*a, order), order).to_bits(), a.to_bits());
                for b in &scores {
                    let expected = match order {
                        Order::Distance => a.total_cmp(b),
                        Order::Similarity => b.total_cmp(a),
                    };
                    assert_eq!(key_of(*a, order).cmp(&key_of(*b, order)), expected, "{a} {b}");
                }
            }
        }
    }
}
