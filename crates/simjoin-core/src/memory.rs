//! The memory of joins, which their caller limits.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::error::{Result, resources_err};

/// A reservation of memory for one purpose. It grows and shrinks; dropping it gives its bytes back.
pub trait Memory: fmt::Debug + Send + Sync {
    /// The bytes that are taken.
    fn size(&self) -> usize;

    /// Takes further bytes.
    ///
    /// # Errors
    ///
    /// [`ResourcesExhausted`](crate::error::Error::ResourcesExhausted) when they are refused. Nothing is
    /// taken then.
    fn try_grow(&self, bytes: usize) -> Result<()>;

    /// Gives back some of the bytes that are taken.
    fn shrink(&self, bytes: usize);

    /// Memory of the same consumer, of which nothing is taken.
    fn new_empty(&self) -> Reservation;

    /// Takes or gives back what makes `bytes` bytes.
    ///
    /// # Errors
    ///
    /// As for [`Self::try_grow`].
    fn try_resize(&self, bytes: usize) -> Result<()> {
        let size = self.size();
        match bytes > size {
            true => self.try_grow(bytes - size),
            false => {
                self.shrink(size - bytes);
                Ok(())
            }
        }
    }
}

/// An owned reservation.
pub type Reservation = Box<dyn Memory>;

impl Memory for Reservation {
    fn size(&self) -> usize {
        self.as_ref().size()
    }

    fn try_grow(&self, bytes: usize) -> Result<()> {
        self.as_ref().try_grow(bytes)
    }

    fn shrink(&self, bytes: usize) {
        self.as_ref().shrink(bytes);
    }

    fn new_empty(&self) -> Reservation {
        self.as_ref().new_empty()
    }

    fn try_resize(&self, bytes: usize) -> Result<()> {
        self.as_ref().try_resize(bytes)
    }
}

/// A limit that several reservations share.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    taken: AtomicUsize,
}

impl Budget {
    /// Memory of at most `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicUsize::new(0) })
    }

    /// Memory without a limit.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// The bytes that all reservations have taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// A reservation of which nothing is taken.
    pub fn reservation(self: &Arc<Self>) -> Reservation {
        Box::new(Taken { budget: Arc::clone(self), bytes: AtomicUsize::new(0) })
    }
}

/// Bytes taken of a budget.
#[derive(Debug)]
struct Taken {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Memory for Taken {
    fn size(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn try_grow(&self, bytes: usize) -> Result<()> {
        let limit = self.budget.limit;
        let grown = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= limit);
        match self.budget.taken.fetch_update(Relaxed, Relaxed, grown) {
            Ok(_) => {
                self.bytes.fetch_add(bytes, Relaxed);
                Ok(())
            }
            Err(taken) => resources_err!(
                "{bytes} bytes are refused: {taken} of the limit of {limit} bytes are taken"
            ),
        }
    }

    fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.budget.taken.fetch_sub(bytes, Relaxed);
    }

    fn new_empty(&self) -> Reservation {
        self.budget.reservation()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(*self.bytes.get_mut(), Relaxed);
    }
}

/// An empty vector with room for `len` values, by whose bytes `memory` grows.
///
/// # Errors
///
/// When memory is refused.
pub fn room<T>(memory: &dyn Memory, len: usize) -> Result<Vec<T>> {
    memory.try_grow(len.saturating_mul(size_of::<T>()))?;
    let mut list = Vec::new();
    list.reserve_exact(len);
    Ok(list)
}

/// `len` copies of a value, by whose bytes `memory` grows.
///
/// # Errors
///
/// When memory is refused.
pub fn copies<T: Clone>(memory: &dyn Memory, len: usize, value: T) -> Result<Vec<T>> {
    memory.try_grow(len.saturating_mul(size_of::<T>()))?;
    Ok(vec![value; len])
}

/// A vector that reserves its memory before it grows, and gives it back when it is dropped.
pub struct CountedVec<T> {
    list: Vec<T>,
    memory: Reservation,
}

