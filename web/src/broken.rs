//! What is told when a program of the page hits a bug of its own.

use crate::{measuring, reading, remote, view};

/// Tell it, to whom the page reports too.
pub fn tell(report: Option<String>) {
    std::panic::set_hook(Box::new(move |info| {
        console_error_panic_hook::hook(info);
        // What comes from outside may hit a bug without taking the page along.
        if let Some(name) = reading::broke_at() {
            view::View::new().refused(&name, "reading it hit a bug of this page; please report it, with the file");
            return;
        }
        let what = format!("the page hit a bug of its own: {info}");
        view::crashed(&what);
        measuring::abandon();
        if let Some(path) = &report {
            remote::last_words(path, &what);
        }
    }));
}
