//! Bulk operations: freeze a set, move it item by item, settle what became of it.

pub mod freeze;
pub mod guard;
pub mod make;
pub mod moves;
pub mod patch;
pub mod row;
pub mod settle;
pub mod steer;
pub mod work;
