//! What SDKs kept on disk while no server answered: files of lines, each a thing said of a run. An SDK writes and sends
//! its own; here are those whose program is gone.

mod file;
mod line;
mod send;

pub(crate) use file::{SpoolFile, Taken};
pub(crate) use send::{Tally, send};
