//! Native command line of Parallax, as a library for tests.

// These macros panic on a closed pipe; `console` has the replacements.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod args;
pub mod bisect;
pub mod browser;
pub mod burn_in;
pub mod cards;
pub mod collector;
pub mod commands;
pub mod console;
pub mod cpu;
pub mod diagnosis;
pub mod docs;
pub mod files;
pub mod flamegraph;
pub mod heartbeat;
pub mod help;
pub mod host;
pub mod interface;
pub mod interrupts;
pub mod learn;
pub mod logging;
pub mod memory;
mod model;
pub mod npy;
pub mod output;
pub mod parquet;
pub mod places;
pub mod processes;
pub mod progress;
pub mod ranks;
pub mod reading;
pub mod recorded;
pub mod search;
pub mod sensors;
pub mod session;
pub mod settings;
pub mod stores;
pub mod summary;
pub mod system;
pub mod table;
pub mod targets;
pub mod texts;
pub mod trace_file;
pub mod trace_input;
pub mod trial;
pub mod tuning;
