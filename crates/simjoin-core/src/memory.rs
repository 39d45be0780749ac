//! The memory of joins, which their caller limits.

use std::fmt;
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
