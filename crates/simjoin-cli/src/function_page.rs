//! Writes the description of a function as a page of text, for `\h`.

use std::fmt::Write;

use datafusion::execution::SessionState;
use datafusion::logical_expr::Documentation;

use simjoin_session::meanings;

use super::pair_functions;
use datafusion_simjoin::config::nearest;

/// Columns of a terminal.
const WIDTH: usize = 80;

/// A function as the session has it.
struct SessionFunction<'a> {
    name: &'a str,
    aliases: &'a [String],
    kind: &'static str,
    documentation: Option<&'a Documentation>,
}

impl SessionFunction<'_> {
    fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// The page of each function of that name.
///
/// # Errors
///
/// Where no function has the name, a message with the functions of similar names.
pub(super) fn page(state: &SessionState, name: &str) -> Result<String, String> {
    let name = name.trim().trim_end_matches("()").to_lowercase();
    let all = functions(state);
    let mut pages: Vec<String> = vec![];
    for function in all.iter().filter(|function| function.is_named(&name)) {
        let page = write_page(function);
        if !pages.contains(&page) {
            pages.push(page);
        }
    }
    if !pages.is_empty() {
        return Ok(pages.join("\n\n"));
    }
    let mut names: Vec<&str> = all
        .iter()
        .flat_map(|f| std::iter::once(f.name).chain(f.aliases.iter().map(String::as_str)))
        .collect();
    names.sort_unstable();
    names.dedup();
    if let Some(advice) = meanings::of_function(&name) {
        return Err(format!("there is no function {name}; {advice}"));
    }
    let part = name.trim_matches('%');
    let like: Vec<&str> =
        names.iter().copied().filter(|n| part.len() > 1 && n.contains(part)).collect();
    Err(match (like.as_slice(), nearest(&name, names.iter().copied())) {
        ([], None) => format!("there is no function {name}; \\h lists all"),
        ([], Some(near)) => format!("there is no function {name}; did you mean {near}?"),
        (like, _) => format!("there is no function {name}, but {}", like.join(", ")),
    })
}

fn functions(state: &SessionState) -> Vec<SessionFunction<'_>> {
    let scalar = state.scalar_functions().values().map(|f| SessionFunction {
        name: f.name(),
        aliases: f.aliases(),
        kind: "scalar function",
        documentation: f.documentation(),
    });
    let higher_order = state.higher_order_functions().values().map(|f| SessionFunction {
        name: f.name(),
        aliases: f.aliases(),
        kind: "function that takes a lambda",
        documentation: f.documentation(),
    });
    let aggregate = state.aggregate_functions().values().map(|f| SessionFunction {
        name: f.name(),
        aliases: f.aliases(),
        kind: "aggregate function",
        documentation: f.documentation(),
    });
    let window = state.window_functions().values().map(|f| SessionFunction {
        name: f.name(),
        aliases: f.aliases(),
        kind: "window function",
        documentation: f.documentation(),
    });
    let table = state.table_functions().keys().map(|name| SessionFunction {
        name,
        aliases: &[],
        kind: "table function",
        documentation: None,
    });
    let pairs = pair_functions::all().iter().map(|documentation| SessionFunction {
        name: pair_functions::name(documentation),
        aliases: &[],
        kind: "table function over pairs",
        documentation: Some(documentation),
    });
    let scalar = scalar.chain(higher_order).chain(aggregate).chain(window);
    scalar.chain(table).chain(pairs).collect()
}

fn write_page(function: &SessionFunction<'_>) -> String {
    let SessionFunction { name, aliases, kind, documentation } = function;
    let call = match documentation {
        Some(documentation) => documentation.syntax_example.trim(),
        None => name,
    };
    let mut page = PageWriter::default();
    page.paragraph(call, 0, 4);
    page.paragraph(&format!("({kind})"), 0, 0);
    let Some(documentation) = documentation else { return page.text() };
    page.gap();
    page.prose(&without_links(&documentation.description), 0);
    let arguments = documentation.arguments.as_deref().unwrap_or_default();
    if !arguments.is_empty() {
        page.heading("Arguments");
        for (argument, text) in arguments {
            page.prose(&format!("{argument}: {}", without_links(text)), 2);
        }
    }
    let mut other: Vec<String> = documentation.alternative_syntax.clone().unwrap_or_default();
    other.extend(
        aliases
            .iter()
            .filter(|a| !other.iter().any(|o| o.starts_with(*a)))
            .cloned()
            .collect::<Vec<_>>(),
    );
    if !other.is_empty() {
        page.heading("Also written");
        page.paragraph(&other.join(", "), 2, 2);
    }
    if let Some(related) = &documentation.related_udfs {
        page.heading("See also");
        page.paragraph(&related.join(", "), 2, 2);
    }
    if let Some(example) = &documentation.sql_example {
        page.heading("Example");
        for line in example.lines().filter(|line| !line.trim_start().starts_with("```")) {
            page.verbatim(line);
        }
    }
    page.text()
}

