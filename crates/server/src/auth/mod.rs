//! Authentication: API keys for programs, sessions for browsers, links for the tenant portal.

mod access;
mod caller;
mod keys;
mod oidc;
mod portal;
mod sessions;
mod wrong_keys;

pub use access::{Access, QueueAccess};
pub use caller::{Admin, AnyKey, Anyone, Caller, Operator, Principal, TenantReader, Worker};
pub use keys::{hash_secret, new_id, new_key, new_secret};
pub use oidc::{Oidc, OidcConfig};
pub use portal::{BadFrameAncestor, PortalSettings};
pub use sessions::{LINK_MS, SESSION_IDLE_MS, SESSION_MS};
pub use wrong_keys::{WRONG_KEYS_MAX, WRONG_KEYS_WINDOW_MS};

pub(crate) use access::{any_key, checked, no_key, spanning, spans_queues};
pub(crate) use keys::{Keyring, LookUp};
pub(crate) use oidc::{Callback, PENDING_MS, SsoRefusal};
pub(crate) use portal::{PORTAL_MS_DEFAULT, framed_policy, new_link, no_portal_cookie, open_link, portal_cookie};
pub(crate) use sessions::{Sessions, Visitor, log_in, no_cookie, secure, session_cookie, session_token};
