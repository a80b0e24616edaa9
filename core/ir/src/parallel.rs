//! Multi-threaded host code, by rayon's names: `use crate::parallel::*`.
//!
//! A page's program has one thread, unless it is compiled for memory shared by workers. There, the same names process elements
//! one after the other. This saves rayon's scheduler, a tenth of a visitor's download.

#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
pub use one_thread::*;
#[cfg(any(not(target_family = "wasm"), target_feature = "atomics"))]
pub use threads::*;

#[cfg(any(not(target_family = "wasm"), target_feature = "atomics"))]
mod threads {
    pub use rayon::prelude::*;
    pub use rayon::{current_num_threads, join};

    /// Reduces all elements by an operation in any grouping, from a neutral element.
    pub fn reduce<I: ParallelIterator>(
        elements: I,
        neutral: impl Fn() -> I::Item + Sync + Send,
        with: impl Fn(I::Item, I::Item) -> I::Item + Sync + Send,
    ) -> I::Item {
        elements.reduce(neutral, with)
    }
}

#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
mod one_thread {
    use std::slice;

    /// Number of threads: one.
    pub fn current_num_threads() -> usize {
        1
    }

    /// Calls two functions, one after the other.
    pub fn join<A, B>(first: impl FnOnce() -> A, second: impl FnOnce() -> B) -> (A, B) {
        (first(), second())
    }

    /// Reduces all elements by an operation, from a neutral element.
    pub fn reduce<I: Iterator>(
        elements: I,
        neutral: impl Fn() -> I::Item,
        with: impl Fn(I::Item, I::Item) -> I::Item,
    ) -> I::Item {
        elements.fold(neutral(), with)
    }

    /// Collection that can be iterated.
    pub trait IntoParallelIterator: IntoIterator + Sized {
        /// Returns its elements.
        fn into_par_iter(self) -> Self::IntoIter {
            self.into_iter()
        }
    }

    impl<I: IntoIterator> IntoParallelIterator for I {}

    /// Further methods of rayon's iterators.
    pub trait ParallelIterator: Iterator + Sized {
        /// Processes each element with a state that is created once for many elements.
        fn for_each_init<T>(self, init: impl Fn() -> T, each: impl Fn(&mut T, Self::Item)) {
            let mut with = init();
            self.for_each(|element| each(&mut with, element));
        }
    }

    impl<I: Iterator> ParallelIterator for I {}

    /// Collection that can be extended by an iterator.
    pub trait ParallelExtend<T>: Extend<T> {
        /// Extends it by these elements.
        fn par_extend(&mut self, elements: impl IntoIterator<Item = T>) {
            self.extend(elements);
        }
    }

    impl<T, C: Extend<T>> ParallelExtend<T> for C {}

    /// Slice to read.
    pub trait ParallelSlice<T> {
        /// Returns its elements.
        fn par_iter(&self) -> slice::Iter<'_, T>;
        /// Returns chunks of `size` elements.
        fn par_chunks(&self, size: usize) -> slice::Chunks<'_, T>;
        /// Returns chunks of `size` elements, without a smaller last one.
        fn par_chunks_exact(&self, size: usize) -> slice::ChunksExact<'_, T>;
    }

    impl<T> ParallelSlice<T> for [T] {
        fn par_iter(&self) -> slice::Iter<'_, T> {
            self.iter()
        }

        fn par_chunks(&self, size: usize) -> slice::Chunks<'_, T> {
            self.chunks(size)
        }

        fn par_chunks_exact(&self, size: usize) -> slice::ChunksExact<'_, T> {
            self.chunks_exact(size)
        }
    }

    /// Slice to write.
    pub trait ParallelSliceMut<T> {
        /// Returns its elements.
        fn par_iter_mut(&mut self) -> slice::IterMut<'_, T>;
        /// Returns chunks of `size` elements.
        fn par_chunks_mut(&mut self, size: usize) -> slice::ChunksMut<'_, T>;
        /// Returns chunks of `size` elements, without a smaller last one.
        fn par_chunks_exact_mut(&mut self, size: usize) -> slice::ChunksExactMut<'_, T>;
        /// Sorts the elements; equal ones in any order.
        fn par_sort_unstable(&mut self)
        where
            T: Ord;
    }

    impl<T> ParallelSliceMut<T> for [T] {
        fn par_iter_mut(&mut self) -> slice::IterMut<'_, T> {
            self.iter_mut()
        }

        fn par_chunks_mut(&mut self, size: usize) -> slice::ChunksMut<'_, T> {
            self.chunks_mut(size)
        }

        fn par_chunks_exact_mut(&mut self, size: usize) -> slice::ChunksExactMut<'_, T> {
            self.chunks_exact_mut(size)
        }

        fn par_sort_unstable(&mut self)
        where
            T: Ord,
        {
            self.sort_unstable();
        }
    }
}
