//! `edit_script`: the changes that make one text of another, to be read.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::documentation::example;
use super::strings::check_texts;
use crate::values::Texts;

/// Characters of both texts up to which characters are compared, and words beyond, without what both begin and end
/// with: the work of a comparison may grow with the product of the lengths.
const CHARACTERS: usize = 2_000;
/// Words of both texts up to which words are compared, and the texts as wholes beyond.
const WORDS: usize = 4_000;

/// The changes from one text to another: `[-deleted-]` and `{+inserted+}` among what both have, as wdiff marks them. A
/// piece in place of another one stands behind it. NULL gives NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct EditScriptUdf {
    signature: Signature,
}

impl Default for EditScriptUdf {
    fn default() -> Self {
        // As for the distances: any arguments are taken, and the return type checks them.
        let signatures = vec![
            TypeSignature::Exact(vec![DataType::Utf8, DataType::Utf8]),
            TypeSignature::VariadicAny,
            TypeSignature::Nullary,
        ];
        Self { signature: Signature::one_of(signatures, Volatility::Immutable) }
    }
}

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "Returns the changes that make the second text of the first: [-deleted-] and {+inserted+} \
                       among what both have. Long texts are compared by words.";
    Documentation::builder(DOC_SECTION_STRING, description, "edit_script(a, b)")
        .with_argument("a", "Text.")
        .with_argument("b", "Text.")
        .with_sql_example(example(
            "SELECT edit_script('Jane Doe', 'Jon Doe');",
            "J[-a-]{+o+}n[-e-] Doe",
        ))
        .build()
});

impl ScalarUDFImpl for EditScriptUdf {
    fn name(&self) -> &str {
        "edit_script"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        check_texts(self.name(), arg_types)?;
        Ok(DataType::Utf8)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let [left, right] = args.args.as_slice() else {
            return internal_err!("edit_script has two arguments");
        };
        let rows = if all_scalar { 1 } else { args.number_rows };
        let found = scripts([left.to_array(rows)?, right.to_array(rows)?])?;
        Ok(match all_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

/// The script of each row.
fn scripts(sides: [ArrayRef; 2]) -> Result<ArrayRef> {
    let rows = sides[0].len();
    let texts = |side: &ArrayRef| match side.data_type() {
        DataType::Null => Ok(None),
        _ => Texts::try_new(side).map(Some),
    };
    let [left, right] = [texts(&sides[0])?, texts(&sides[1])?];
    let mut scripts = StringBuilder::new();
    for row in 0..rows {
        let value = |texts: &Option<Texts>| {
            texts.as_ref().and_then(|texts| texts.value(row)).map(str::to_string)
        };
        let (Some(left), Some(right)) = (value(&left), value(&right)) else {
            scripts.append_null();
            continue;
        };
        let script = script(&left, &right);
        if i32::try_from(scripts.values_slice().len() + script.len()).is_err() {
            return exec_err!(
                "edit_script: the texts of one batch exceed 2 GiB; use a smaller datafusion.execution.batch_size"
            );
        }
        scripts.append_value(script);
    }
    Ok(Arc::new(scripts.finish()))
}

/// The changes from one text to another.
fn script(left: &str, right: &str) -> String {
    let alike = |pairs: &mut dyn Iterator<Item = (char, char)>| {
        pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum::<usize>()
    };
    let begin = alike(&mut left.chars().zip(right.chars()));
    let (beginning, left, right) = (&left[..begin], &left[begin..], &right[begin..]);
    let end = alike(&mut left.chars().rev().zip(right.chars().rev()));
    let ending = &left[left.len() - end..];
    let middle = [&left[..left.len() - end], &right[..right.len() - end]];
    format!("{beginning}{}{ending}", changes(middle))
}

/// The changes between texts that begin and end differently.
fn changes(texts: [&str; 2]) -> String {
    if texts.iter().map(|text| text.chars().count()).sum::<usize>() <= CHARACTERS {
        let pieces = texts.map(|text| {
            let ends = text.char_indices().map(|(start, c)| &text[start..start + c.len_utf8()]);
            ends.collect::<Vec<_>>()
        });
        return marked(&pieces);
    }
    let words = texts.map(|text| text.split_inclusive(char::is_whitespace).collect::<Vec<_>>());
    match words.iter().map(Vec::len).sum::<usize>() <= WORDS {
        true => marked(&words),
        false => marked(&texts.map(|text| vec![text])),
    }
}

/// The pieces of both texts, with marks around those of one alone.
fn marked([left, right]: &[Vec<&str>; 2]) -> String {
    let mut script = String::new();
    for change in capture_diff_slices(Algorithm::Myers, left, right) {
        let (_, deleted, inserted) = change.as_tag_tuple();
        let [deleted, inserted] = [left.get(deleted), right.get(inserted)]
            .map(|pieces| pieces.unwrap_or_default().concat());
        if let DiffOp::Equal { .. } = change {
            script += &deleted;
            continue;
        }
        if !deleted.is_empty() {
            script += &format!("[-{deleted}-]");
        }
        if !inserted.is_empty() {
            script += &format!("{{+{inserted}+}}");
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::script;

    /// The text on a side of a script whose texts have no marks.
    fn side(script: &str, [left, right]: [&str; 2], [gone, gone_end]: [&str; 2]) -> String {
        let mut text = String::new();
        let mut rest = script;
        while let Some(at) = rest.find(gone) {
            text += &rest[..at];
            let end = rest[at..].find(gone_end).unwrap() + at + gone_end.len();
            rest = &rest[end..];
        }
        text += rest;
        text.replace(left, "").replace(right, "")
    }

    #[test]
    fn scripts_have_both_texts() {
        assert_eq!(script("Jane Doe", "Jane Doe"), "Jane Doe");
        assert_eq!(script("", ""), "");
        assert_eq!(script("", "é"), "{+é+}");
        assert_eq!(script("Jane Doe", "Jon Doe"), "J[-a-]{+o+}n[-e-] Doe");
        let long = "one two ".repeat(800);
        let longer = format!("{long}three ");
        let beyond = "x ".repeat(30_000);
        for [a, b] in [
            ["kitten", "sitting"],
            ["日本語", "日本"],
            [&long, &longer],
            [&beyond, &long],
            [&beyond, &beyond],
        ] {
            let script = script(a, b);
            assert_eq!(side(&script, ["[-", "-]"], ["{+", "+}"]), a);
            assert_eq!(side(&script, ["{+", "+}"], ["[-", "-]"]), b);
        }
        assert!(script(&long, &longer).ends_with(" {+three +}"));
        let changed = beyond.replacen("x x x ", "x y x ", 1);
        assert_eq!(script(&beyond, &changed).matches("[-").count(), 1);
        assert!(script(&beyond, &changed).starts_with("x [-x-]{+y+} x "));
    }
}
