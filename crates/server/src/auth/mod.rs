//! Who calls, and what they may. A handler gets its caller as a type that nothing outside this module can make.

mod gate;
mod identity;
mod keyring;
mod secret;
mod sessions;
mod visitor;

pub use gate::{Admin, AnyKey, Anyone, Gate, Operator, TenantReader, Worker};
pub use identity::Identity;
pub use secret::{hash_secret, new_key, new_secret};
pub use sessions::{LINK_MS, SESSION_IDLE_MS, SESSION_MS};

pub(crate) use keyring::{Keyring, LookUp};
pub(crate) use sessions::Sessions;
pub(crate) use visitor::{Visitor, log_in, no_cookie, secure, session_cookie, session_token};
