//! Results of pairs: connected components, representatives, one-to-one matches.
//!
//! ```text
//! batches of pairs ─► nodes: values to ids ─┬─► forest (all threads) ─► components
//!                                             └─► marks of ids (pairs sorted) ─► representatives, matches
//! ```
//!
//! Every answer is a function of the set of pairs alone. The operators read pairs of any query;
//! [`plan`](crate::plan) puts the columns in place. On a cluster it asks for the order that an operator
//! needs; in one process the operators sort.

mod components;
mod forest;
mod greedy;
mod labels;
mod nodes;
mod one_to_one;
mod operator;
mod representatives;
mod scores;
mod sort;
#[cfg(test)]
mod tests;

pub use self::components::{ConnectedComponentsExec, Merge};
pub(crate) use self::greedy::MarkedNodes;
pub(crate) use self::nodes::{NO_ID, is_node_type};
pub use self::one_to_one::OneToOneExec;
pub use self::representatives::RepresentativesExec;
