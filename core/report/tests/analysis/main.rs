//! Tests of comparisons through the tables that readers see.

mod aa;
mod compare;
mod tax;
