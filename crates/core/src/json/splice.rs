//! Edits to a text, gathered by place and made all at once.

/// Replacements of stretches of a text that do not overlap.
#[derive(Debug, Default)]
pub struct Splices(Vec<(usize, usize, String)>);

impl Splices {
    pub fn replace(&mut self, (start, end): (usize, usize), by: impl Into<String>) {
        self.0.push((start, end, by.into()));
    }

    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace((at, at), text);
    }

    pub fn remove(&mut self, span: (usize, usize)) {
        self.replace(span, "");
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with all of it done; inserts at one place come in the order in which they were asked for. What was to be
    /// done inside of a stretch that goes, goes with it.
    pub fn apply(mut self, text: &str) -> String {
        self.0.sort_by_key(|(start, end, _)| (*start, *end));
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (start, end, by) in &self.0 {
            if *start < done {
                continue;
            }
            out.push_str(text.get(done..*start).unwrap_or_default());
            out.push_str(by);
            done = *end;
        }
        out.push_str(text.get(done..).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_made_where_they_belong_in_any_order() {
        let mut splices = Splices::default();
        splices.replace((4, 5), "X");
        splices.insert(0, ">");
        splices.remove((1, 3));
        splices.insert(0, ">");
        assert_eq!(splices.apply("abcdef"), ">>adXf");
    }

    #[test]
    fn what_was_to_be_done_inside_of_what_goes_goes_with_it() {
        let mut splices = Splices::default();
        splices.insert(2, "lost");
        splices.remove((1, 4));
        splices.insert(1, "<");
        splices.insert(4, ">");
        assert_eq!(splices.apply("abcdef"), "a<>ef");
    }
}