/// Markdown without the addresses of its links.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(middle) = rest.find("](")
        && let Some(start) = rest[..middle].rfind('[')
        && let Some(end) = rest[middle..].find(')')
    {
        plain.push_str(&rest[..start]);
        plain.push_str(&rest[start + 1..middle]);
        rest = &rest[middle + end + 1..];
    }
    plain + rest
}

/// Lines of at most [`WIDTH`] columns.
#[derive(Default)]
struct PageWriter(String);

impl PageWriter {
    fn text(self) -> String {
        self.0.trim_end().to_string()
    }

    fn gap(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    fn heading(&mut self, heading: &str) {
        self.gap();
        self.line(heading);
    }

    fn line(&mut self, line: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "{}", line.trim_end());
    }

    /// Markdown: lines that belong together flow, items of lists and rows of tables stay apart.
    fn prose(&mut self, text: &str, indent: usize) {
        let mut flowing = String::new();
        for line in text.lines().map(str::trim) {
            let stands_alone = line.starts_with(['-', '|', '*', '#', '>', '+']);
            if line.is_empty() || stands_alone {
                self.paragraph(&std::mem::take(&mut flowing), indent, indent + 2);
            }
            match () {
                () if line.starts_with("```") => {}
                () if line.is_empty() => self.gap(),
                () if stands_alone => self.paragraph(line, indent, indent + 2),
                () => {
                    flowing.push(' ');
                    flowing.push_str(line);
                }
            }
        }
        let hanging = if indent > 0 { indent + 2 } else { 0 };
        self.paragraph(&flowing, indent, hanging);
    }

    /// Words, the first line indented by `first`, the others by `rest`.
    fn paragraph(&mut self, text: &str, first: usize, rest: usize) {
        let mut line = " ".repeat(first);
        let mut is_empty = true;
        for word in text.split_whitespace() {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.line(&line);
                line = " ".repeat(rest);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        if !is_empty {
            self.verbatim_at(&line, 0);
        }
    }

    fn verbatim(&mut self, line: &str) {
        self.verbatim_at(line, 2);
    }

    /// The line as it is, folded where it is too long.
    fn verbatim_at(&mut self, line: &str, indent: usize) {
        let characters: Vec<char> = line.trim_end().chars().collect();
        if characters.is_empty() {
            return self.line("");
        }
        for part in characters.chunks(WIDTH - indent) {
            let part: String = part.iter().collect();
            self.line(&format!("{:indent$}{part}", ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;

    use super::*;
    use datafusion_simjoin::install;

    fn state() -> SessionState {
        let builder = SessionStateBuilder::new_with_default_features();
        install(builder).unwrap().build()
    }

    #[test]
    fn a_page_says_what_a_function_is() {
        let expected = "\
jaccard(a, b)
(scalar function)

Returns the Jaccard similarity of two lists read as sets: the number of common
elements divided by the number of distinct elements of both.

Arguments
  a: List of integers, text or binary. Repeated elements count once, NULL
    elements are ignored; a NULL list gives NULL, an empty set 0.
  b: List of integers, text or binary. Repeated elements count once, NULL
    elements are ignored; a NULL list gives NULL, an empty set 0.

Also written
  array_jaccard(a, b), list_jaccard(a, b), jaccard_similarity(a, b),
  jaccard_index(a, b)

See also
  dice, set_cosine, overlap, overlap_coefficient, containment

Example
  > SELECT jaccard([1, 2, 3], [2, 3, 4]);
  +-----+
  | 0.5 |
  +-----+";
        assert_eq!(page(&state(), "jaccard").unwrap(), expected);
        assert_eq!(page(&state(), "LIST_JACCARD()").unwrap(), expected);
    }

    #[test]
    fn every_function_has_a_page_that_fits_a_terminal() {
        let state = state();
        let functions = functions(&state);
        assert!(functions.len() > 200, "{}", functions.len());
        for function in functions {
            let page = page(&state, function.name).unwrap();
            assert!(page.lines().all(|line| line.chars().count() <= WIDTH), "{page}");
            assert!(page.contains(function.kind), "{page}");
        }
        // A scalar and a table function.
        let pages = page(&state, "generate_series").unwrap();
        assert!(pages.contains("scalar function") && pages.contains("table function"), "{pages}");
    }

    #[test]
    fn a_name_that_is_none_brings_those_like_it() {
        let told = |name| page(&state(), name).unwrap_err();
        assert_eq!(told("jacard"), "there is no function jacard; did you mean jaccard?");
        assert!(told("%gram").contains("qgrams"), "{}", told("%gram"));
        assert_eq!(told("nosuch"), "there is no function nosuch; \\h lists all");
        let accents = told("strip_accents");
        assert!(accents.contains("; unaccent(text) drops accents"), "{accents}");
    }
}
