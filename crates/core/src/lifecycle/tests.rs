//! The table, move by move.
