//! The types of arguments that are texts, and advice for those that are not.

use arrow::datatypes::DataType;

use crate::values::{TokenKind, list_element_type};

/// The type of the values of a column, dictionary-encoded or not.
pub(super) fn without_dictionary(argument: &DataType) -> &DataType {
    let mut values = argument;
    while let DataType::Dictionary(_, inner) = values {
        values = inner;
    }
    values
}

/// Whether an argument is text of any layout, or NULL.
pub(super) fn is_text(argument: &DataType) -> bool {
    matches!(
        without_dictionary(argument),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null
    )
}

/// Advice for an argument of a function of one text that is no text.
pub(super) fn advice_for_text(argument: &DataType) -> &'static str {
    let values = without_dictionary(argument);
    match TokenKind::of_element(values) {
        Some(TokenKind::Binary) => "arrow_cast(x, 'Utf8') reads bytes as text",
        _ if list_element_type(values).is_some() => {
            "array_to_string(list, ' ') makes a text of a list"
        }
        _ => "CAST(x AS VARCHAR) gives text",
    }
}

/// Advice for an argument of the function `name` of two texts that is no text.
pub(super) fn advice_for_pair(name: &str, argument: &DataType) -> &'static str {
    let values = without_dictionary(argument);
    let kind = TokenKind::of_element(values);
    if name == "hamming" && matches!(kind, Some(TokenKind::Binary | TokenKind::Integer)) {
        return match kind {
            Some(TokenKind::Binary) => {
                "the bits of bytes are not compared yet: give texts of the digits 0 and 1, or lists of \
                 the places of the bits that are set to jaccard (Tanimoto's coefficient) or overlap"
            }
            _ => {
                "the bits of integers are not compared yet: give texts of the digits 0 and 1, or make \
                 lists of 2 * i + ((x >> i) & 1) for i from 0 to 63, of which at most 6 bits differ \
                 where overlap(a.bits, b.bits) >= 64 - 6"
            }
        };
    }
    match kind {
        Some(TokenKind::Binary) => "arrow_cast(x, 'Utf8') reads bytes as text",
        _ if list_element_type(values).is_some() => {
            "array_to_string(list, ' ') makes a text of a list; lists are joined by jaccard and its kind"
        }
        _ if values.is_numeric() => {
            "codes such as 01427 have lost their zeros where a file was read with numbers: declare the \
             column, as in CREATE EXTERNAL TABLE t (zip TEXT, …) STORED AS CSV LOCATION 'x.csv'; \
             otherwise CAST(x AS VARCHAR)"
        }
        _ if values.is_temporal() => {
            "the days between two dates are a.d - b.d, as in abs(a.d - b.d) <= 3; CAST(x AS VARCHAR) compares \
             their digits"
        }
        _ => "cast it, for example with CAST(x AS VARCHAR)",
    }
}
