//! The items of one side, and how rows become items.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};

use super::{KeyDictionary, Keys, RowGroups, Unload};
use crate::error::{Error, Result, internal_error};
use crate::memory::Memory;
use crate::predicate::Side;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// The distinct items of some rows, as their family holds them.
pub trait Collection: Any + Debug + Send + Sync {
    /// The rows that hold each item.
    fn groups(&self) -> &RowGroups;

    /// The rows of each item, to order them.
    fn groups_mut(&mut self) -> &mut RowGroups;

    /// The bytes allocated, with the bytes of the groups.
    fn size_in_bytes(&self) -> usize;
}

/// Implements [`Collection`] for a type with a field `groups`. The expression gives the bytes of its other
/// fields.
#[macro_export]
macro_rules! collection {
    ($items:ty, |$this:ident| $bytes:expr) => {
        impl $crate::engine::Collection for $items {
            fn groups(&self) -> &$crate::engine::RowGroups {
                &self.groups
            }

            fn groups_mut(&mut self) -> &mut $crate::engine::RowGroups {
                &mut self.groups
            }

            fn size_in_bytes(&self) -> usize {
                let $this = self;
                let bytes: usize = $bytes;
                bytes + $this.groups.size_in_bytes()
            }
        }
    };
}

pub use collection;

impl dyn Collection {
    /// The collection as its family knows it.
    ///
    /// # Errors
    ///
    /// An internal error when another family made it.
    pub fn of<T: Collection>(&self) -> Result<&T> {
        let this: &dyn Any = self;
        this.downcast_ref().ok_or_else(|| another_family::<T>())
    }

    /// Like `of`, shared.
    ///
    /// # Errors
    ///
    /// An internal error when another family made it.
    pub fn shared<T: Collection>(self: &Arc<Self>) -> Result<Arc<T>> {
        let this: Arc<dyn Any + Send + Sync> = Arc::<Self>::clone(self);
        this.downcast().map_err(|_| another_family::<T>())
    }
}

pub(super) fn another_family<T>() -> Error {
    let wanted = std::any::type_name::<T>();
    internal_error!("a similarity join of one family got parts of another, not {wanted}")
}

/// The rows of one batch as the join sees them.
#[derive(Clone, Copy)]
pub struct EncodeInput<'a> {
    /// The argument of the similarity predicate.
    pub values: &'a dyn Array,
    /// The blocking key of each row; NULL matches nothing. `None` when the join has no key.
    pub keys: Option<Keys<'a>>,
    /// Rows that may match at all; NULL counts as false.
    pub filter: Option<&'a BooleanArray>,
}

impl EncodeInput<'_> {
    /// Whether the filter admits a row.
    #[inline]
    pub fn may_match(&self, row: usize) -> bool {
        self.filter.is_none_or(|f| f.is_valid(row) && f.value(row))
    }
}

/// Collects rows of the build side. Several encoders can read batches of one input at the same
/// time, to be [merged](super::Encoding::finish) at the end.
pub trait BuildEncoder: Any + Send {
    /// Adds the rows of a batch whose first is row `first_row` of the whole input. The rows of an
    /// encoder ascend. `reservation`, which several encoders may share, is grown by what this
    /// encoder allocates, on top of `base` bytes of other things.
    ///
    /// # Errors
    ///
    /// When memory is refused, or a row cannot be an item.
    fn push(
        &mut self,
        first_row: u32,
        input: &EncodeInput<'_>,
        keys: &mut KeyDictionary,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<()>;

    /// The number of rows added.
    fn row_count(&self) -> usize;

    /// The part of the reservation that is this encoder's, with the `base` bytes that it was told
    /// to count.
    fn reserved(&self) -> usize;

    /// Positions on the family's [`Axis`](super::Axis) of the first rows that have one, at most
    /// `count` of them.
    fn positions(&self, count: usize) -> Vec<u32>;

    /// The [kind](super::RowPlace::kind) that some of the rows are of.
    fn kind(&self) -> u32 {
        0
    }

    /// Gives the rows back, to be stored on disk. `keys` are the keys of this encoder's rows, where
    /// the join has some.
    fn unload<'a>(&'a self, keys: Option<&'a KeyDictionary>) -> Box<dyn Unload + 'a>;

    /// The bytes that [`Self::unload`] allocates.
    fn unload_bytes(&self, keys: &KeyDictionary) -> usize;
}

impl dyn BuildEncoder {
    /// The encoder as its family knows it.
    ///
    /// # Errors
    ///
    /// An internal error when another family made it.
    pub fn of<T: BuildEncoder>(&self) -> Result<&T> {
        let this: &dyn Any = self;
        this.downcast_ref().ok_or_else(|| another_family::<T>())
    }

