//! Relations and joins of them.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::conditions::{self, Text, of_both, of_one};
use super::vectors;
use super::world::{Joins, TABLES, World};
use crate::vector_oracle::Metric;

pub const MEASURES: [&str; 6] =
    ["jaccard", "dice", "set_cosine", "overlap", "overlap_coefficient", "containment"];

/// The name of the parameters of lambdas for the nested loop: no column has it.
pub const PARAMETER: &str = "element";

/// Draws relations. Two generators with one seed draw the same, but for the choice that one of them
/// twists.
pub struct Generator<'a> {
    pub rng: StdRng,
    pub world: &'a World,
    /// The number of the choice that falls on the neighbour of what was drawn.
    twist: Option<usize>,
    choices: usize,
}

impl<'a> Generator<'a> {
    pub fn new(world: &'a World, seed: u64, twist: Option<usize>) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), world, twist, choices: 0 }
    }

    pub fn has_integers(&self) -> bool {
        self.world.has_integers
    }

    /// Draws a number below `count`.
    pub fn pick(&mut self, count: usize) -> usize {
        let drawn = self.rng.random_range(0..count);
        let twisted = self.twist == Some(self.choices);
        self.choices += 1;
        (drawn + usize::from(twisted)) % count
    }

    pub fn has_lambdas(&self) -> bool {
        self.world.has_lambdas
    }

    /// The elements of a list that meet a condition, in a lambda with a parameter of this name.
    pub fn filtered(&mut self, list: &str, parameter: &str) -> Text {
        let condition = match self.has_integers() {
            true => format!("> {}", self.rng.random_range(0..4)),
            false => "<> 't3'".to_string(),
        };
        let write = |name: &str| format!("array_filter({list}, {name} -> {name} {condition})");
        Text { ours: write(parameter), oracle: write(PARAMETER) }
    }

    /// A relation of the columns of every table, made of up to `depth` joins on top of each other.
    pub fn relation(&mut self, depth: usize) -> Text {
        match self.rng.random_range(0..14) {
            0..6 => Text::same(*["n", "n", "m", TABLES[2]].choose(&mut self.rng).unwrap()),
            6 => Text::same(self.world.file(&mut self.rng)),
            7 => {
                let mut side = Aliased::new("s", Text::same("n"));
                let condition = of_one(self, &mut side);
                Text::same(format!("(SELECT * FROM n AS s WHERE {})", condition.ours))
            }
            8 => Text::same(
                "(SELECT id, toks, toks AS odd, v, v AS u, k, w, f, flag FROM n UNION ALL \
                 SELECT id, toks, toks AS odd, v, v AS u, k, w, f, flag FROM m)",
            ),
            9 => Text::same(
                "(SELECT max(id) AS id, toks, toks AS odd, v, v AS u, k, max(w) AS w, \
                 CAST(min(w) AS DOUBLE) AS f, bool_or(flag) AS flag FROM n GROUP BY toks, v, k)",
            ),
            _ if depth == 0 => Text::same(if self.rng.random() { "n" } else { "m" }),
            _ => {
                let join = Join::draw(self, depth);
                join.as_relation(self)
            }
        }
    }
}

/// One side of a join.
#[derive(Debug, Clone)]
pub struct Aliased {
    pub alias: String,
    relation: Text,
    exprs: Vec<String>,
}

impl Aliased {
    pub fn new(alias: &str, relation: Text) -> Self {
        Self { alias: alias.to_string(), relation, exprs: vec![] }
    }

    /// An expression over this side: for the nested loop a column of a subquery, because the stock
    /// engine does not compile lambdas over the columns of two sides.
    pub fn expr(&mut self, expr: Text) -> Text {
        let number = self.exprs.len();
        self.exprs.push(expr.oracle);
        Text { ours: expr.ours, oracle: format!("{}.e{number}", self.alias) }
    }

    pub fn from(&self) -> Text {
        let (alias, relation) = (&self.alias, &self.relation);
        let mut oracle = format!("{} AS {alias}", relation.oracle);
        if !self.exprs.is_empty() {
            let exprs = self.exprs.iter().enumerate();
            let exprs: Vec<String> = exprs.map(|(i, expr)| format!("{expr} AS e{i}")).collect();
            oracle = format!("(SELECT {alias}.*, {} FROM {oracle}) AS {alias}", exprs.join(", "));
        }
        Text { ours: format!("{} AS {alias}", relation.ours), oracle }
    }
}

/// A condition that could drive a join, of the family that does not.
fn of_other_family(
    generator: &mut Generator<'_>,
    (family, insists): (Family, bool),
    left: &mut Aliased,
    right: &mut Aliased,
) -> Text {
    let other = if family == Family::Sets { Family::Vectors } else { Family::Sets };
    let choice = generator.pick(12);
    let first = other.argument(generator, left, choice);
    let second = other.argument(generator, right, choice);
    other.similarity(generator, insists, &first, &second)
}

