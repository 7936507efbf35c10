//! What every page has around it.

use super::html::Html;

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"stylesheet\" href=\"/desk.css\"><title>";
const MARK: &str = "<a class=\"brand\" href=\"/\"><svg width=\"20\" height=\"20\" viewBox=\"0 0 20 20\" aria-hidden=\"true\">\
<path d=\"M3 10a7 7 0 0 1 12-4.9V2.5M17 10a7 7 0 0 1-12 4.9v2.6\" fill=\"none\" stroke=\"var(--accent)\" stroke-width=\"2.2\" \
stroke-linecap=\"round\" stroke-linejoin=\"round\"/></svg>Redrive</a>";
const LOGOUT: &str = "<form method=\"post\" action=\"/logout\"><button>Log out</button></form>";

/// A page for somebody who is logged in.
pub(crate) fn page(title: &str, main: &Html) -> Html {
    let bar = Html::new().raw("<header class=\"top\">").raw(MARK).raw(LOGOUT).raw("</header>");
    whole(title, &bar, main)
}

/// A page that only says something.
pub(crate) fn notice(headline: &str, what_to_do: &str) -> Html {
    let bar = Html::new().raw("<header class=\"top\">").raw(MARK).raw("</header>");
    let main = Html::new().raw("<div class=\"head\"><div><h1>").text(headline).raw("</h1><p>").text(what_to_do);
    whole(headline, &bar, &main.raw("</p></div></div>"))
}

fn whole(title: &str, bar: &Html, main: &Html) -> Html {
    let html = Html::new().raw(HEAD).text(title).raw(" · Redrive</title></head><body>").add(bar);
    html.raw("<main>").add(main).raw("</main></body></html>")
}
