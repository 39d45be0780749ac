//! Dictionaries as plain columns.

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;

use crate::error::Result;

/// The rows of a dictionary as a column of type `to`, such as views of its values. A row is NULL where its
/// key is, and where the value of its key is: Arrow's cast to views looks at the keys alone.
pub fn unpacked(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(cast(array, to)?) };
    let values = cast(dictionary.values(), to)?;
    Ok(take(&values, dictionary.keys(), None)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, DictionaryArray, Int8Array, StringArray};

    use super::*;
    use crate::values::{Texts, Tokens};

    /// Rows 0 and 3 have a value that is NULL above the bytes "zz", row 2 a key that is NULL.
    fn dictionary(values: ArrayRef) -> ArrayRef {
        let keys = Int8Array::from(vec![Some(0), Some(1), None, Some(0)]);
        Arc::new(DictionaryArray::try_new(keys, values).unwrap())
    }

    #[test]
    fn values_that_are_null_make_rows_null() {
        let values = StringArray::from(vec!["zz", "a"]);
        let nulls = Some(vec![false, true].into());
        let texts = StringArray::new(values.offsets().clone(), values.values().clone(), nulls);
        let binary = cast(&(Arc::new(texts.clone()) as ArrayRef), &DataType::Binary).unwrap();
        let binary: &BinaryArray = binary.as_binary();
        let large = cast(&(Arc::new(texts.clone()) as ArrayRef), &DataType::LargeUtf8).unwrap();
        for values in [Arc::new(texts) as ArrayRef, large] {
            let array = dictionary(values);
            let texts = Texts::try_new(&array).unwrap();
            let rows: Vec<_> = (0..4).map(|row| texts.value(row)).collect();
            assert_eq!(rows, [None, Some("a"), None, None]);
            let tokens = Tokens::try_new(&array).unwrap();
            let valid: Vec<_> = tokens.nulls().unwrap().iter().collect();
            assert_eq!(valid, [false, true, false, false]);
        }
        let tokens = Tokens::try_new(&dictionary(Arc::new(binary.clone()))).unwrap();
        let valid: Vec<_> = tokens.nulls().unwrap().iter().collect();
        assert_eq!(valid, [false, true, false, false]);
    }
}
