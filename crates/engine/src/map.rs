//! The map that a committer's short look-ups go through: a dozen a command, over keys of a few bytes.

/// Seeded anew in each process, so that nobody can choose names that collide.
pub type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
