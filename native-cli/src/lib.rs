//! The native command line of Parallax, as a library so that tests can reach it.

pub mod a_a;
pub mod args;
pub mod browser;
pub mod commands;
pub mod cpu;
pub mod eval;
pub mod kernel;
pub mod output;
pub mod profile;
pub mod progress;
pub mod reports;
pub mod sensors;
pub mod session;
pub mod table;
pub mod targets;
pub mod trace_file;