/// How a join is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `JOIN … ON`, or SIMJOIN.
    On,
    /// A comma and WHERE.
    Where,
    /// EXISTS or NOT EXISTS.
    Exists,
}

/// The family of the predicate that drives a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Sets,
    Vectors,
}

impl Family {
    pub fn draw(generator: &mut Generator<'_>) -> Self {
        match generator.world.joins {
            Joins::Sets => Self::Sets,
            Joins::Vectors => Self::Vectors,
            Joins::Both => [Self::Sets, Self::Vectors][generator.pick(2)],
        }
    }

    pub fn argument(
        self,
        generator: &mut Generator<'_>,
        side: &mut Aliased,
        choice: usize,
    ) -> Text {
        match self {
            Self::Sets => conditions::argument(generator, side, choice),
            Self::Vectors => vectors::argument(generator, side, choice),
        }
    }

    /// A condition that can drive a join, or on which SIMJOIN `insists`.
    pub fn similarity(
        self,
        generator: &mut Generator<'_>,
        insists: bool,
        first: &Text,
        second: &Text,
    ) -> Text {
        match self {
            Self::Sets => {
                let measure = MEASURES[generator.pick(6)];
                conditions::similarity(generator, measure, first, second)
            }
            Self::Vectors => vectors::similarity(generator, insists, first, second),
        }
    }

