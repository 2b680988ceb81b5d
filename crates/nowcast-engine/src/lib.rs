//! What computes: plans, operations, devices, KV caches and random numbers.
//!
//! The engine knows no model. A model describes one forecast as a [`plan`]; a device runs it.
#![warn(missing_docs)]

pub mod cpu;
mod elementary;
pub mod head;
mod multiversion;
pub mod random;
pub mod student_t;
