//! Pages for people: server-rendered, styled by one sheet, moved by a few modules, all out of the binary. They read
//! through the store's trait and the API's own types, and act through the API's own verbs. One file for each page.

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

pub use page::{ForWhom, Page};
pub(crate) use page::{is_for_a_person, nothing_here};
pub use pages::table;
