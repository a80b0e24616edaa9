//! Execution of models that are lists of layers, in a program or in a page.
//!
//! - [`Machine`]: a device with the cases of a model.
//! - [`Job`]: the layers, parameters and inputs of an evaluation.
//! - [`Passes`]: logits and times of a job on a device.
//! - [`Message`]: words of a page about its job.
//!
//! A job and its passes have bytes in safetensors, so that a page computes the same as a program. Scores are computed elsewhere.

#![deny(unsafe_code)]

mod bytes;
mod job;
mod machine;
mod messages;
mod passes;

pub use bytes::{BytesError, longest_passes};
pub use job::{Input, Job};
pub use machine::{LayerError, LearnError, Machine};
pub use messages::Message;
pub use passes::{Answers, BATCH, PASSES, Passes, REQUESTS, answers, passes};
