//! Collections of vectors like the published ones.
//!
//! Three have the data of Böhm, Noll, Plant and Zherdin ("Index-supported similarity join on graphics
//! processors", BTW 2009): eight dimensions, uniform, five Gaussian clusters at random, five clusters
//! whose dimensions are correlated. The others have rows and dimensions of public sets, and a structure
//! like theirs: clusters of few *latent* dimensions, mapped linearly to all, and noise.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, exec_err};

use super::random::Random;
use super::write::Source;

/// How the vectors of a collection lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Content {
    /// In the unit cube.
    Uniform,
    /// In this many Gaussian clusters, round ones or each stretched in directions of its own.
    Clusters { count: usize, correlated: bool },
    /// In a cluster for each 3,000 rows, of this many dimensions. Integers from 0 to 217 where `whole`.
    Latent { dimensions: usize, whole: bool },
}

/// A collection of vectors.
#[derive(Debug, Clone, Copy)]
pub struct VectorCollection {
    pub name: &'static str,
    pub rows: u64,
    pub dimensions: usize,
    /// The mean number of partners of a row, for which thresholds are found.
    pub partners: f64,
    pub content: Content,
}

const LATENT: Content = latent(16);

const fn latent(dimensions: usize) -> Content {
    Content::Latent { dimensions, whole: false }
}

/// Rows, dimensions and partners of Böhm et al., and of the self-joins in the files of results that
/// come with FaSTED (ICPP 2025) and MiSTIC (IPDPSW 2024).
pub const COLLECTIONS: &[VectorCollection] = &[
    collection("uniform8", 11_800_000, 8, 1.5, Content::Uniform),
    collection("gauss8", 11_800_000, 8, 1.5, Content::Clusters { count: 5, correlated: false }),
    collection("correlated8", 11_800_000, 8, 1.5, Content::Clusters { count: 5, correlated: true }),
    collection("susy", 5_000_000, 18, 256.0, latent(8)),
    collection("wave", 287_999, 49, 256.0, latent(12)),
    collection("bigcross", 11_620_000, 57, 256.0, latent(8)),
    collection("msd", 515_345, 90, 256.0, latent(12)),
    collection("sift", 10_000_000, 128, 64.0, Content::Latent { dimensions: 16, whole: true }),
    collection("tiny", 5_000_000, 384, 64.0, LATENT),
    collection("cifar", 60_000, 512, 64.0, LATENT),
    collection("gist", 1_000_000, 960, 64.0, LATENT),
    // Of any number of dimensions: `uniform:32`, `latent:960`.
    collection("uniform", 1_000_000, 0, 64.0, Content::Uniform),
    collection("latent", 1_000_000, 0, 64.0, LATENT),
];

const fn collection(
    name: &'static str,
    rows: u64,
    dimensions: usize,
    partners: f64,
    content: Content,
) -> VectorCollection {
    VectorCollection { name, rows, dimensions, partners, content }
}

impl VectorCollection {
    /// The collection of this name, `None` where there is none.
    ///
    /// # Errors
    ///
    /// When the name lacks its number of dimensions, or has one too many.
    pub fn find(name: &str) -> Result<Option<Self>> {
        let (own, dimensions) = match name.split_once(':') {
            Some((own, dimensions)) => (own, dimensions.parse::<usize>().ok()),
            None => (name, None),
        };
        let Some(known) = COLLECTIONS.iter().find(|known| known.name == own) else {
            return Ok(None);
        };
        match (known.dimensions, dimensions) {
            (0, Some(dimensions)) if (1..=65_536).contains(&dimensions) => {
                Ok(Some(Self { dimensions, ..*known }))
            }
            (0, _) => exec_err!("{own} needs a number of dimensions, as in {own}:128"),
            (_, None) if !name.contains(':') => Ok(Some(*known)),
            (own_dimensions, _) => exec_err!("{own} has {own_dimensions} dimensions"),
        }
    }
}

/// A cluster in latent dimensions.
#[derive(Debug)]
struct Cluster {
    /// By latent dimension.
    centre: Vec<f32>,
    deviation: f32,
    /// By latent dimension, its place in every dimension; the collection's own where empty.
    directions: Vec<f32>,
}

/// Draws vectors.
#[derive(Debug)]
pub struct Points {
    dimensions: usize,
    content: Content,
    clusters: Vec<Cluster>,
    /// The weights of the clusters, summed up.
    weights: Vec<f64>,
    /// As a cluster's.
    directions: Vec<f32>,
    random: Random,
}

/// The deviation of latent data's noise.
const NOISE: f32 = 0.02;

