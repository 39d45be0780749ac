//! Joins that run wholly on devices: what the families share.
//!
//! A [`DeviceFilter`] cuts the probe items of a unit into jobs. A job is one work of a device, and
//! gives matches or their counts, and what it has left: the parts of it that found no room.
//!
//! ```text
//! cursor                              device (queue shared by all partitions)
//! unit ─► plan ─► jobs ─► submit ───► filter ─► decide ─► matches, what is left ─┐
//!                  ▲                                                             │
//!                  ├── what is left ◄──────────────────── inbox ◄────────────────┘
//!                  ├── smaller jobs ◄── too little memory ─┤
//!                  └── other device ◄── failure ───────────┤
//!   match buffer ◄─── deliveries ◄──── redo on the CPU ◄───┘ no device is left
//! ```
//!
//! [`Devices`] are those of one join. The join on the CPU is prepared by a thread of its own, once it
//! is needed ([`OnCpu`]). Families that meet rows with columns in tiles share one filter ([`tiles`]).

mod arena;
mod awaited;
mod copies;
mod cursor;
mod devices;
mod fallback;
mod filter;
mod inbox;
mod join;
mod memory;
mod opening;
mod outcome;
mod prepared;
mod redo;
mod task;
pub mod tiles;
mod unit;

pub(crate) use self::arena::Arena;
pub use self::awaited::{ask, run};
pub use self::copies::Copies;
pub use self::devices::Devices;
pub use self::devices::OpenDevices;
pub(crate) use self::fallback::{CpuJoin, OnCpu, Wanted};
pub use self::filter::Itself;
pub use self::filter::{DeviceFilter, OnHost, TicketOf, Undecided};
pub use self::join::Offload;
pub use self::memory::{ALIGNMENT, ArrayLayout, bytes_of, fetch};
pub use self::opening::Opener;
pub(crate) use self::opening::device_place;
pub use self::outcome::JobCounters;
pub use self::outcome::{Counted, Outcome};
pub use self::prepared::PreparedOffload;
pub(crate) use self::task::{DeviceJob, DeviceTask, EachDevice, JobResults, OnDevice};
pub use self::unit::OpenUnit;
