//! Tests of the representation on the cases of known workloads.

mod conv;
mod crossing;
mod cube;
mod inputs;
mod library;
mod scaling;
