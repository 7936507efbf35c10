//! Authentication: API keys for programs, sessions for browsers.

mod caller;
mod keys;
mod sessions;

pub use caller::{Admin, AnyKey, Anyone, Caller, Operator, Principal, TenantReader, Worker};
pub use keys::{hash_secret, new_key, new_secret};
pub use sessions::{LINK_MS, SESSION_IDLE_MS, SESSION_MS};

pub(crate) use keys::{Keyring, LookUp};
pub(crate) use sessions::{Sessions, Visitor, log_in, no_cookie, secure, session_cookie, session_token};
