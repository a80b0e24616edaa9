//! Models made of the suite's workloads: execution of layers, training, and scores.

mod classes;
mod classify;
mod entities;
pub mod evaluation;
pub mod executor;
mod files;
mod image;
pub mod loss_scale;
mod ner;
pub mod scoring;
pub mod task;
pub mod training;
