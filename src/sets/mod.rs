//! Sets of tokens: from Arrow lists to dense integer sets.
//!
//! [`Lists`] and [`Tokens`] read every list layout and token type. [`BuildEncoder`] gives each
//! token of the build side an id ([`Dictionary`]), drops repeated sets, orders tokens rare first
//! ([`TokenOrder`]) and lays the distinct sets out in CSR form by blocking key and size
//! ([`SetCollection`]). [`ProbeEncoder`] does the same for each probe batch with the build side's
//! dictionary and order.

mod arena;
mod builder;
mod collection;
mod dictionary;
mod distinct;
mod keys;
mod lists;
mod runs;
mod token_order;
mod tokens;

pub use builder::{BuildEncoder, EncodeInput, ProbeEncoder, ProbeScratch};
pub use collection::{SetCollection, SetId};
pub use dictionary::Dictionary;
pub use keys::{KeyConverter, KeyDictionary, KeyRows, Keys};
pub use lists::{Lists, list_element_type};
pub use runs::{KeyId, Run, Runs};
pub use token_order::TokenOrder;
pub(crate) use tokens::with_byte_tokens;
pub use tokens::{IntegerToken, TokenKind, Tokens};
