//! The page: a thin edge around [`parallax_core`]. A URL query becomes a spec, the browser's GPU a profiler, and the
//! runner's events a picture.
//!
//! It is two programs that share these files, so that whoever measures fetches no more than measuring takes: the page's own, and the
//! one that makes reports, traces and comparisons of runs, which the first fetches when it is asked for them ([`reports`]).
//!
//! [`app`] holds the flow of measuring, [`compare`] that of comparing files, [`view`] alone touches the document, and the
//! other files each hold one idea. [`measuring`] has the device, which is in another program: [`parallax_lab`].

mod activity;
pub mod app;
pub mod broken;
pub mod compare;
mod desk;
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
