//! The table functions, and what they ask of a query.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder, lit, when};

use super::node::PairsNode;
use super::node_type::{cast_to, common, flat};
use super::ordered::ordered;
use crate::plan::numbers::is_number;
use crate::results::is_node_type;
use crate::sql::PAIR_FUNCTIONS;

/// The better one of two scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Hash, Default)]
pub enum ScoreOrder {
    /// The greater one.
    #[default]
    Similarity,
    /// The lesser one.
    Distance,
}

impl ScoreOrder {
    /// The order of that name, in any case of letters.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Similarity, Self::Distance]
            .into_iter()
            .find(|order| order.to_string().eq_ignore_ascii_case(name))
    }

    /// Sorts the thresholds of a function so that each admits what those before it admit.
    ///
    /// # Errors
    ///
    /// A plan error that names the function where a threshold is NaN or stands there twice.
    pub(super) fn sort_strictest_first(self, name: &str, thresholds: &mut [f64]) -> Result<()> {
        thresholds.sort_by(|a, b| match self {
            Self::Similarity => b.total_cmp(a),
            Self::Distance => a.total_cmp(b),
        });
        if let Some([twice, _]) = thresholds.array_windows().find(|[a, b]| a == b) {
            return plan_err!("{name} has the threshold {twice} twice");
        }
        if thresholds.iter().any(|threshold| threshold.is_nan()) {
            return plan_err!("a threshold of {name} is no number");
        }
        Ok(())
    }
}

impl fmt::Display for ScoreOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Similarity => "similarity",
            Self::Distance => "distance",
        })
    }
}

/// A table function over a query of pairs.
///
/// The first two columns of the query are the nodes of a pair. NULL in one of them declares the other
/// as a node without a partner, NULL in both is nothing, and a node with itself is no pair. Every
/// answer is a function of the set of pairs alone.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum PairFunction {
    /// The connected components: node, component (the least node in it), size.
    ConnectedComponents {
        /// A pair counts at each threshold that its score reaches; without thresholds every pair
        /// counts, and there is no score.
        thresholds: Vec<f64>,
        /// Whether scores reach a threshold from above or from below.
        order: ScoreOrder,
    },
    /// In the order of the nodes each is kept that no kept node before it is a partner of: node,
    /// representative, kept, and the score with the representative where pairs have scores.
    Representatives {
        /// The order of scores.
        order: ScoreOrder,
    },
    /// Pairs from the best score on, ties by (left, right), each left and each right node once: left,
    /// right, score.
    OneToOne {
        /// The order of scores.
        order: ScoreOrder,
    },
}

impl fmt::Display for PairFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::ConnectedComponents { order, .. }
        | Self::Representatives { order }
        | Self::OneToOne { order }) = self;
        f.write_str(self.name())?;
        let mut before = ": ";
        if let Self::ConnectedComponents { thresholds, .. } = self
            && !thresholds.is_empty()
        {
            write!(f, "{before}thresholds={thresholds:?}")?;
            before = ", ";
        }
        match order {
            ScoreOrder::Similarity => Ok(()),
            ScoreOrder::Distance => write!(f, "{before}by={order}"),
        }
    }
}

