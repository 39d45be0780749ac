//! The values of Arrow columns: lists of any layout, tokens of any type, and dense ids for them.
//!
//! [`Lists`] reads every list layout, [`Tokens`] every token type. A [`Dictionary`](dictionary::Dictionary) gives each
//! value an id; [`ValueSet`] does so for a set of integers that is known in full. [`Texts`] reads
//! every text type, and a [`TextTokenizer`] its tokens.

pub mod byte_tokens;
pub mod dictionary;
pub mod lists;
pub mod table;
pub mod text_tokens;
pub mod texts;
pub mod tokens;
pub(crate) mod value_set;

pub use lists::{Lists, list_element_type};
pub use text_tokens::TextTokenizer;
pub use texts::Texts;
pub use tokens::with_byte_tokens;
pub use tokens::{TokenKind, Tokens};
pub(crate) use value_set::ValueSet;
