//! Plans and the measuring loop: limits, samples, stopping, ceilings, checks against references.

#![deny(unsafe_code)]

pub mod coverage;
pub mod measure;
pub mod plan;
