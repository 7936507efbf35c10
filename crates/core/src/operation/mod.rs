//! One bulk action over a frozen set of runs: what may be done with it, how fast it goes, and what its canary tells.
//! What happens to each run is the single verb's own business.

mod canary;
mod pace;
mod settle;
mod steer;

pub use canary::{Judged, Seen, judge};
pub use pace::{Pace, allowance};
pub use settle::{settled, settled_at_first};
pub use steer::{Steer, steer};