    /// Like `of`, by value.
    ///
    /// # Errors
    ///
    /// An internal error when another family made it.
    pub fn into<T: BuildEncoder>(self: Box<Self>) -> Result<T> {
        let this: Box<dyn Any> = self;
        this.downcast().map(|this| *this).map_err(|_| another_family::<T>())
    }
}

/// One task's part of the build side: an encoder with the keys of its rows.
pub type EncodedPart = (Box<dyn BuildEncoder>, KeyDictionary);

/// The resources for finishing the build side.
pub struct FinishContext<'a> {
    /// Holds the result afterwards, on top of `base` bytes.
    pub reservation: &'a dyn Memory,
    /// Bytes of the reservation that belong to the caller.
    pub base: usize,
    /// Called whenever the reservation has grown.
    pub peak: &'a dyn Fn(),
    /// Ends the work early.
    pub cancel: &'a CancelFlag,
    /// The number of threads that may work at once, at least 1.
    pub threads: Threads,
    /// Whether the encoder that comes out is going to be used: a self-join meets no other rows.
    pub meets_others: bool,
    /// Whether the items meet each other.
    pub self_join: bool,
    /// The side of the rows that will probe: of these, the encoder may leave out what matches none of
    /// the items. `None` where it must not.
    pub probe: Option<Side>,
}

impl FinishContext<'_> {
    /// Makes the reservation hold `bytes` on top of the base.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub fn reserve(&self, bytes: usize) -> Result<()> {
        self.reservation.try_resize(self.base + bytes)?;
        (self.peak)();
        Ok(())
    }
}

/// The build side as items.
pub struct Encoded {
    pub items: Box<dyn Collection>,
    pub encoder: Arc<dyn ProbeEncoder>,
    pub keys: KeyDictionary,
}

/// Bounds on the bytes that a build side takes beyond what its encoders hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Growth {
    /// The bytes while [`Encoding::finish`](super::Encoding::finish) runs, and the part that may
    /// stay.
    pub finish: usize,
    pub stays: usize,
    /// The bytes that the greediest strategy takes while it is prepared, and keeps.
    pub prepare: usize,
    /// The bytes of each cursor that grow with the build side.
    pub cursor: usize,
}

/// Makes items of probe rows, comparable with those of the build side.
pub trait ProbeEncoder: Debug + Send + Sync {
    /// The items of a probe batch. `reservation` holds the scratch space and the collection
    /// afterwards, on top of `base` bytes of other things. A row that can match nothing may be left
    /// without an item.
    ///
    /// # Errors
    ///
    /// When memory is refused, or a row cannot be an item.
    fn encode(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        scratch: &mut Scratch,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<Arc<dyn Collection>>;

    /// Like [`Self::encode`], for rows in [stored form](super::StoredForm).
    ///
    /// # Errors
    ///
    /// As for [`Self::encode`].
    fn encode_stored(
        &self,
        input: &EncodeInput<'_>,
        keys: &KeyDictionary,
        scratch: &mut Scratch,
        reservation: &dyn Memory,
        base: usize,
    ) -> Result<Arc<dyn Collection>> {
        self.encode(input, keys, scratch, reservation, base)
    }

    /// The bytes of the scratch space that every batch takes, whatever its rows.
    fn scratch_bytes(&self) -> usize {
        0
    }

    /// The number of distinct elementary values of the build side (tokens of sets), for metrics.
    fn value_count(&self) -> usize;

    /// The bytes allocated.
    fn size_in_bytes(&self) -> usize;
}

/// Buffers that one probe partition reuses from batch to batch, in a form of its family's own.
#[derive(Default)]
pub struct Scratch {
    buffers: Option<Box<dyn Any + Send>>,
    bytes: usize,
}

impl Scratch {
    /// Takes the buffers out, empty ones at first.
    pub fn take<T: Default + Any + Send>(&mut self) -> Box<T> {
        self.buffers.take().and_then(|buffers| buffers.downcast().ok()).unwrap_or_default()
    }

    /// Puts them back for the next batch; they take `bytes`.
    pub fn put_back<T: Any + Send>(&mut self, buffers: Box<T>, bytes: usize) {
        *self = Self { buffers: Some(buffers), bytes };
    }

    /// The bytes of the buffers that were put back last.
    pub fn size_in_bytes(&self) -> usize {
        self.bytes
    }
}
