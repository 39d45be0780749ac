//! Bounds of some parts of a condition, one of which each pair meets that satisfies the condition.
//!
//! All parts at once are a cover where nothing else can make the condition true. A part without which the others are
//! one is left out: functions that leave out few pairs first, equalities last. Each bound is as narrow as the others
//! allow: of an OR the bound that stands there, of a sum a share of it.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit};

use super::Condition;
use super::best_case::{BestCase, Given, score};
use super::parts::Equality;
use crate::plan::recognise::predicate::Evaluator;
use crate::spec::{Call, Function, Order, Predicate, Side};

/// A part of a cover.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Clause {
    /// A comparison of a function with a constant: its place among the functions, and the most similar value with
    /// which it is false.
    Bound { condition: Expr, place: usize, below: f64 },
    /// An equality of the two sides.
    Equal(Box<Equality>),
    /// A part of an OR from which bounds or equalities follow.
    Alternative(Expr),
}

impl Clause {
    /// The clause as a condition.
    pub(in super::super) fn condition(&self) -> &Expr {
        match self {
            Self::Bound { condition, .. } => condition,
            Self::Equal(equality) => &equality.condition,
            Self::Alternative(condition) => condition,
        }
    }
}

/// Parts of a cover, at most: each is a join, with the memory of one.
const MOST: usize = 16;

/// A bound by which functions are compared.
const MIDDLE: f64 = 0.5;

/// Steps in which bounds of a sum are narrowed.
const STEPS: usize = 24;

/// A part, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    MeasuredCall(usize),
    Equality(usize),
}

/// The clauses of a cover of a condition; or why there is none.
pub(in super::super) fn cover(condition: &Condition<'_>) -> Result<Vec<Clause>, String> {
    match alternatives(condition) {
        Some(clauses) => Ok(clauses),
        None => Cover { condition }.find(),
    }
}

/// Similarities below this bound leave out few pairs.
pub(in super::super) const WEAK: f64 = 0.3;

/// Clauses of two functions none of which is weak, where a bound of one function alone would be.
pub(in super::super) fn strong_cover(condition: &Condition<'_>) -> Option<Vec<Clause>> {
    let this = Cover { condition };
    let measures = 0..condition.parts.measures.len();
    let is_similarity = |place: &usize| {
        condition.parts.measures[*place].is_of_pair && this.extremes(*place) == [0.0, 1.0]
    };
    let mut members: Vec<Part> = measures.filter(is_similarity).map(Part::MeasuredCall).collect();
    members.sort_by(|a, b| this.selectivity(*b).total_cmp(&this.selectivity(*a)));
    members.truncate(2);
    if members.len() < 2 || this.may_hold(&this.worst(&members), &members) {
        return None;
    }
    let narrowest = members.iter().map(|part| this.narrowest(*part, &members));
    let narrowest = narrowest.collect::<Result<Vec<_>, _>>().ok()?;
    let clauses = this.share(&members, &narrowest).ok()?;
    let is_strong =
        |clause: &Clause| matches!(clause, Clause::Bound { below, .. } if *below >= WEAK);
    clauses.iter().all(is_strong).then_some(clauses)
}

/// The parts of an OR, where something follows from each, and from one of them more than from a comparison.
fn alternatives(condition: &Condition<'_>) -> Option<Vec<Clause>> {
    let parts = split_binary(unalias(condition.condition), Operator::Or);
    if parts.len() < 2 || parts.len() > MOST {
        return None;
    }
    let is_plain = |part: &Expr| !matches!(part, Expr::BinaryExpr(e) if e.op == Operator::And);
    if parts.iter().all(|part| is_plain(part)) {
        return None;
    }
    let follows = |part: &Expr| match condition.of_part(part) {
        Some(part) => part.necessary().is_ok() || !part.keys().is_empty(),
        // Without a function of both sides, by hash.
        None => split_binary(part, Operator::And)
            .into_iter()
            .any(|conjunct| condition.parts.equality(conjunct).is_some()),
    };
    let clause = |part: &Expr| follows(part).then(|| Clause::Alternative(part.clone()));
    parts.into_iter().map(clause).collect()
}

fn unalias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unalias(&alias.expr),
        Expr::IsTrue(inner) => unalias(inner),
        other => other,
    }
}

struct Cover<'a> {
    condition: &'a Condition<'a>,
}

