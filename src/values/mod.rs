//! The values of Arrow columns: lists of any layout, tokens of any type, and dense ids for them.
//!
//! [`Lists`] reads every list layout, [`Tokens`] every token type. A [`Dictionary`] gives each
//! value an id; [`ValueSet`] does so for a set of integers that is known in full. [`Texts`] reads
//! every text type, and a [`TextTokenizer`] its tokens.

pub(crate) mod byte_tokens;
pub(crate) mod dictionary;
pub(crate) mod lists;
pub(crate) mod table;
pub(crate) mod text_tokens;
pub(crate) mod texts;
pub(crate) mod tokens;
pub(crate) mod value_set;

pub(crate) use lists::{Lists, list_element_type};
pub(crate) use text_tokens::TextTokenizer;
pub(crate) use texts::Texts;
pub(crate) use tokens::with_byte_tokens;
pub(crate) use tokens::{TokenKind, Tokens};
pub(crate) use value_set::ValueSet;
