//! Models made of the suite's workloads: execution of layers, training, and scores.

pub mod labelled;
pub mod machine;
pub mod scoring;
pub mod training;
