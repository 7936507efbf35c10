//! A server from its first breath to its last: bind, serve, stop without losing what is in hand.

mod host;
mod listener;
mod server;

pub use server::{Config, Server, StartError};
