//! Columns of weighted sets.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    AnyDictionaryArray, Array, ArrayRef, AsArray, BinaryBuilder, LargeBinaryArray, UInt32Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt32Type};
use arrow::util::display::array_value_to_string;

use crate::error::{Result, exec_err, internal_err};
use crate::values::tokens::IntegerToken;
use crate::values::{Lists, TokenKind, Tokens, list_element_type};

/// The fields of an element.
const TOKEN: &str = "token";
const WEIGHT: &str = "weight";

/// The kind of the tokens of weighted sets of a type; `None` of any other type.
///
/// A weighted set is a list, of any layout, of structs with the fields `token` (an integer, text or binary) and
/// `weight` (an integer, from 0 to 2³² - 1).
pub fn token_kind(data_type: &DataType) -> Option<TokenKind> {
    match data_type {
        DataType::Null => Some(TokenKind::Null),
        DataType::Dictionary(_, values) => token_kind(values),
        other => match list_element_type(other)? {
            DataType::Null => Some(TokenKind::Null),
            DataType::Struct(fields) => {
                let (_, weight) = fields.find(WEIGHT)?;
                let (_, token) = fields.find(TOKEN)?;
                let weights = weight.data_type();
                let is_pair = fields.len() == 2 && (weights.is_integer() || weights.is_null());
                is_pair.then(|| TokenKind::of_element(token.data_type())).flatten()
            }
            _ => None,
        },
    }
}

/// Whether values of a type are weighted sets.
pub fn is_weighted_set(data_type: &DataType) -> bool {
    token_kind(data_type).is_some()
}

/// Lists of tokens with weights.
#[derive(Debug)]
pub(super) struct WeightedColumn {
    pub lists: Lists,
    pub elements: WeightedElements,
}

/// The elements of all lists of a column.
#[derive(Debug)]
pub(super) struct WeightedElements {
    pub tokens: ElementTokens,
    /// None where the column has no element.
    weights: Option<UInt32Array>,
    /// The elements that count: neither they nor their tokens are NULL. `None`: all do.
    valid: Option<NullBuffer>,
}

/// The tokens of elements.
#[derive(Debug)]
pub(super) enum ElementTokens {
    /// The tokens themselves.
    Plain(Tokens),
    /// The places of tokens among values that many batches may share.
    Shared { keys: Vec<u32>, values: ArrayRef, tokens: Tokens },
}

impl WeightedColumn {
    /// The column of an array: of weighted sets, or of the form in which they are [stored](store_element).
    pub(super) fn try_new(array: &dyn Array) -> Result<Self> {
        if let Some(stored) = array.as_binary_opt::<i64>() {
            return Ok(decode(stored));
        }
        let lists = Lists::try_new(array)?;
        let elements = match lists.elements().as_struct_opt() {
            Some(pairs) => {
                let field = |name: &str| pairs.column_by_name(name);
                let (Some(tokens), Some(weights)) = (field(TOKEN), field(WEIGHT)) else {
                    return internal_err!("elements of weighted sets are {}", pairs.data_type());
                };
                WeightedElements::new(tokens, weights, pairs.nulls())?
            }
            None => WeightedElements {
                tokens: ElementTokens::Plain(Tokens::Null),
                weights: None,
                valid: None,
            },
        };
        Ok(Self { lists, elements })
    }

    /// The range of the elements of a row; `None` where it is NULL.
    #[inline]
    pub(super) fn row(&self, row: usize) -> Option<Range<usize>> {
        self.lists.row(row)
    }

    /// The elements that rows of the column have.
    pub(super) fn element_count(&self) -> usize {
        match &self.elements.weights {
            Some(_) => {
                (0..self.lists.len()).filter_map(|row| self.lists.row(row)).map(|r| r.len()).sum()
            }
            None => 0,
        }
    }
}

impl WeightedElements {
    fn new(tokens: &ArrayRef, weights: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Self> {
        let weights = whole_weights(weights)?;
        let valid = NullBuffer::union(nulls, weights.nulls());
        let valid = NullBuffer::union(valid.as_ref(), tokens.logical_nulls().as_ref());
        let valid = valid.filter(|valid| valid.null_count() > 0);
        Ok(Self { tokens: ElementTokens::of(tokens)?, weights: Some(weights), valid })
    }

    /// Whether an element counts.
    #[inline]
    pub(super) fn is_valid(&self, index: usize) -> bool {
        self.weight(index) > 0 && self.valid.as_ref().is_none_or(|valid| valid.is_valid(index))
    }

    /// Whether elements may be NULL.
    pub(super) fn has_nulls(&self) -> bool {
        self.valid.is_some()
    }

    /// The weight of an element.
    #[inline]
    pub(super) fn weight(&self, index: usize) -> u32 {
        self.weights.as_ref().map_or(0, |weights| weights.value(index))
    }
}

impl ElementTokens {
    fn of(tokens: &ArrayRef) -> Result<Self> {
        if let Some(dictionary) = tokens.as_any_dictionary_opt() {
            let values = dictionary.values();
            if !matches!(values.data_type(), DataType::Dictionary(..)) && values.null_count() == 0 {
                return Self::shared(dictionary);
            }
        }
        Ok(Self::Plain(Tokens::try_new(tokens)?))
    }

