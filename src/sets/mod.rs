//! Sets of tokens: from Arrow lists to dense integer sets.
//!
//! [`Lists`] and [`Tokens`] read every list layout and token type. [`BuildEncoder`] gives each
//! token of the build side an id ([`Dictionary`]) and drops repeated sets; any number of them share
//! the batches. `merge` makes one of what they have read and orders tokens rare first
//! ([`TokenOrder`]), `arrange` lays the distinct sets out in CSR form by blocking key and size
//! ([`SetCollection`]). [`ProbeEncoder`] does the same for each probe batch with the build side's
//! dictionary, whose ids have become ranks. [`StoredRows`] are the rows of a side that is kept on
//! disk, where [`ValueSet`] can take the place of the dictionary. [`ShapeReader`] tells the size and
//! a hash of each row's set, which is all that sending rows to the tasks of a cluster takes.

mod arena;
mod arrange;
mod batch;
mod builder;
mod byte_tokens;
mod collection;
mod dictionary;
mod distinct;
mod keys;
mod lists;
mod merge;
pub(crate) mod parallel;
mod probe_encoder;
mod runs;
mod shape;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod token_order;
mod tokens;
mod value_set;

pub use batch::EncodeInput;
pub use builder::BuildEncoder;
pub use collection::{SetCollection, SetId};
pub use dictionary::Dictionary;
pub use keys::{KeyConverter, KeyDictionary, KeyRows, Keys};
pub use lists::{Lists, list_element_type};
pub use merge::FinishContext;
pub use probe_encoder::{ProbeEncoder, ProbeScratch};
pub use runs::{KeyId, Run, Runs};
pub use shape::{RowShape, ShapeReader};
pub use stored::{StoredRows, StoredTokens, Unload};
pub use token_order::TokenOrder;
pub(crate) use tokens::with_byte_tokens;
pub use tokens::{IntegerToken, TokenKind, Tokens};
pub use value_set::ValueSet;
