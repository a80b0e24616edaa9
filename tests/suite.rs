//! One test binary over all crates, so that they are linked once.

mod agree;
mod output;
mod pairing;
mod tidy;