impl Cover<'_> {
    fn find(&self) -> Result<Vec<Clause>, String> {
        let parts = &self.condition.parts;
        let is_member = |place: &usize| parts.measures[*place].is_of_pair;
        let measures = (0..parts.measures.len()).filter(is_member).map(Part::MeasuredCall);
        let mut members: Vec<Part> =
            measures.chain((0..parts.equalities.len()).map(Part::Equality)).collect();
        if self.may_hold(&self.worst(&members), &members) {
            return Err("pairs that are similar in none of its parts may satisfy it".to_string());
        }
        // Functions that leave out the fewest pairs go first, and equalities last.
        let mut order: Vec<Part> = members.clone();
        order.sort_by(|a, b| self.selectivity(*a).total_cmp(&self.selectivity(*b)));
        for part in order {
            let others: Vec<Part> =
                members.iter().copied().filter(|other| *other != part).collect();
            if !others.is_empty() && !self.may_hold(&self.worst(&others), &others) {
                members = others;
            }
        }
        if members.len() > MOST {
            return Err(format!("it has {} alternatives, and {MOST} are joined", members.len()));
        }
        let narrowest = members.iter().map(|part| self.narrowest(*part, &members));
        let narrowest = narrowest.collect::<Result<Vec<_>, _>>()?;
        self.share(&members, &narrowest)
    }

    /// A rank of a part by the share of the pairs that it leaves out.
    fn selectivity(&self, part: Part) -> f64 {
        let Part::MeasuredCall(place) = part else { return f64::INFINITY };
        let function = self.function(place);
        let families = self.condition.sides.families;
        let predicate = Predicate::new(Call { function, first: Side::Left }, MIDDLE);
        let family = families.get(predicate.family());
        family.map_or(f64::NEG_INFINITY, |family| family.selectivity(&predicate)[0])
    }

    /// The case in which the parts of a cover are as dissimilar as can be.
    fn worst(&self, members: &[Part]) -> BestCase<'_> {
        let mut case = self.condition.best_case();
        for part in members {
            match part {
                Part::MeasuredCall(place) => {
                    case.given[*place] = Given::AtMost(self.extremes(*place)[0]);
                }
                Part::Equality(place) => case.is_unmet[*place] = true,
            }
        }
        case
    }

    /// Whether the condition may be true in a case, or where values of members are NaN.
    fn may_hold(&self, case: &BestCase<'_>, members: &[Part]) -> bool {
        let Some((first, others)) = members.split_first() else {
            return self.condition.may_hold(case);
        };
        if self.may_hold(case, others) {
            return true;
        }
        match first {
            Part::MeasuredCall(place)
                if !self.condition.nan_is_null && self.function(*place).may_be_nan() =>
            {
                [f64::NAN.abs(), -f64::NAN.abs()].into_iter().any(|nan| {
                    let mut case = case.clone();
                    case.given[*place] = Given::Nan(nan);
                    self.may_hold(&case, others)
                })
            }
            _ => false,
        }
    }

    /// The least and the most similar number of a function.
    fn extremes(&self, place: usize) -> [f64; 2] {
        let info = self.function(place).info();
        let ends = self.function(place).extremes();
        let infinite = match info.order {
            Order::Similarity => [f64::NEG_INFINITY, f64::INFINITY],
            Order::Distance => [f64::INFINITY, f64::NEG_INFINITY],
        };
        [0, 1].map(|end| if ends[end].is_nan() { infinite[end] } else { ends[end] })
    }

    fn function(&self, place: usize) -> Function {
        self.condition.parts.measures[place].function
    }

    /// The least similar value of a part at which the condition may hold while the other members are at their worst;
    /// `None` for an equality.
    fn narrowest(&self, part: Part, members: &[Part]) -> Result<Option<f64>, String> {
        let Part::MeasuredCall(place) = part else { return Ok(None) };
        let mut case = self.worst(members);
        case.given[place] = Given::ScoreOrNull;
        let evaluator = self.evaluator(place, &case.truth(self.condition.condition))?;
        let [mut refused, mut admitted] = self.extremes(place).map(|value| evaluator.key(value));
        let may_hold = |key: i64| evaluator.truth(key).unwrap_or(true);
        if !may_hold(admitted) {
            // The others have to help: any value may be enough then.
            return Ok(Some(self.extremes(place)[1]));
        }
        while refused.abs_diff(admitted) > 1 {
            let middle = refused.midpoint(admitted);
            if may_hold(middle) { admitted = middle } else { refused = middle }
        }
        Ok(Some(evaluator.value(admitted)))
    }

    /// A condition of the values of a measure.
    fn evaluator(&self, place: usize, condition: &Expr) -> Result<Evaluator, String> {
        let data_type = self.condition.parts.measures[place].data_type.clone();
        let evaluator = Evaluator::try_new(data_type, condition, self.condition.constants);
        evaluator.map_err(|error| error.strip_backtrace())
    }

    /// The clauses whose bounds are as narrow as can be.
    fn share(&self, members: &[Part], narrowest: &[Option<f64>]) -> Result<Vec<Clause>, String> {
        let (mut wide, mut narrow) = (0.0, 1.0);
        if !self.is_cover(members, narrowest, narrow)? {
            for _ in 0..STEPS {
                let middle = (wide + narrow) / 2.0;
                match self.is_cover(members, narrowest, middle)? {
                    true => wide = middle,
                    false => narrow = middle,
                }
            }
            if wide == 0.0 {
                return Err("no bounds of its parts follow from it".to_string());
            }
            narrow = wide;
        }
        let mut clauses = vec![];
        for (part, narrowest) in
            self.by_cost(members).into_iter().map(|at| (members[at], narrowest[at]))
        {
            clauses.push(match (part, narrowest) {
                (Part::MeasuredCall(place), Some(narrowest)) => {
                    self.bound(place, self.value(place, narrowest, narrow))?
                }
                (Part::Equality(place), _) => {
                    Clause::Equal(Box::new(self.condition.parts.equalities[place].clone()))
                }
                (Part::MeasuredCall(_), None) => return Err("a part has no bound".to_string()),
            });
        }
        Ok(clauses)
    }

    /// The places of members in the order in which they become clauses. The pairs of a clause are those that no
    /// earlier one meets, which is evaluated for each of them: equalities cost the least, and lists more than texts.
    /// An equality that is not enough comes last: more follows for its pairs.
    fn by_cost(&self, members: &[Part]) -> Vec<usize> {
        let is_enough = |place: usize| {
            let equality = self.condition.parts.equalities[place].clone();
            self.condition.follows_from(&Clause::Equal(Box::new(equality)))
        };
        let cost = |at: &usize| match members[*at] {
            Part::Equality(place) if is_enough(place) => 0,
            Part::Equality(_) => 3,
            Part::MeasuredCall(place) if self.condition.parts.measures[place].reads_lists => 2,
            Part::MeasuredCall(_) => 1,
        };
        let mut places: Vec<usize> = (0..members.len()).collect();
        places.sort_by_key(cost);
        places
    }

    /// The bound of a measure: the narrowest at 1, and wider towards 0.
    fn value(&self, place: usize, narrowest: f64, share: f64) -> f64 {
        let least = self.extremes(place)[0];
        match share < 1.0 {
            false => narrowest,
            true if least.abs() <= 1.0 => least + share * (narrowest - least),
            // Distances have no end.
            true => narrowest + (1.0 / share - 1.0) * narrowest.abs().max(1.0),
        }
    }

    /// Whether the condition is refused where no member is within its bound.
    fn is_cover(
        &self,
        members: &[Part],
        narrowest: &[Option<f64>],
        share: f64,
    ) -> Result<bool, String> {
        let mut case = self.worst(members);
        for (part, narrowest) in members.iter().zip(narrowest) {
            if let (Part::MeasuredCall(place), Some(narrowest)) = (part, narrowest) {
                let below = self.below(*place, self.value(*place, *narrowest, share))?;
                case.given[*place] = Given::AtMost(below);
            }
        }
        Ok(!self.may_hold(&case, members))
    }

    /// The most similar value of a measure that is less similar than a value.
    fn below(&self, place: usize, value: f64) -> Result<f64, String> {
        let evaluator = self.evaluator(place, &lit(true))?;
        let key = evaluator.key(value);
        Ok(evaluator.value(match self.function(place).info().order {
            Order::Similarity => key.saturating_sub(1),
            Order::Distance => key.saturating_add(1),
        }))
    }

    fn bound(&self, place: usize, value: f64) -> Result<Clause, String> {
        let measure = &self.condition.parts.measures[place];
        let op = match measure.function.info().order {
            Order::Similarity => Operator::GtEq,
            Order::Distance => Operator::LtEq,
        };
        let below = self.below(place, value)?;
        let value: ScalarValue = score(value, &measure.data_type);
        let (call, value) = (Box::new(measure.call.clone()), Box::new(lit(value)));
        let condition = Expr::BinaryExpr(BinaryExpr::new(call, op, value));
        Ok(Clause::Bound { condition, place, below })
    }
}
