//! SQLite behind the trait.