    /// A further condition on the arguments that drive the join.
    fn further(
        self,
        generator: &mut Generator<'_>,
        insists: bool,
        first: &Text,
        second: &Text,
    ) -> Text {
        match self {
            Self::Sets => {
                let measure = MEASURES[generator.pick(6)];
                conditions::further_similarity(generator, measure, first, second)
            }
            Self::Vectors => vectors::similarity(generator, insists, first, second),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Join {
    pub left: Aliased,
    pub right: Aliased,
    kind: &'static str,
    form: Form,
    word: &'static str,
    conditions: Vec<Text>,
    family: Family,
    /// The arguments of the function that drives it.
    arguments: [Text; 2],
}

/// The sides of a join: often the same relation, or nearly so.
pub fn sides(generator: &mut Generator<'_>, depth: usize) -> [Aliased; 2] {
    let seed = generator.rng.random();
    let draw = |twist: Option<usize>, seed: u64| {
        Generator::new(generator.world, seed, twist).relation(depth.saturating_sub(1))
    };
    let (left, right) = match generator.rng.random_range(0..20) {
        0..9 => (draw(None, seed), draw(None, seed)),
        // Nearly the same.
        9..12 => (draw(None, seed), draw(Some(generator.rng.random_range(0..8)), seed)),
        _ => (draw(None, seed), draw(None, generator.rng.random())),
    };
    [Aliased::new(&format!("a{depth}"), left), Aliased::new(&format!("b{depth}"), right)]
}

impl Join {
    pub fn draw(generator: &mut Generator<'_>, depth: usize) -> Self {
        let [mut left, mut right] = sides(generator, depth);
        let kinds = [
            "INNER",
            "INNER",
            "LEFT",
            "RIGHT",
            "FULL",
            "FULL",
            "LEFT SEMI",
            "LEFT ANTI",
            "RIGHT SEMI",
            "RIGHT ANTI",
        ];
        let kind = *kinds.choose(&mut generator.rng).unwrap();
        let form = match kind {
            "INNER" if generator.rng.random_bool(0.25) => Form::Where,
            "LEFT SEMI" | "LEFT ANTI" if generator.rng.random_bool(0.4) => Form::Exists,
            _ => Form::On,
        };
        let simjoin = form == Form::On && generator.rng.random_bool(0.5);
        let family = Family::draw(generator);
        let choice = generator.pick(12);
        let other = if generator.rng.random_bool(0.8) { choice } else { generator.pick(12) };
        let arguments = [
            family.argument(generator, &mut left, choice),
            family.argument(generator, &mut right, other),
        ];
        let swapped = generator.rng.random_bool(0.2);
        let ordered = |arguments: &[Text; 2]| match swapped {
            true => [arguments[1].clone(), arguments[0].clone()],
            false => arguments.clone(),
        };
        let [first, second] = ordered(&arguments);
        let mut conditions = vec![family.similarity(generator, simjoin, &first, &second)];
        for _ in 0..generator.rng.random_range(0..4) {
            let condition = match generator.rng.random_range(0..10) {
                0..5 => of_both(generator, &mut left, &mut right),
                5..7 => of_one(generator, &mut left),
                7..9 => of_one(generator, &mut right),
                _ => family.further(generator, simjoin, &first, &second),
            };
            conditions.push(condition);
        }
        if generator.world.joins == Joins::Both && generator.rng.random_bool(0.3) {
            let of_other = of_other_family(generator, (family, simjoin), &mut left, &mut right);
            conditions.push(of_other);
        }
        let last = conditions.len() - 1;
        conditions.swap(0, generator.rng.random_range(0..=last));
        let word = if simjoin { "SIMJOIN" } else { "JOIN" };
        Self { left, right, kind, form, word, conditions, family, arguments }
    }

    /// Which sides' columns the join gives.
    pub fn sides(&self) -> (bool, bool) {
        match self.kind {
            "LEFT SEMI" | "LEFT ANTI" => (true, false),
            "RIGHT SEMI" | "RIGHT ANTI" => (false, true),
            _ => (true, true),
        }
    }

    /// A function of the two arguments.
    pub fn draw_score(&self, generator: &mut Generator<'_>) -> Text {
        let swapped = generator.rng.random_bool(0.3);
        let choice = generator.pick(6);
        match self.family {
            Family::Sets => self.score(MEASURES[choice], swapped),
            Family::Vectors => self.score(Metric::ALL[choice / 2].sql(), swapped),
        }
    }

    fn score(&self, measure: &str, swapped: bool) -> Text {
        let [l, r] = &self.arguments;
        let (first, second) = if swapped { (r, l) } else { (l, r) };
        Text {
            ours: format!("{measure}({}, {})", first.ours, second.ours),
            oracle: format!("{measure}({}, {})", first.oracle, second.oracle),
        }
    }

    /// FROM and what follows it, up to a WHERE.
    pub fn from(&self) -> Text {
        let (left, right) = (self.left.from(), self.right.from());
        let all = |text: fn(&Text) -> &String| {
            self.conditions.iter().map(|c| text(c).as_str()).collect::<Vec<_>>().join(" AND ")
        };
        let write = |left: &str, right: &str, word: &str, on: String| match (self.form, self.kind) {
            (Form::On, kind) => format!("{left} {kind} {word} {right} ON {on}"),
            (Form::Where, _) => format!("{left}, {right} WHERE {on}"),
            (Form::Exists, kind) => {
                let not = if kind == "LEFT ANTI" { "NOT " } else { "" };
                format!("{left} WHERE {not}EXISTS (SELECT 1 FROM {right} WHERE {on})")
            }
        };
        Text {
            ours: write(&left.ours, &right.ours, self.word, all(|c| &c.ours)),
            oracle: write(&left.oracle, &right.oracle, "JOIN", all(|c| &c.oracle)),
        }
    }

    /// A subquery with the columns of every table.
    fn as_relation(&self, generator: &mut Generator<'_>) -> Text {
        let (a, b) = (&self.left.alias, &self.right.alias);
        let from = self.from();
        let score = match self.family {
            Family::Sets => {
                self.score("overlap", false).map(|score| format!("{score} AS w, {a}.f AS f"))
            }
            Family::Vectors => {
                let score = self.score("array_distance", false);
                score.map(|score| format!("{a}.w AS w, {score} AS f"))
            }
        };
        let choice = generator.pick(4);
        let columns = |score: &str| match (self.sides(), choice) {
            ((true, true), 0) => format!(
                "coalesce({a}.id, {b}.id + 100) AS id, coalesce({a}.toks, {b}.toks) AS toks, \
                 coalesce({b}.toks, {a}.toks) AS odd, coalesce({a}.v, {b}.v) AS v, \
                 coalesce({b}.v, {a}.v) AS u, {b}.k AS k, {score}, {b}.flag AS flag"
            ),
            ((true, true), 1) => format!(
                "{a}.id AS id, {a}.toks AS toks, {b}.toks AS odd, {b}.v AS v, {a}.v AS u, \
                 coalesce({b}.k, {a}.k) AS k, {a}.w + {b}.w AS w, {b}.f AS f, {a}.flag AS flag"
            ),
            ((true, true), _) => format!(
                "coalesce({b}.id, -1) AS id, coalesce({a}.toks, {b}.toks) AS toks, \
                 {a}.toks AS odd, {a}.v AS v, {b}.v AS u, {a}.k AS k, {b}.w AS w, {b}.f AS f, \
                 {a}.flag AS flag"
            ),
            ((left, _), _) => {
                let s = if left { a } else { b };
                let vectors = format!("{s}.v, {s}.v AS u");
                format!(
                    "{s}.id, {s}.toks, {s}.toks AS odd, {vectors}, {s}.k, {s}.w, {s}.f, {s}.flag"
                )
            }
        };
        Text {
            ours: format!("(SELECT {} FROM {})", columns(&score.ours), from.ours),
            oracle: format!("(SELECT {} FROM {})", columns(&score.oracle), from.oracle),
        }
    }
}
