//! Joins in tiles: strips of rows (probe items) meet stages of columns (build items).
//!
//! A unit is a strip with some stages. A job of a device has the units of some rows. The kernel that
//! filters writes hits, for which there is bounded room; the kernel that decides makes matches of them.
//! A unit that finds no room is done again, in another job. One that has too many hits alone is split,
//! and in the end it is dense: each of its pairs is decided. What no device has done the CPU joins, and
//! gives the matches of the job's tiles alone.
//!
//! | file          | has                                                                          |
//! |---------------|------------------------------------------------------------------------------|
//! | [`settings`]  | what the jobs of a join have in common: their form, and room for hits        |
//! | [`plan`]      | the rows of a job, with the arrays of its plan                               |
//! | [`left`]      | units that a device has left, and those that take them up again              |
//! | [`job`]       | jobs: a kind gives the arguments of its kernels and launches them            |
//! | [`undecided`] | jobs that no device has done                                                 |
//! | [`family`]    | joins: a family cuts the rows of a unit into jobs                            |
//! | [`filter`]    | joins as a [`DeviceFilter`](crate::offload::DeviceFilter)                    |
//!
//! The form of a kind is the same on the host as in its kernels, which are compiled for some forms.
//! Rows and columns lie on the devices or travel with the jobs. Where columns travel, rows pass one
//! piece of the columns after the other ([`MovingRows`]).

mod family;
mod filter;
mod job;
mod left;
mod plan;
mod settings;
mod undecided;

pub(crate) use self::family::{Meeting, MovingRows, TileFamily, TileJoin};
pub(crate) use self::job::{Addresses, ColumnsOf, TileJob, TileKind, TravellingColumns};
pub use self::job::{Report, Tiles};
pub(crate) use self::left::TileUnit;
pub(crate) use self::plan::TilePlan;
pub use self::settings::capacity;
pub(crate) use self::settings::{TileForm, TileSettings, bytes_of_job};
