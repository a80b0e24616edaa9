//! Operations as data: shapes, cases, buffers, stages, kernel sources, inputs, and the contract of a backend.
//!
//! Backends depend on this crate and on no workload. [`device::Profiler`] is their contract. It has no GPU API, no clock, no input
//! or output.

#![deny(unsafe_code)]

mod buffer;
mod case;
mod code;
mod collective;
pub mod conv;
mod crossing;
mod cube;
mod cubek;
pub mod device;
mod draw;
mod form;
mod gemm;
mod gemm_gather;
mod gemm_pair;
mod gemm_rows;
mod gemm_stream;
mod gemm_wgmma;
mod inputs;
mod label;
mod library;
mod numbered;
mod optional_lines;
pub mod parallel;
mod precondition;
mod probe;
mod program;
mod queues;
mod rearrange;
mod requirements;
mod row_products;
mod rows;
mod scaling;
mod scratch;
mod shape;
pub mod stress;
mod tensor_map;
mod texts;
mod tuning;
mod workload;

pub use buffer::*;
pub use case::*;
pub use code::*;
pub use collective::*;
pub use conv::Conv;
pub use cube::*;
pub use cubek::*;
pub use draw::*;
pub use form::*;
pub use gemm::*;
pub use inputs::*;

pub use library::*;
pub use numbered::*;
pub use optional_lines::lines_for;
pub use precondition::*;
pub use probe::*;
pub use program::*;
pub use queues::*;
pub use rearrange::*;
pub use requirements::*;
pub use row_products::*;
pub use rows::*;
pub use scaling::*;
pub use scratch::*;
pub use shape::*;
pub use stress::StressInput;
pub use tensor_map::*;
pub use texts::*;
pub use tuning::*;
pub use workload::*;
