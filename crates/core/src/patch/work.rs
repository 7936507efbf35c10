//! How much of a payload a patch may look at. What is counted are bytes, so that the bound is the same on every machine.

use super::apply::Why;

/// Bytes that may still be looked at.
#[derive(Debug)]
pub(super) struct Work {
    left: usize,
}

impl Work {
    pub(super) fn of(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// One look at that many bytes.
    pub(super) fn look(&mut self, bytes: usize) -> Result<(), Why> {
        self.left = self.left.checked_sub(bytes).ok_or(Why::TooCostly)?;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.left
    }
}
