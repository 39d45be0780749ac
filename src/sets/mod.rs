//! Sets of tokens: from Arrow lists to dense integer sets.

mod lists;
mod tokens;

pub use lists::{Lists, list_element_type};
pub use tokens::{IntegerToken, TokenKind, Tokens};
pub(crate) use tokens::{signed_token, unsigned_token, with_byte_tokens};