    fn shared(dictionary: &dyn AnyDictionaryArray) -> Result<Self> {
        let values = Arc::clone(dictionary.values());
        let tokens = Tokens::try_new(&values)?;
        let keys = match dictionary.keys().as_primitive_opt::<UInt32Type>() {
            Some(keys) => keys.values().to_vec(),
            None if values.is_empty() => vec![0; dictionary.keys().len()],
            None => dictionary.normalized_keys().into_iter().map(|key| key as u32).collect(),
        };
        Ok(Self::Shared { keys, values, tokens })
    }
}

/// Weights as 32-bit numbers.
fn whole_weights(weights: &ArrayRef) -> Result<UInt32Array> {
    if let Some(weights) = weights.as_primitive_opt::<UInt32Type>() {
        return Ok(weights.clone());
    }
    // A number that does not fit becomes NULL.
    let cast = cast(weights, &DataType::UInt32)?;
    let cast = cast.as_primitive::<UInt32Type>();
    if cast.null_count() > weights.logical_null_count() {
        let beyond = (0..weights.len()).find(|&at| cast.is_null(at) && weights.is_valid(at));
        let found = beyond.map(|at| array_value_to_string(weights, at)).transpose()?;
        return exec_err!(
            "the weight {} of a token of a weighted set is not between 0 and {}",
            found.unwrap_or_default(),
            u32::MAX
        );
    }
    Ok(cast.clone())
}

/// A token as it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum StoredToken<'a> {
    Integer(IntegerToken),
    Bytes(&'a [u8]),
}

/// Appends an element of a stored set: the kind of the token, the weight, the token.
pub(super) fn store_element(to: &mut Vec<u8>, token: StoredToken<'_>, weight: u32) {
    let number;
    let (kind, bytes): (u8, &[u8]) = match token {
        StoredToken::Integer(IntegerToken { negative, bits }) => {
            number = bits.to_le_bytes();
            (1 + u8::from(negative), &number)
        }
        StoredToken::Bytes(bytes) => (0, bytes),
    };
    to.push(kind);
    to.extend(weight.to_le_bytes());
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(bytes);
}

/// Reads an element of a stored set from the front of `bytes`.
fn next_element<'a>(bytes: &mut &'a [u8]) -> Option<(StoredToken<'a>, u32)> {
    let (head, rest) = bytes.split_first_chunk::<9>()?;
    let [kind, a, b, c, d, e, f, g, h] = *head;
    let weight = u32::from_le_bytes([a, b, c, d]);
    let (token, rest) = rest.split_at_checked(u32::from_le_bytes([e, f, g, h]) as usize)?;
    *bytes = rest;
    let token = match kind {
        0 => StoredToken::Bytes(token),
        kind => {
            let bits = u64::from_le_bytes(*token.first_chunk::<8>()?);
            StoredToken::Integer(IntegerToken { negative: kind == 2, bits })
        }
    };
    Some((token, weight))
}

/// The column of stored sets, whose tokens are all of one kind.
fn decode(stored: &LargeBinaryArray) -> WeightedColumn {
    let (mut integers, mut bytes) = (vec![], BinaryBuilder::new());
    let (mut weights, mut ends) = (vec![], vec![0_i64]);
    for row in stored {
        let mut row = row.unwrap_or_default();
        while let Some((token, weight)) = next_element(&mut row) {
            match token {
                StoredToken::Integer(token) => integers.push(token),
                StoredToken::Bytes(value) => bytes.append_value(value),
            }
            weights.push(weight);
        }
        ends.push(weights.len() as i64);
    }
    // A column has no negative integers beside those that no signed one holds.
    let fits = |token: &IntegerToken| token.negative || i64::try_from(token.bits).is_ok();
    let bits = integers.iter().map(|token| token.bits);
    let tokens = match integers.is_empty() {
        true => Tokens::Binary(bytes.finish()),
        false if integers.iter().all(fits) => {
            Tokens::Signed(bits.map(|bits| bits as i64).collect::<Vec<_>>().into())
        }
        false => Tokens::Unsigned(bits.collect::<Vec<_>>().into()),
    };
    let lists = Lists::of_offsets(ends, stored.nulls().cloned());
    let tokens = ElementTokens::Plain(tokens);
    let elements =
        WeightedElements { tokens, weights: Some(UInt32Array::from(weights)), valid: None };
    WeightedColumn { lists, elements }
}
