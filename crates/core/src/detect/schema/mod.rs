//! A queue's JSON Schema for outputs: read and checked once, when it is set, and then only asked. Nothing in it can make
//! us hang: expressions are linear, references stay inside the document, and each look has a bounded number of steps.

mod check;
mod output;
mod validate;

pub use output::{BadSchema, OutputSchema};
