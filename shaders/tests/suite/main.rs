//! One test binary over the backend, so that it is linked once.

mod contract;
mod enqueue;
mod forms;
