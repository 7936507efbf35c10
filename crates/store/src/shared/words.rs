//! What somebody types into the search: the beginning of a name, or words of the failure's template.

#[derive(Debug, Clone)]
pub(crate) struct Words {
    pub(crate) prefix: String,
    /// In lower case; all must be in the template.
    words: Vec<String>,
}

impl Words {
    /// None when nothing was typed.
    pub(crate) fn of(q: &str) -> Option<Self> {
        let words: Vec<String> = q.split_whitespace().map(str::to_lowercase).collect();
        (!words.is_empty()).then(|| Self { prefix: q.to_owned(), words })
    }

    pub(crate) fn are_in(&self, template: &str) -> bool {
        let template = template.to_lowercase();
        self.words.iter().all(|word| template.contains(word))
    }
}
