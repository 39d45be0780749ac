//! The strategies of sets on devices.

use simjoin_core::set::SetJoin;

use crate::engine::Strategy;
use crate::set::bitmap::BitmapTiles;
use crate::set::bwjoin::IndexedJoin;
use crate::set::scancount::LargeSets;

/// Every strategy on devices that `auto` compares, in the order in which equal estimates are preferred.
pub static STRATEGIES: &[&dyn Strategy<SetJoin>] = &[&BitmapTiles, &LargeSets, &IndexedJoin];
