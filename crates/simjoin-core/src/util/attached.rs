//! Values of types that a collection does not know.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;

/// A value of each type, made when it is first asked for and freed with the collection beside which it lies.
#[derive(Debug, Default)]
pub struct Attached(Mutex<Vec<Arc<dyn AttachedValue>>>);

/// A value beside a collection.
trait AttachedValue: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> AttachedValue for T {}

impl Attached {
    /// The value of a type.
    pub fn get<T: Any + Debug + Default + Send + Sync>(&self) -> Arc<T> {
        let mut values = self.0.lock();
        let known = values.iter().find_map(|value| {
            let value: Arc<dyn Any + Send + Sync> = Arc::clone(value) as _;
            value.downcast().ok()
        });
        known.unwrap_or_else(|| {
            let value = Arc::new(T::default());
            values.push(Arc::clone(&value) as _);
            value
        })
    }

    /// Forgets all values. A value in use stays until its last user drops it.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn a_type_has_one_value_until_it_is_forgotten() {
        let attached = Attached::default();
        attached.get::<AtomicU32>().store(7, Relaxed);
        assert!(attached.get::<Mutex<String>>().lock().is_empty());
        let held = attached.get::<AtomicU32>();
        assert_eq!(held.load(Relaxed), 7);
        attached.clear();
        assert_eq!((held.load(Relaxed), attached.get::<AtomicU32>().load(Relaxed)), (7, 0));
    }
}
