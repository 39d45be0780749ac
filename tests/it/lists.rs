//! List columns of every token type and layout, from logical lists.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, FixedSizeBinaryArray, FixedSizeListArray, Int64Array, LargeListArray,
    LargeListViewArray, ListArray, ListViewArray, StringArray, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};

use crate::oracle::{List, Token};

/// Element types of one kind can be compared with each other.
pub const INTEGERS: [DataType; 8] = [
    DataType::Int64,
    DataType::UInt64,
    DataType::Int32,
    DataType::UInt32,
    DataType::Int16,
    DataType::UInt16,
    DataType::Int8,
    DataType::UInt8,
];
pub const TEXTS: [DataType; 3] = [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View];
pub const BINARIES: [DataType; 4] =
    [DataType::Binary, DataType::LargeBinary, DataType::BinaryView, DataType::FixedSizeBinary(4)];

/// `values`, encoded by a dictionary.
pub fn dictionary(values: DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(values))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    List,
    LargeList,
    ListView,
    LargeListView,
    FixedSizeList,
}

impl Layout {
    pub const ALL: [Self; 5] =
        [Self::List, Self::LargeList, Self::ListView, Self::LargeListView, Self::FixedSizeList];
}

/// The token number `number` of a type: small numbers are equal across the types of a kind, the
/// ones from 24 on are the traps (values that only differ by sign or by width).
pub fn token(element: &DataType, number: u32) -> Token {
    match element {
        DataType::Dictionary(_, values) => token(values, number),
        t if number < 24 && t.is_integer() => Token::Int(number.into()),
        DataType::UInt64 => Token::Int(i128::from(u64::MAX) - i128::from(number - 24)),
        t if t.is_signed_integer() => Token::Int(-1 - i128::from(number - 24)),
        t if t.is_integer() => Token::Int(number.into()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Token::Text(match number % 5 {
                0 if number == 0 => String::new(),
                1 => format!("a token that fits no view inline, number {number}"),
                2 => format!("jäger-{number}-läuft"),
                _ => format!("t{number}"),
            })
        }
        DataType::FixedSizeBinary(_) => Token::Bytes(vec![0xff, 0, number as u8, 7]),
        _ => Token::Bytes(match number {
            0 => Vec::new(),
            n if n % 11 == 5 => vec![n as u8; 40],
            n => vec![0xff, 0, n as u8, 7],
        }),
    }
}

/// An array of elements of type `element`.
fn elements(element: &DataType, tokens: &[Option<Token>]) -> ArrayRef {
    let bytes = || {
        tokens.iter().map(|t| match t {
            Some(Token::Bytes(b)) => Some(b.as_slice()),
            None => None,
            Some(other) => panic!("{other:?} is no binary token"),
        })
    };
    let exact: ArrayRef = match element {
        DataType::Null => return arrow::array::new_null_array(element, tokens.len()),
        DataType::Dictionary(_, values) => elements(values, tokens),
        DataType::UInt64 => Arc::new(UInt64Array::from_iter(tokens.iter().map(|t| match t {
            Some(Token::Int(v)) => Some(u64::try_from(*v).expect("a UInt64 token")),
            None => None,
            Some(other) => panic!("{other:?} is no integer token"),
        }))),
        t if t.is_integer() => Arc::new(Int64Array::from_iter(tokens.iter().map(|t| match t {
            Some(Token::Int(v)) => Some(i64::try_from(*v).expect("an Int64 token")),
            None => None,
            Some(other) => panic!("{other:?} is no integer token"),
        }))),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Arc::new(StringArray::from_iter(tokens.iter().map(|t| match t {
                Some(Token::Text(v)) => Some(v.as_str()),
                None => None,
                Some(other) => panic!("{other:?} is no text token"),
            })))
        }
        DataType::FixedSizeBinary(width) => Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes(), *width)
                .expect("tokens of the fixed width"),
        ),
        _ => Arc::new(BinaryArray::from_iter(bytes())),
    };
    cast(&exact, element).expect("a cast that keeps the values")
}

/// A column of `lists` with the given element type and layout.
///
/// Nothing is as tidy as a builder would make it: offsets do not start at zero, a NULL list has
/// elements beneath it, views are out of order and share elements. A fixed-size list is filled up
/// with NULL elements, which belong to no set.
pub fn list_column(element: &DataType, layout: Layout, lists: &[List]) -> ArrayRef {
    let nulls = NullBuffer::from_iter(lists.iter().map(Option::is_some));
    let field = Arc::new(Field::new_list_field(element.clone(), true));
    let garbage = || token_or_null(element);
    let mut tokens: Vec<Option<Token>> = vec![garbage(), None];
    let body = |list: &List| list.clone().unwrap_or_else(|| vec![garbage(); 2]);
    match layout {
        Layout::List | Layout::LargeList => {
            let mut offsets = vec![tokens.len()];
            for list in lists {
                tokens.extend(body(list));
                offsets.push(tokens.len());
            }
            tokens.push(garbage());
            let values = elements(element, &tokens);
            if layout == Layout::List {
                let offsets = offsets.iter().map(|&o| o as i32).collect::<Vec<_>>();
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Arc::new(ListArray::new(field, offsets, values, Some(nulls)))
            } else {
                let offsets = offsets.iter().map(|&o| o as i64).collect::<Vec<_>>();
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Arc::new(LargeListArray::new(field, offsets, values, Some(nulls)))
            }
        }
        Layout::ListView | Layout::LargeListView => {
            let (mut offsets, mut sizes) = (vec![0; lists.len()], vec![0; lists.len()]);
            for (i, list) in lists.iter().enumerate().rev() {
                let twin = lists[i + 1..].iter().position(|later| later == list);
                if let Some(twin) = twin.filter(|_| list.is_some()) {
                    (offsets[i], sizes[i]) = (offsets[i + 1 + twin], sizes[i + 1 + twin]);
                    continue;
                }
                let body = body(list);
                (offsets[i], sizes[i]) = (tokens.len(), body.len());
                tokens.extend(body);
            }
            let values = elements(element, &tokens);
            if layout == Layout::ListView {
                let narrow = |v: &[usize]| v.iter().map(|&o| o as i32).collect::<Vec<_>>().into();
                let (offsets, sizes) = (narrow(&offsets), narrow(&sizes));
                Arc::new(ListViewArray::new(field, offsets, sizes, values, Some(nulls)))
            } else {
                let wide = |v: &[usize]| v.iter().map(|&o| o as i64).collect::<Vec<_>>().into();
                let (offsets, sizes) = (wide(&offsets), wide(&sizes));
                Arc::new(LargeListViewArray::new(field, offsets, sizes, values, Some(nulls)))
            }
        }
        Layout::FixedSizeList => {
            let width = lists.iter().flatten().map(Vec::len).max().unwrap_or(0).max(1);
            tokens.clear();
            tokens.resize_with(width, &garbage);
            for list in lists {
                let mut body = list.clone().unwrap_or_else(|| vec![garbage(); width]);
                body.resize(width, None);
                tokens.extend(body);
            }
            let values = elements(element, &tokens);
            let nulls = NullBuffer::from_iter(
                std::iter::once(false).chain(lists.iter().map(Option::is_some)),
            );
            let padded = FixedSizeListArray::new(field, width as i32, values, Some(nulls));
            Arc::new(padded.slice(1, lists.len()))
        }
    }
}

/// Something to lie where no row looks.
fn token_or_null(element: &DataType) -> Option<Token> {
    (element != &DataType::Null).then(|| token(element, 3))
}
