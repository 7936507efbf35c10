//! A server from its first breath to its last: bind, serve, stop without losing what is in hand.

mod connections;
mod files;
mod front;
mod listener;
mod server;
mod watched;

pub(crate) use front::BadHost;
pub use server::{Config, Server, StartError};
