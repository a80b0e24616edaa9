//! An HTML document: what every page begins with, whether it stands alone or is one of a site.

use std::borrow::Cow;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::escape;

/// Markup in which characters of names that act on their reader are shown as codes ([`escape`]). Markup has no lines of its own;
/// a style sheet has, and stays outside.
pub(crate) fn shown(markup: Markup) -> Markup {
    match escape(&markup.0) {
        Cow::Borrowed(_) => markup,
        Cow::Owned(text) => PreEscaped(text),
    }
}

/// A whole page of what its head has besides, its title among it, the style that it brings along, and its body. What acts in names
/// is shown ([`shown`]).
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