impl PairFunction {
    /// The name in SQL.
    pub fn name(&self) -> &'static str {
        let [components, representatives, one_to_one, ..] = PAIR_FUNCTIONS;
        match self {
            Self::ConnectedComponents { .. } => components,
            Self::Representatives { .. } => representatives,
            Self::OneToOne { .. } => one_to_one,
        }
    }

    /// The function over the pairs that a plan gives.
    ///
    /// # Errors
    ///
    /// A plan error that names the function where the plan has too few or too many columns, or where
    /// no type with an order holds its nodes without loss; where a threshold is NaN or stands there twice.
    pub fn over(self, pairs: LogicalPlan) -> Result<LogicalPlan> {
        let this = self.with_strictest_first()?;
        this.over_pairs(pairs)
    }

    /// The thresholds in the order of levels: a pair that counts at one counts at all after it.
    fn with_strictest_first(mut self) -> Result<Self> {
        let name = self.name();
        if let Self::ConnectedComponents { thresholds, order } = &mut self {
            order.sort_strictest_first(name, thresholds)?;
        }
        Ok(self)
    }

    fn over_pairs(self, pairs: LogicalPlan) -> Result<LogicalPlan> {
        let columns = self.columns(pairs.schema())?;
        let types = self.node_types(pairs.schema())?;
        let nodes = columns.iter().zip(types).map(|(column, node)| match node {
            Some(node) => Expr::Cast(Cast::new(Box::new(column.clone()), node)),
            None => column.clone(),
        });
        let nodes: Vec<Expr> = nodes.collect();
        let [left, right] = nodes.as_slice() else {
            return plan_err!("{} needs two columns of nodes", self.name());
        };
        let score = columns.get(2).cloned();
        let plan = LogicalPlanBuilder::from(pairs);
        let plan = match &self {
            Self::ConnectedComponents { thresholds, order } => {
                let mut output = vec![left.clone().alias("left"), right.clone().alias("right")];
                if let Some(score) = score {
                    let may_be_nan = plan.schema().field(2).data_type().is_floating();
                    let level = level_of(&score, may_be_nan, thresholds, *order)?;
                    output.push(level.alias("level"));
                }
                plan.project(output)?
            }
            Self::Representatives { .. } => {
                let [later, earlier] = ordered(left, right, plan.schema())?;
                let mut output = vec![later.alias("later"), earlier.alias("earlier")];
                output.extend(score.map(|score| score.alias("score")));
                plan.project(output)?
            }
            Self::OneToOne { .. } => {
                let Some(score) = score else { return self.lacks_score() };
                let parts = [left, right, &score].into_iter().cloned();
                let valid = parts.clone().map(Expr::is_not_null).reduce(Expr::and);
                let plan = match valid {
                    Some(valid) => plan.filter(valid)?,
                    None => plan,
                };
                let named = parts.zip(["left", "right", "score"]);
                plan.project(named.map(|(part, name)| part.alias(name)))?
            }
        };
        Ok(PairsNode::try_new(self, plan.build()?)?.into_plan())
    }

    fn lacks_score<T>(&self) -> Result<T> {
        plan_err!(
            "{} needs a query of three columns, the nodes of a pair and its score: \
             {}((SELECT a.id, b.id, score FROM …))",
            self.name(),
            self.name()
        )
    }

    /// The columns of the query that the function reads.
    fn columns(&self, schema: &DFSchema) -> Result<Vec<Expr>> {
        let name = self.name();
        let found = schema.fields().len();
        let (fewest, most) = match self {
            Self::ConnectedComponents { thresholds, .. } if thresholds.is_empty() => (2, 2),
            Self::ConnectedComponents { .. } | Self::OneToOne { .. } => (3, 3),
            Self::Representatives { .. } => (2, 3),
        };
        if found < fewest && fewest == 3 {
            if let Self::ConnectedComponents { .. } = self {
                return plan_err!(
                    "{name} with thresholds needs a query of three columns, the nodes of a pair and \
                     its score, found {found}"
                );
            }
            return self.lacks_score();
        }
        if found < fewest || found > most {
            let scored = match self {
                Self::ConnectedComponents { .. } => {
                    ", or, with thresholds behind the query, a third one, the score"
                }
                Self::Representatives { .. } => ", and perhaps a third one, the score",
                Self::OneToOne { .. } => ", and the score",
            };
            return plan_err!(
                "{name} reads two columns, the nodes of a pair{scored}; the query has {found}"
            );
        }
        Ok(schema.columns().into_iter().map(Expr::Column).collect())
    }

    /// The types that the nodes are cast to, where they are of others.
    fn node_types(&self, schema: &DFSchema) -> Result<[Option<DataType>; 2]> {
        let given = [0, 1].map(|index| schema.field(index).data_type());
        let [left, right] = given.map(flat);
        let wanted = match self {
            // Nodes of the two sides are not compared.
            Self::OneToOne { .. } => [left, right],
            _ => match common(&left, &right) {
                Some(node) => [node.clone(), node],
                None => return self.lacks_common_type(schema, [left, right]),
            },
        };
        for wanted in &wanted {
            check_node_type(self.name(), wanted)?;
        }
        let [left, right] = wanted;
        let [given_left, given_right] = given;
        Ok([(left != *given_left).then_some(left), (right != *given_right).then_some(right)])
    }

    fn lacks_common_type<T>(&self, schema: &DFSchema, [left, right]: [DataType; 2]) -> Result<T> {
        let [first, second] = [0, 1].map(|index| Column::from(schema.qualified_field(index)));
        // A text may be no number, and a double no integer: the other column is cast where it can be.
        let is_rounded = |data_type: &DataType| data_type.is_floating();
        let example = match (cast_to(&left), cast_to(&right)) {
            (_, Some(name)) if right.is_string() => Some((&first, name)),
            (Some(name), _) if left.is_string() || is_rounded(&right) => Some((&second, name)),
            (_, Some(name)) => Some((&first, name)),
            (Some(name), None) => Some((&second, name)),
            (None, None) => None,
        };
        let example = example.map(|(column, name)| format!(": CAST({column} AS {name})"));
        plan_err!(
            "{} needs nodes of one type: its first column {first} is {left}, its second column {second} is \
             {right}, and no type holds the values of both without loss; cast one of them{}",
            self.name(),
            example.unwrap_or_default()
        )
    }

    /// The schema of the function over such pairs.
    pub(super) fn schema(&self, pairs: &DFSchema) -> Result<DFSchemaRef> {
        let node = |name: &str, index: usize| {
            Field::new(name, pairs.field(index).data_type().clone(), false)
        };
        let mut fields: Vec<Field> = vec![];
        match self {
            Self::ConnectedComponents { thresholds, .. } => {
                fields.push(node("node", 0));
                let names = match thresholds.as_slice() {
                    [] => vec![String::new()],
                    thresholds => thresholds.iter().map(suffix_of).collect(),
                };
                for name in names {
                    fields.push(node(&format!("component{name}"), 0));
                    fields.push(Field::new(format!("size{name}"), DataType::Int64, false));
                }
            }
            Self::Representatives { .. } => {
                fields.push(node("node", 0));
                fields.push(node("representative", 0));
                fields.push(Field::new("kept", DataType::Boolean, false));
                if pairs.fields().len() > 2 {
                    fields.push(pairs.field(2).as_ref().clone().with_nullable(true));
                }
            }
            Self::OneToOne { .. } => {
                for index in 0..3 {
                    fields.push(pairs.field(index).as_ref().clone());
                }
            }
        }
        let fields: Vec<(Option<_>, FieldRef)> =
            fields.into_iter().map(|field| (None, Arc::new(field))).collect();
        Ok(Arc::new(DFSchema::new_with_metadata(fields, Default::default())?))
    }
}

