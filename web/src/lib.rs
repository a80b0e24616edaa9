//! The page: a thin layer around [`parallax_schema`]. A URL query becomes a spec, the browser's GPU a profiler, and the runner's
//! events a display.
//!
//! This program measures. Another one, in `web/reports`, makes reports, traces and comparisons of runs; this one fetches it on
//! demand ([`reports`]). A page that only measures thus fetches only the code for it. The device belongs to a third program, the
//! worker: [`measuring`] exchanges the messages of [`parallax_protocol`] with it.
//!
//! [`app`] has the control flow of measurement. Only [`view`] touches the document. Each other file has one job.

mod activity;
pub mod app;
pub mod broken;
mod collector;
pub mod environment;
mod expected;
pub mod link;
mod live;
mod measuring;
pub mod models;
mod progress;
pub mod query;
pub mod reading;
mod remarks;
mod remote;
pub mod reports;
pub mod share;
pub mod shelf;
pub mod view;
pub mod words;
