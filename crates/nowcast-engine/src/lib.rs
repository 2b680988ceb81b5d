//! What computes: plans, operations, devices, KV caches and random numbers.
//!
//! The engine knows no model. A model describes one forecast to a [`plan::PlanBuilder`] as a list of
//! [`operation`]s over tensors; a [`device`] takes the model's [`weights`] and runs the finished [`plan::Plan`].
//!
//! | room | what it owns |
//! |---|---|
//! | [`extent`] | what varies without a new plan: batch, context, samples |
//! | [`dtype`] | the numbers of a matrix |
//! | [`plan`] | recording operations, laying out memory |
//! | [`operation`] | the dozen operations a device implements |
//! | [`kv_cache`] | keys and values: context per series, suffix per path |
//! | [`rotary`], [`scaler`] | position tables, running statistics |
//! | [`random`], [`student_t`] | counter-based numbers, exact mixtures |
//! | [`token_sampling`] | temperature, top-k and top-p |
//! | [`cpu`], [`cuda`] | the devices |
//! | [`check`] | every operation of one device beside another |
//! | [`profile`] | where the time goes |

// What cannot fail says why (`expect`); tests may unwrap.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod check;
pub mod cpu;
pub mod cuda;
pub mod device;
pub mod dtype;
mod elementary;
pub mod error;
pub mod extent;
pub mod head;
pub mod kv_cache;
pub mod operation;
pub mod plan;
pub mod profile;
pub mod random;
pub mod rotary;
pub mod scaler;
pub mod student_t;
pub mod token_sampling;
mod watch;
pub mod weights;

pub use error::{Error, Result};