fn check_node_type(name: &str, data_type: &DataType) -> Result<()> {
    match is_node_type(data_type) {
        true => Ok(()),
        false => plan_err!("{name} needs nodes whose values have an order, not {data_type}"),
    }
}

/// The end of the names of a threshold's columns: `_0_9` for 0.9.
pub(super) fn suffix_of(threshold: &f64) -> String {
    format!("_{}", threshold.to_string().replace(['.', '-'], "_"))
}

/// The number of the first threshold, from the strictest on, that a score reaches; NULL for none. NaN reaches
/// none.
fn level_of(score: &Expr, may_be_nan: bool, thresholds: &[f64], order: ScoreOrder) -> Result<Expr> {
    let reaches = |threshold: f64| match order {
        ScoreOrder::Similarity => score.clone().gt_eq(lit(threshold)),
        ScoreOrder::Distance => score.clone().lt_eq(lit(threshold)),
    };
    let mut levels = thresholds.iter().enumerate();
    let Some((_, first)) = levels.next() else {
        return plan_err!("connected_components needs a threshold");
    };
    let none = || lit(ScalarValue::Int32(None));
    let mut case = match may_be_nan {
        true => when(is_number(score.clone()).is_not_true(), none()).when(reaches(*first), lit(0)),
        false => when(reaches(*first), lit(0)),
    };
    for (level, threshold) in levels {
        case = case.when(reaches(*threshold), lit(level as i32));
    }
    case.otherwise(none())
}

impl Eq for PairFunction {}

impl std::hash::Hash for PairFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
        if let Self::ConnectedComponents { thresholds, .. } = self {
            // 0 and -0 are equal.
            thresholds.iter().for_each(|threshold| (threshold + 0.0).to_bits().hash(state));
        }
    }
}
