//! HTML document: the common frame of stand-alone pages and of pages of a site.

use std::borrow::Cow;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::escape;

/// Returns markup with control characters of names shown as codes ([`escape`]). Markup has no line breaks of its own. A style sheet
/// has them and is not part of the argument.
pub(crate) fn shown(markup: Markup) -> Markup {
    match escape(&markup.0) {
        Cow::Borrowed(_) => markup,
        Cow::Owned(text) => PreEscaped(text),
    }
}

/// Returns a whole page from the additional elements of its head, with the title, its own style, and its body. Control characters
/// in names are shown as codes ([`shown`]).
pub(crate) fn document(head: Markup, style: Option<&str>, body: Markup) -> String {
    let (head, body) = (shown(head), shown(body));
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                (head)
                @if let Some(style) = style { style { (PreEscaped(style)) } }
            }
            body { (body) }
        }
    };
    markup.into_string()
}
