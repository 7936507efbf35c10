//! Pages for people, made here and styled by one sheet from the binary: no script, nothing from elsewhere.

mod html;
mod login;
mod overview;
mod page;
mod pages;
mod shell;
mod when;

pub use page::Page;
pub use pages::table;
