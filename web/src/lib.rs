//! The page: a thin layer around [`parallax_schema`]. A URL query becomes a spec, the browser's GPU a profiler, and the runner's
//! events a display.
//!
//! The page consists of two programs that share these files. The first one measures. The second one makes reports, traces and
//! comparisons of runs; the first one fetches it on demand ([`reports`]). A page that only measures thus fetches only the code for
//! it.
//!
//! [`app`] has the control flow of measurement, [`compare`] that of comparison. Only [`view`] touches the document. Each other file
//! has one job. [`measuring`] has the device, which belongs to another program: [`parallax_worker`].

mod activity;
pub mod app;
pub mod broken;
mod collector;
pub mod compare;
pub mod environment;
mod expected;
mod link;
mod live;
mod measuring;
mod progress;
pub mod query;
mod reading;
mod remarks;
mod remote;
pub mod reports;
pub mod share;
mod shelf;
pub mod view;
mod words;
