//! The pages: server-rendered, with embedded styles and scripts. They read through the store and the API's types, and
//! act through the API's own functions. One file per area.

mod assets;
mod components;
mod compose;
mod form;
mod layout;
mod links;
mod login;
mod operations;
mod overview;
mod page;
mod pages;
mod patterns;
mod queues;
mod run;
mod runs;
mod settings;
mod tenants;

pub use page::{ForWhom, PageRoute};
pub(crate) use page::{is_for_a_person, nothing_here};
pub use pages::table;
