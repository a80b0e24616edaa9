//! The native command line of Parallax, as a library so that tests can reach it.

pub mod cpu;
