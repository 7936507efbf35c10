//! SQLite behind the trait.

mod life;