impl Points {
    pub fn new(collection: &VectorCollection, seed: u64) -> Self {
        // What is common to all rows is drawn first, whatever their number.
        let mut random = Random::new(seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(7));
        let VectorCollection { dimensions, content, .. } = *collection;
        let mut points = Self {
            dimensions,
            content,
            clusters: vec![],
            weights: vec![],
            directions: vec![],
            random: Random::new(random.next()),
        };
        match content {
            Content::Uniform => {}
            Content::Clusters { count, correlated } => {
                for _ in 0..count {
                    let centre = (0..dimensions).map(|_| random.unit() as f32).collect();
                    let directions = match correlated {
                        true => map_of(&mut random, dimensions, dimensions),
                        false => vec![],
                    };
                    points.clusters.push(Cluster { centre, deviation: 0.05, directions });
                }
                points.weights = (1..=count).map(|clusters| clusters as f64).collect();
            }
            Content::Latent { dimensions: latent, .. } => {
                points.directions = map_of(&mut random, latent, dimensions);
                let mut weight = 0.0;
                for _ in 0..(collection.rows / 3000).max(8) {
                    let centre = (0..latent).map(|_| random.normal() as f32).collect();
                    let deviation = 0.25 * (0.35 * random.normal()).exp() as f32;
                    points.clusters.push(Cluster { centre, deviation, directions: vec![] });
                    weight += 0.02 + random.unit().powi(2);
                    points.weights.push(weight);
                }
            }
        }
        points
    }

    /// Appends the numbers of the next vector.
    fn next(&mut self, to: &mut Vec<f32>) {
        let start = to.len();
        let Self { dimensions, content, clusters, weights, directions, random } = self;
        let Some(total) = weights.last() else {
            to.extend((0..*dimensions).map(|_| random.unit() as f32));
            return;
        };
        let drawn = random.unit() * total;
        let Cluster { centre, deviation, directions: own } =
            &clusters[weights.partition_point(|weight| *weight <= drawn)];
        match content {
            Content::Clusters { correlated: false, .. } => {
                to.extend(centre.iter().map(|c| c + deviation * random.normal() as f32));
            }
            Content::Clusters { .. } => {
                to.extend_from_slice(centre);
                let parts = (0..*dimensions).map(|_| deviation * random.normal() as f32);
                add_mapped(&mut to[start..], parts, own);
            }
            _ => {
                to.resize(start + *dimensions, 0.0);
                let parts = centre.iter().map(|c| c + deviation * random.normal() as f32);
                let parts: Vec<f32> = parts.collect();
                add_mapped(&mut to[start..], parts.into_iter(), directions);
                to[start..].iter_mut().for_each(|x| *x += NOISE * random.nearly_normal());
            }
        }
        if let Content::Latent { whole: true, .. } = content {
            // Four deviations to each side.
            to[start..].iter_mut().for_each(|x| *x = (109.0 + 27.0 * *x).round().clamp(0.0, 217.0));
        }
    }
}

/// A linear map that keeps the size of vectors on average: by dimension of the source, its place in
/// every dimension of the target.
fn map_of(random: &mut Random, from: usize, to: usize) -> Vec<f32> {
    let scale = 1.0 / (from as f64).sqrt();
    (0..from * to).map(|_| (scale * random.normal()) as f32).collect()
}

fn add_mapped(to: &mut [f32], parts: impl Iterator<Item = f32>, directions: &[f32]) {
    for (part, direction) in parts.zip(directions.chunks_exact(to.len())) {
        to.iter_mut().zip(direction).for_each(|(to, direction)| *to += part * direction);
    }
}

impl Points {
    fn item() -> FieldRef {
        Arc::new(Field::new("item", DataType::Float32, false))
    }

    /// The next `count` vectors.
    pub fn vectors(&mut self, count: usize) -> ArrayRef {
        let mut numbers = Vec::with_capacity(count * self.dimensions);
        (0..count).for_each(|_| self.next(&mut numbers));
        let numbers = Arc::new(Float32Array::from(numbers));
        Arc::new(FixedSizeListArray::new(Self::item(), self.dimensions as i32, numbers, None))
    }
}

impl Source for Points {
    /// `id` (Int64, from 0) and `vector` (Float32, a fixed number of them).
    fn schema(&self) -> SchemaRef {
        let vector = DataType::FixedSizeList(Self::item(), self.dimensions as i32);
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("vector", vector, false),
        ]))
    }

    fn batch(&mut self, first: u64, count: u64) -> Result<RecordBatch> {
        let ids = Int64Array::from_iter_values(first as i64..(first + count) as i64);
        let vectors = self.vectors(count as usize);
        Ok(RecordBatch::try_new(self.schema(), vec![Arc::new(ids), vectors])?)
    }
}
