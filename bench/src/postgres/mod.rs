//! The same over PostgreSQL, beside raw PostgreSQL writing the same rows in the same run, on the same machine and with the
//! same settings (`fsync` and `synchronous_commit` on).

mod claims;
mod dead_tuples;
mod ingest;
mod lists;
mod made;
mod operations;
mod parts;
mod place;
mod processors;
mod raw_claims;
mod raw_deltas;
mod raw_ingest;
mod raw_operations;
mod raw_rows;
mod replicas;

pub use parts::measure;