impl<T> CountedVec<T> {
    /// An empty vector, whose memory is of the consumer of `memory`.
    pub fn new(memory: &dyn Memory) -> Self {
        Self { list: vec![], memory: memory.new_empty() }
    }

    /// A vector that is there, counted from now on.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub fn of(list: Vec<T>, memory: &dyn Memory) -> Result<Self> {
        let memory = memory.new_empty();
        memory.try_grow(list.capacity().saturating_mul(size_of::<T>()))?;
        Ok(Self { list, memory })
    }

    /// Makes room for further values: for as many as there are, at least.
    ///
    /// # Errors
    ///
    /// When memory is refused. Nothing has changed then.
    pub fn try_reserve(&mut self, more: usize) -> Result<()> {
        let capacity = self.list.capacity();
        let needed = self.list.len().saturating_add(more);
        if needed <= capacity {
            return Ok(());
        }
        let needed = needed.max(capacity.saturating_mul(2));
        // While the values move, the former place is taken, too.
        let former = self.memory.size();
        self.memory.try_grow(needed.saturating_mul(size_of::<T>()))?;
        self.list.reserve_exact(needed - self.list.len());
        self.memory.shrink(former);
        Ok(())
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub fn try_push(&mut self, value: T) -> Result<()> {
        self.try_reserve(1)?;
        self.list.push(value);
        Ok(())
    }

    /// Adds values, whose number is known.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub fn try_extend(&mut self, values: impl ExactSizeIterator<Item = T>) -> Result<()> {
        self.try_reserve(values.len())?;
        self.list.extend(values);
        Ok(())
    }

    /// Adds the values of another vector, which an empty one takes over.
    ///
    /// # Errors
    ///
    /// When memory is refused.
    pub fn try_append(&mut self, mut other: Self) -> Result<()> {
        if self.list.is_empty() {
            *self = other;
            return Ok(());
        }
        self.try_reserve(other.len())?;
        self.list.append(&mut other.list);
        Ok(())
    }

    /// Takes the values with their memory, and leaves none.
    pub fn take(&mut self) -> Self {
        let none = Self::new(&self.memory);
        std::mem::replace(self, none)
    }

    /// Keeps the first `len` values, and the room of the others.
    pub fn truncate(&mut self, len: usize) {
        self.list.truncate(len);
    }

    /// Keeps the values of which `keeps` holds, and the room of the others.
    pub fn retain(&mut self, keeps: impl FnMut(&T) -> bool) {
        self.list.retain(keeps);
    }

    /// The values, whose memory is no longer counted.
    pub fn into_vec(self) -> Vec<T> {
        self.list
    }
}

impl<T> Deref for CountedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.list
    }
}

impl<T> DerefMut for CountedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.list
    }
}

impl<T> fmt::Debug for CountedVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { list, memory } = self;
        write!(f, "CountedVec of {} values in {} bytes", list.len(), memory.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counted_vector_takes_its_capacity_and_no_more() {
        let budget = Budget::new(1 << 10);
        let mut list = CountedVec::new(budget.reservation().as_ref());
        let mut all = vec![];
        while list.try_push(all.len() as u64).is_ok() {
            all.push(all.len() as u64);
            assert_eq!(budget.taken(), list.list.capacity() * 8);
        }
        // 64 values, whose next place would be taken beside theirs.
        assert_eq!((all.len(), &list[..]), (64, &all[..]));
        let refused = list.try_extend([0; 100].into_iter());
        assert!(refused.is_err_and(|error| error.is_out_of_memory()));
        assert_eq!((budget.taken(), list.len()), (512, 64));
        list.truncate(3);
        list.try_extend([7, 8].into_iter()).unwrap();
        assert_eq!(list[..], [0, 1, 2, 7, 8]);
        let mut other = CountedVec::of(vec![9; 2], budget.reservation().as_ref()).unwrap();
        assert_eq!(budget.taken(), 512 + 16);
        other.try_append(list).unwrap();
        assert_eq!((budget.taken(), &other[..]), (7 * 8, &[9, 9, 0, 1, 2, 7, 8][..]));
        drop(other);
        assert_eq!(budget.taken(), 0);
    }
}
