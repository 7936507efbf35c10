//! HTML that can't be broken by what it shows: text is escaped on its way in, and only literals go in as they are.

/// A piece of a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Html(String);

impl Html {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Markup, written here.
    #[must_use]
    pub(crate) fn raw(mut self, markup: &'static str) -> Self {
        self.0.push_str(markup);
        self
    }

    /// Anybody's text: between tags, or inside a quoted attribute.
    #[must_use]
    pub(crate) fn text(mut self, text: impl std::fmt::Display) -> Self {
        for c in text.to_string().chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c if hides_or_reorders(c) => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        self
    }

    #[must_use]
    pub(crate) fn add(mut self, other: &Self) -> Self {
        self.0.push_str(&other.0);
        self
    }

    #[must_use]
    pub(crate) fn each<T>(self, items: impl IntoIterator<Item = T>, piece: impl Fn(Self, T) -> Self) -> Self {
        items.into_iter().fold(self, piece)
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

/// What could make a text look like another one: controls, and marks of direction and width.
fn hides_or_reorders(c: char) -> bool {
    let plain_space = matches!(c, '\n' | '\t');
    (c.is_control() && !plain_space)
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A pattern's template, its masked parts marked.
pub(crate) fn template(text: &str) -> Html {
    let mut html = Html::new();
    let mut rest = text;
    while let Some((before, mask, after)) = next_mask(rest) {
        html = html.text(before).raw("<mark>").text(mask).raw("</mark>");
        rest = after;
    }
    html.text(rest)
}

fn next_mask(text: &str) -> Option<(&str, &str, &str)> {
    let begin = text.find('‹')?;
    let end = begin + text[begin..].find('›')? + '›'.len_utf8();
    Some((&text[..begin], &text[begin..end], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_strangers_stays_text() {
        let html =
            Html::new().raw("<p title=\"").text("\" onclick='x'").raw("\">").text("<script>&\u{202e}\0").raw("</p>");
        assert_eq!(
            html.into_string(),
            "<p title=\"&quot; onclick=&#39;x&#39;\">&lt;script&gt;&amp;\u{fffd}\u{fffd}</p>"
        );
    }

    #[test]
    fn masked_parts_of_a_template_are_marked_and_half_a_mask_is_text() {
        assert_eq!(template("Limit ‹n>, used ‹n›.").into_string(), "Limit <mark>‹n&gt;, used ‹n›</mark>.");
        assert_eq!(template("a ‹n› b ‹").into_string(), "a <mark>‹n›</mark> b ‹");
    }
}
