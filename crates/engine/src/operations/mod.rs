//! Bulk operations: freeze a set of runs, move them item by item, and settle their outcomes.

pub mod freeze;
pub mod guard;
pub mod make;
pub mod moves;
pub mod patch;
pub mod row;
pub mod settle;
pub mod steer;
pub mod work;
