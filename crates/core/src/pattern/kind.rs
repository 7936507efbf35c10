//! What a masked part is.

use std::fmt;

/// What stood where a template shows `‹…›`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    Number,
    Id,
    Url,
    Path,
    Host,
    Email,
    Model,
    Text,
    Name,
    Flag,
}

impl Mask {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Number => "‹n›",
            Self::Id => "‹id›",
            Self::Url => "‹url›",
            Self::Path => "‹path›",
            Self::Host => "‹host›",
            Self::Email => "‹email›",
            Self::Model => "‹model›",
            Self::Text => "‹text›",
            Self::Name => "‹name›",
            Self::Flag => "‹flag›",
        }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
