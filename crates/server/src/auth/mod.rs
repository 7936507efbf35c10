//! Who calls, and what they may. A handler gets its caller as a type that nothing outside this module can make.

mod gate;
mod identity;
mod keyring;
mod secret;

pub use gate::{Admin, AnyKey, Anyone, Gate, Operator, TenantReader, Worker};
pub use identity::Identity;
pub use secret::{hash_secret, new_key, new_secret};

pub(crate) use keyring::Keyring;
