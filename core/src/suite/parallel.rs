//! Host code over all threads of a processor, by rayon's names: `use crate::suite::parallel::*`.
//!
//! A page's program has one thread, unless it is compiled for memory that workers share. There the same names do one
//! element after the other, without the machinery that hands work out, which would be a tenth of what a visitor downloads.

#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
pub use one_thread::*;
#[cfg(any(not(target_family = "wasm"), target_feature = "atomics"))]
pub use threads::*;

#[cfg(any(not(target_family = "wasm"), target_feature = "atomics"))]
mod threads {
    pub use rayon::current_num_threads;
    pub use rayon::prelude::*;

    /// All elements by an operation in any grouping, from an element that changes none.
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

    /// The one that there is.
    pub fn current_num_threads() -> usize {
        1
    }

    /// All elements by an operation, from an element that changes none.
    pub fn reduce<I: Iterator>(
        elements: I,
        neutral: impl Fn() -> I::Item,
        with: impl Fn(I::Item, I::Item) -> I::Item,
    ) -> I::Item {
        elements.fold(neutral(), with)
    }

    /// What can be gone through.
    pub trait IntoParallelIterator: IntoIterator + Sized {
        /// Its elements.
        fn into_par_iter(self) -> Self::IntoIter {
            self.into_iter()
        }
    }

    impl<I: IntoIterator> IntoParallelIterator for I {}

    /// What an iterator of rayon's does besides.
    pub trait ParallelIterator: Iterator + Sized {
        /// Each element, with something that is made once for many of them.
        fn for_each_init<T>(self, init: impl Fn() -> T, each: impl Fn(&mut T, Self::Item)) {
            let mut with = init();
            self.for_each(|element| each(&mut with, element));
        }
    }

    impl<I: Iterator> ParallelIterator for I {}

    /// What can grow by what is gone through.
    pub trait ParallelExtend<T>: Extend<T> {
        /// Grow by these elements.
        fn par_extend(&mut self, elements: impl IntoIterator<Item = T>) {
            self.extend(elements);
        }
    }

    impl<T, C: Extend<T>> ParallelExtend<T> for C {}

    /// A slice to read.
    pub trait ParallelSlice<T> {
        /// Its elements.
        fn par_iter(&self) -> slice::Iter<'_, T>;
        /// So many at a time.
        fn par_chunks(&self, size: usize) -> slice::Chunks<'_, T>;
        /// So many at a time, without a last part that is smaller.
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

    /// A slice to write.
    pub trait ParallelSliceMut<T> {
        /// Its elements.
        fn par_iter_mut(&mut self) -> slice::IterMut<'_, T>;
        /// So many at a time.
        fn par_chunks_mut(&mut self, size: usize) -> slice::ChunksMut<'_, T>;
        /// So many at a time, without a last part that is smaller.
        fn par_chunks_exact_mut(&mut self, size: usize) -> slice::ChunksExactMut<'_, T>;
        /// Into order, equal ones in any.
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
