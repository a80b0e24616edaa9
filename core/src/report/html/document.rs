//! An HTML document: what every page begins with, whether it stands alone or is one of a site.

use maud::{DOCTYPE, Markup, html};

/// A whole page of what its head has besides, its title among it, and its body.
pub(crate) fn document(head: &Markup, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                (head)
            }
            body { (body) }
        }
    };
    markup.into_string()
}
