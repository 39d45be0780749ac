//! Elements that begin at a line of the cache.

use std::ops::{Deref, DerefMut};

/// Elements that begin at a line of the cache: registers and tiles are loaded from whole lines then, not
/// from parts of two.
#[derive(Debug)]
pub(super) struct Aligned<E> {
    elements: Vec<E>,
    first: usize,
}

/// The bytes of a line.
const LINE: usize = 64;

impl<E: Copy> Aligned<E> {
    /// The elements in front of the first, at most.
    const MOST: usize = LINE / size_of::<E>() - 1;

    /// Bytes that are allocated besides those of the elements, at most.
    pub(super) const MORE_BYTES: usize = LINE;

    pub(super) const fn new() -> Self {
        Self { elements: vec![], first: 0 }
    }

    /// Copies of an element, `count` of them.
    pub(super) fn filled(element: E, count: usize) -> Self {
        // Zeros need not be written.
        let mut elements = vec![element; count + Self::MOST];
        let first = Self::first_of(&elements);
        elements.truncate(first + count);
        Self { elements, first }
    }

    fn first_of(elements: &[E]) -> usize {
        elements.as_ptr().align_offset(LINE).min(Self::MOST)
    }

    /// The number of elements that there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.elements.capacity().saturating_sub(Self::MOST)
    }

    /// Forgets all elements, and makes room for others.
    pub(super) fn make_room(&mut self, count: usize) {
        self.elements.clear();
        self.elements.reserve_exact(count + Self::MOST);
        self.first = 0;
    }

    /// Replaces all elements by `count` copies of one.
    pub(super) fn fill(&mut self, element: E, count: usize) {
        self.make_room(count);
        self.first = Self::first_of(&self.elements);
        self.elements.resize(self.first + count, element);
    }
}

impl<E> Deref for Aligned<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &self.elements[self.first..]
    }
}

impl<E> DerefMut for Aligned<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        &mut self.elements[self.first..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements that fit are written where the room was made.
    #[test]
    fn elements_begin_at_a_line_and_stay_in_their_room() {
        let at_line = |elements: &Aligned<i32>| elements.as_ptr().addr().is_multiple_of(LINE);
        for count in [0, 1, 15, 16, 17, 1000] {
            let mut elements = Aligned::filled(7, count);
            assert!(at_line(&elements) && elements.iter().eq(&vec![7; count]), "{count}");
            elements[..].fill(1);
            elements.fill(2, count / 2);
            assert!(at_line(&elements) && elements.iter().eq(&vec![2; count / 2]), "{count}");
            elements.make_room(count);
            let (room, place) = (elements.capacity(), elements.elements.as_ptr());
            assert!(room >= count);
            elements.fill(3, room);
            assert!(at_line(&elements) && elements.iter().eq(&vec![3; room]), "{count}");
            assert_eq!((elements.capacity(), elements.elements.as_ptr()), (room, place));
        }
    }
}
