//! View of the user's model: its choices, its operations, and their times. All of it is markup of the program that reads files, which
//! escapes every text.

use web_sys::HtmlElement;

use super::View;
use super::dom::{empty, id, listen, say};

impl View {
    /// Calls `f` after a change of the model's choices.
    pub fn on_model_choice(&self, f: impl Fn() + 'static) {
        listen(&id("model-form"), "change", move |_| f());
        listen(&id("model-form"), "submit", |event| event.prevent_default());
    }

    /// Form of the model's choices.
    pub fn model_form(&self) -> HtmlElement {
        id("model-form")
    }

    /// Shows the present activity or a mistake in place of the operations.
    pub fn model_line(&self, line: &str) {
        say(&id("model"), line);
    }

    /// Shows the operations of a model. A new file has a form of its own.
    pub fn model(&self, form: Option<&str>, about: &str) {
        if let Some(form) = form {
            id("model-form").set_inner_html(form);
            id("model-section").scroll_into_view();
        }
        id("model").set_inner_html(about);
    }

    /// Shows the times of the run's model.
    pub fn model_time(&self, times: &str) {
        id("model-time").set_inner_html(times);
    }

    /// Removes the times of the model.
    pub(super) fn clear_model_time(&self) {
        empty(&id("model-time"));
    }
}
