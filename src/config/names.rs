//! Names that were mistyped.

use datafusion::common::utils::datafusion_strsim::levenshtein;

/// The candidate most like `name`, if it differs by a few letters only.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let few = ((name.chars().count() + 1) / 3).max(1);
    let distance = |candidate: &str| levenshtein(&name, &candidate.to_lowercase());
    candidates
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, candidate)| {
            // A short name is not the other with all its letters changed.
            *distance <= few && *distance < candidate.chars().count().max(2)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_few_other_letters_are_near() {
        let near = |name| nearest(name, ["id", "tokens", "title", "token_count"]);
        assert_eq!(near("tokns"), Some("tokens"));
        assert_eq!(near("TOKENS"), Some("tokens"));
        assert_eq!(near("ids"), Some("id"));
        assert_eq!(near("titel"), Some("title"));
        assert_eq!(near("nope"), None);
        assert_eq!(near("x"), None);
        assert_eq!(near("jaccard"), None);
    }
}
