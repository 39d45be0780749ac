//! Numbers of bytes for readers.

use std::fmt;

/// A number of bytes, shown in the greatest unit of which it has two.
pub struct HumanSize(pub u64);

impl fmt::Display for HumanSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")];
        match units.iter().find(|(shift, _)| self.0 >= 2 << shift) {
            Some((shift, unit)) => {
                write!(f, "{:.1} {unit}", self.0 as f64 / (1_u64 << shift) as f64)
            }
            None => write!(f, "{}.0 B", self.0),
        }
    }
}
