//! The families of similarities that a session joins by, and what it knows of them in DataFusion's
//! expressions.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::PhysicalExprRef;

use crate::engine::{AnyMatcher, Argument, Family, Origin};
use crate::spec::{Function, Predicate, Side};

/// The expression that an argument is made of, and how.
pub(crate) type Source = (PhysicalExprRef, Origin);

/// A family of a session.
#[derive(Clone)]
pub(crate) struct Member {
    pub family: Arc<dyn Family>,
    /// The function of the family that a scalar function computes. The implementation decides, not the
    /// name: a user may register another function of the same name.
    pub function_of: fn(&ScalarUDF) -> Option<Function>,
    /// The source of an argument that reads a schema.
    pub source_of: fn(&PhysicalExprRef, &Schema) -> Option<Source>,
}

/// The families that a session knows.
#[derive(Clone)]
pub struct Families(Arc<[Member]>);

/// A predicate over the arguments of a join.
pub(crate) struct Bound {
    pub matcher: Arc<dyn AnyMatcher>,
    /// By side, the expression of the values that encoders take.
    pub sources: [PhysicalExprRef; 2],
    /// The families of the session.
    pub families: Families,
}

impl Families {
    /// The families of a session, whose names differ.
    pub(crate) fn new(members: impl IntoIterator<Item = Member>) -> Self {
        Self(members.into_iter().collect())
    }

    /// The function that `udf` computes; `None` when no family has it.
    pub fn function_of(&self, udf: &ScalarUDF) -> Option<Function> {
        self.0.iter().find_map(|member| (member.function_of)(udf))
    }

    /// Every function by which the session joins.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Function> {
        self.0.iter().flat_map(|member| member.family.functions())
    }

    /// The function of this name in the family of that name.
    pub fn function(&self, family: &str, name: &str) -> Option<Function> {
        let member = self.0.iter().find(|member| member.family.name() == family)?;
        member.family.functions().into_iter().find(|function| function.name() == name)
    }

    /// The family of this name.
    ///
    /// # Errors
    ///
    /// An internal error when the session does not know it.
    pub fn get(&self, name: &str) -> Result<&Arc<dyn Family>> {
        Ok(&self.member(name)?.family)
    }

    /// The source of an argument of a function of the family `name`.
    ///
    /// # Errors
    ///
    /// An internal error when the session does not know the family.
    pub(crate) fn source_of(
        &self,
        name: &str,
        argument: &PhysicalExprRef,
        schema: &Schema,
    ) -> Result<Option<Source>> {
        Ok((self.member(name)?.source_of)(argument, schema))
    }

    /// Binds a predicate to the arguments of both sides, each with the schema that it reads.
    ///
    /// # Errors
    ///
    /// A plan error that names the types when they cannot be joined.
    pub(crate) fn bind(
        &self,
        predicate: Predicate,
        arguments: [(&PhysicalExprRef, &Schema); 2],
    ) -> Result<Bound> {
        let member = self.member(predicate.family())?;
        let [left, right] = arguments.map(|(argument, schema)| argument.data_type(schema));
        let types = [left?, right?];
        let sources = arguments.map(|(argument, schema)| (member.source_of)(argument, schema));
        let bound = [0, 1].map(|side: usize| Argument {
            data_type: &types[side],
            origin: sources[side].as_ref().map(|(_, origin)| origin),
        });
        let matcher = member.family.bind(predicate, bound)?;
        let [left, right] = sources;
        let source = |side, source: Option<Source>, argument: &PhysicalExprRef| match source {
            Some((source, _)) if matcher.reads_origin(side) => source,
            _ => Arc::clone(argument),
        };
        let sources =
            [source(Side::Left, left, arguments[0].0), source(Side::Right, right, arguments[1].0)];
        Ok(Bound { matcher, sources, families: self.clone() })
    }

    fn member(&self, name: &str) -> Result<&Member> {
        match self.0.iter().find(|member| member.family.name() == name) {
            Some(member) => Ok(member),
            None => internal_err!("this session does not know the family {name} of similarities"),
        }
    }
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|member| member.family.name())).finish()
    }
}
