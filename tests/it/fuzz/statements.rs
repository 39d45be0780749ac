//! Whole statements.

use rand::Rng;
use rand::rngs::StdRng;

use super::conditions::Text;
use super::joins::{Generator, Join};
use super::nearest;
use super::world::World;

/// A statement for the operator, and its form for the nested loop.
pub struct Statement {
    pub ours: String,
    pub oracle: String,
}

impl Statement {
    pub fn draw(rng: &mut StdRng, world: &World) -> Self {
        let mut generator = Generator::new(world, rng.random(), None);
        if generator.rng.random_range(0..4) == 0 {
            return nearest::draw(&mut generator);
        }
        let depth = [1, 1, 2, 2, 3][rng.random_range(0..5)];
        let join = Join::draw(&mut generator, depth);
        let (list, group) = select_list(&mut generator, &join);
        let from = join.from();
        Self {
            ours: format!("SELECT {} FROM {}{}", list.ours, from.ours, group.ours),
            oracle: format!("SELECT {} FROM {}{}", list.oracle, from.oracle, group.oracle),
        }
    }
}

/// The select list and what follows the join.
fn select_list(generator: &mut Generator<'_>, join: &Join) -> (Text, Text) {
    let (a, b) = (&join.left.alias, &join.right.alias);
    let (has_left, has_right) = join.sides();
    let mut columns = vec![];
    let side = match (has_left, has_right) {
        (true, true) => [a, b][generator.pick(2)],
        (true, false) => a,
        _ => b,
    };
    match generator.rng.random_range(0..10) {
        0..5 => {
            for (has, s) in [(has_left, a), (has_right, b)] {
                if has {
                    let names = [["id", "w"], ["id", "k"], ["id", "f"]][generator.pick(3)];
                    columns
                        .extend(names.map(|name| Text::same(format!("{s}.{name} AS {s}_{name}"))));
                }
            }
            if has_left && has_right {
                for i in 0..generator.rng.random_range(0..3) {
                    let score = join.draw_score(generator);
                    columns.push(Text {
                        ours: format!("{} AS s{i}", score.ours),
                        oracle: format!("{} AS s{i}", score.oracle),
                    });
                }
            }
            (listed(&columns), Text::same(""))
        }
        5 | 6 => (Text::same(counts(join)), Text::same("")),
        7 | 8 => {
            let by = match generator.pick(4) {
                0 => format!("{side}.id"),
                1 => format!("{side}.k"),
                2 => format!("{side}.id % 3"),
                _ => format!("{side}.flag"),
            };
            let having = if generator.rng.random_bool(0.2) { " HAVING count(*) > 1" } else { "" };
            let list = Text::same(format!("{by} AS g, {}", counts(join)));
            (list, Text::same(format!(" GROUP BY {by}{having}")))
        }
        _ => (Text::same(format!("DISTINCT {side}.k AS k, {side}.w AS w")), Text::same("")),
    }
}

fn counts(join: &Join) -> String {
    let (a, b) = (&join.left.alias, &join.right.alias);
    let (has_left, has_right) = join.sides();
    let mut counts = vec!["count(*)".to_string()];
    for (has, s) in [(has_left, a), (has_right, b)] {
        if has {
            counts.extend([format!("count({s}.id)"), format!("count({s}.w)")]);
        }
    }
    counts.join(", ")
}

fn listed(columns: &[Text]) -> Text {
    let join = |text: fn(&Text) -> &String| {
        columns.iter().map(|column| text(column).as_str()).collect::<Vec<_>>().join(", ")
    };
    Text { ours: join(|c| &c.ours), oracle: join(|c| &c.oracle) }
}
