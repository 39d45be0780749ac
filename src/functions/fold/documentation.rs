//! The documentation of the functions that fold texts.

use std::sync::LazyLock;

use datafusion::logical_expr::Documentation;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::TextFold;
use crate::functions::documentation::example;

static FOLDS: LazyLock<[Documentation; 3]> = LazyLock::new(|| TextFold::ALL.map(documentation));

pub(super) fn of_fold(fold: TextFold) -> &'static Documentation {
    &FOLDS[fold as usize]
}

fn documentation(fold: TextFold) -> Documentation {
    let builder = match fold {
        TextFold::Normalize => Documentation::builder(
            DOC_SECTION_STRING,
            "Returns a text in a normal form of Unicode, so that an accented letter is the same \
             whether it was written as one character or as a letter and a mark. The forms NFKC and \
             NFKD replace compatible characters as well: ligatures, and letters and digits of full \
             width.",
            "normalize(text, form)",
        )
        .with_sql_example(example("SELECT character_length(normalize('é', 'NFD'));", "2"))
        .with_argument("text", "Text; NULL gives NULL.")
        .with_argument("form", "'NFC' (without it), 'NFD', 'NFKC' or 'NFKD'; NULL gives NULL.")
        .with_alternative_syntax("normalize(text)"),
        TextFold::Unaccent => Documentation::builder(
            DOC_SECTION_STRING,
            "Returns a text without accents, in normal form NFC. Marks above, below and attached to \
             letters are dropped, and the points of Hebrew, Arabic and Syriac; Latin letters with a \
             stroke and ligatures become plain letters. The vowel signs and tone marks of South and \
             Southeast Asia and the voicing marks of kana stay.",
            "unaccent(text)",
        )
        .with_sql_example(example("SELECT unaccent('Łódź, Straße, Nguyễn');", "Lodz, Strasse, Nguyen"))
        .with_argument("text", "Text; NULL gives NULL."),
        TextFold::Casefold => Documentation::builder(
            DOC_SECTION_STRING,
            "Returns a text by Unicode's full case folding, the same for texts that differ in case \
             alone, also where the lower case differs: ß and SS, σ and ς. It is that of no language: \
             of Turkish, I becomes i, İ becomes i with a dot above, and ı stays.",
            "casefold(text)",
        )
        .with_sql_example(example("SELECT casefold('Straße') = casefold('STRASSE');", "true"))
        .with_argument("text", "Text; NULL gives NULL."),
    };
    let others = TextFold::ALL.into_iter().filter(|&f| f != fold);
    others.fold(builder, |b, other| b.with_related_udf(other.name())).build()
}
