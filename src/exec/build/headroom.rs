//! Memory held for what a piece of work is going to need.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

/// A part of a memory pool: the bytes reserved in it, and headroom that is held besides.
///
/// The build side of a join grows while it is read, and needs more when it is indexed. Headroom
/// for that is taken from the session's pool while the rows that cause it can still go elsewhere,
/// and drawn from later: a build side that was read is indexed. A probe partition keeps the bytes of
/// its cursor and of a small batch as long as it runs: others cannot starve it.
#[derive(Debug)]
pub(crate) struct Headroom {
    /// The reservation in the session's pool: the bytes in use and the headroom.
    held: MemoryReservation,
    pool: Arc<dyn MemoryPool>,
    state: Mutex<ReservedBytes>,
}

#[derive(Debug, Default)]
struct ReservedBytes {
    used: usize,
    headroom: usize,
    /// The bytes that are held in any case, in use or not.
    kept: usize,
    peak: usize,
}

impl Headroom {
    /// A part of `pool` that belongs to `consumer`.
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>, consumer: MemoryConsumer) -> Arc<Self> {
        let held = consumer.register(pool);
        Arc::new(Self { held, pool: Arc::clone(pool), state: Mutex::default() })
    }

    /// The part of `pool` that a build side takes.
    pub(crate) fn of_build(pool: &Arc<dyn MemoryPool>) -> Arc<Self> {
        let consumer = MemoryConsumer::new("SetSimilarityJoin build side").with_can_spill(true);
        Self::new(pool, consumer)
    }

    /// A reservation in this part.
    pub(crate) fn reservation(self: &Arc<Self>, name: &str) -> MemoryReservation {
        let pool: Arc<dyn MemoryPool> = Arc::<Self>::clone(self);
        MemoryConsumer::new(name).register(&pool)
    }

    /// Holds `bytes` of headroom on top of the bytes in use, from now on. After an error the former
    /// headroom stays.
    pub(crate) fn ensure(&self, bytes: usize) -> Result<()> {
        let mut state = self.state.lock();
        if state.used + bytes > self.held.size() {
            self.held.try_resize(state.used + bytes)?;
        }
        state.headroom = bytes;
        Ok(())
    }

    /// Holds at least `bytes` from now on, in use or not.
    pub(crate) fn keep(&self, bytes: usize) -> Result<()> {
        let mut state = self.state.lock();
        if bytes > self.held.size() {
            self.held.try_resize(bytes)?;
        }
        state.kept = bytes;
        Ok(())
    }

    /// Gives back what is not in use.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        (state.headroom, state.kept) = (0, 0);
        state.give_back(&self.held);
    }

    /// Gives the headroom back down to `bytes`.
    pub(crate) fn release_to(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.headroom = state.headroom.min(bytes);
        state.give_back(&self.held);
    }

    /// Gives `bytes` of the headroom back, where there are any.
    pub(crate) fn release_part(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.headroom = state.headroom.saturating_sub(bytes);
        state.give_back(&self.held);
    }

    /// The most bytes that were in use.
    pub(crate) fn peak(&self) -> usize {
        self.state.lock().peak
    }
}

impl ReservedBytes {
    fn use_bytes(&mut self, used: usize) {
        self.used = used;
        self.peak = self.peak.max(used);
    }

    /// Gives back what is neither in use nor to be held.
    fn give_back(&self, held: &MemoryReservation) {
        let keep = (self.used + self.headroom).max(self.kept);
        if held.size() > keep {
            held.resize(keep);
        }
    }
}

impl fmt::Display for Headroom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pool)
    }
}

impl MemoryPool for Headroom {
    fn name(&self) -> &str {
        "simjoin headroom"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        let mut state = self.state.lock();
        let needed = state.used + additional;
        state.use_bytes(needed);
        if needed > self.held.size() {
            self.held.resize(needed);
        }
    }

    fn shrink(&self, _: &MemoryReservation, bytes: usize) {
        let mut state = self.state.lock();
        state.used = state.used.saturating_sub(bytes);
        // Bytes drawn from the headroom go back to it.
        state.give_back(&self.held);
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<()> {
        let mut state = self.state.lock();
        let needed = state.used + additional;
        if needed > self.held.size() {
            self.held.try_resize(needed)?;
        }
        state.use_bytes(needed);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.state.lock().used
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn headroom_is_held_and_drawn_from() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let headroom = Headroom::new(&pool, MemoryConsumer::new("part"));
        let part = headroom.reservation("inner");
        part.try_grow(300).unwrap();
        headroom.ensure(500).unwrap();
        assert_eq!((pool.reserved(), headroom.reserved()), (800, 300));
        let error = headroom.ensure(701).unwrap_err().strip_backtrace();
        assert!(error.contains("part"), "{error}");
        // Others cannot take the headroom, the part can.
        let other = MemoryConsumer::new("other").register(&pool);
        assert!(other.try_grow(201).is_err());
        part.try_grow(500).unwrap();
        assert_eq!(pool.reserved(), 800);
        part.try_grow(200).unwrap();
        assert!(part.try_grow(1).is_err());
        part.shrink(900);
        assert_eq!((pool.reserved(), headroom.reserved()), (600, 100));
        headroom.release_to(300);
        headroom.release_to(400);
        assert_eq!(pool.reserved(), 400);
        headroom.release_part(200);
        assert_eq!(pool.reserved(), 200);
        headroom.release_part(200);
        assert_eq!(pool.reserved(), 100);
        headroom.release();
        assert_eq!(pool.reserved(), 100);
        drop(part);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn kept_bytes_are_there_whatever_others_take() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let memory = Headroom::new(&pool, MemoryConsumer::new("part"));
        memory.keep(300).unwrap();
        let [first, second] = ["first", "second"].map(|name| memory.reservation(name));
        first.try_grow(200).unwrap();
        let other = MemoryConsumer::new("other").register(&pool);
        other.try_grow(700).unwrap();
        second.try_grow(100).unwrap();
        assert!(second.try_grow(1).is_err());
        other.free();
        second.try_grow(500).unwrap();
        assert_eq!(pool.reserved(), 800);
        second.free();
        first.free();
        assert_eq!((pool.reserved(), memory.reserved()), (300, 0));
        assert!(memory.keep(1001).is_err());
        memory.release();
        assert_eq!(pool.reserved(), 0);
    }
}
