//! Whether the page was out of sight: browsers slow hidden pages down, and figures taken meanwhile are worth less.

#[cfg(target_arch = "wasm32")]
mod page {
    use std::cell::Cell;
    use std::rc::Rc;

    use wasm_bindgen::JsCast;
    use wasm_bindgen::closure::Closure;

    /// Listens to the document from when it is made until it is dropped.
    pub struct Visibility(Option<Listener>);

    struct Listener {
        document: web_sys::Document,
        hidden: Rc<Cell<bool>>,
        on_change: Closure<dyn FnMut()>,
    }

    impl Visibility {
        /// Start listening. A worker has no document, and is never hidden.
        pub fn watch() -> Visibility {
            let document = web_sys::window().and_then(|window| window.document());
            Visibility(document.and_then(Listener::new))
        }

        /// Whether the document was hidden at any time since the last call.
        pub fn was_hidden(&self) -> bool {
            // What is hidden now was hidden after this call too.
            self.0.as_ref().is_some_and(|listener| listener.hidden.replace(listener.document.hidden()))
        }
    }

    impl Listener {
        fn new(document: web_sys::Document) -> Option<Listener> {
            let hidden = Rc::new(Cell::new(document.hidden()));
            let (seen, of) = (hidden.clone(), document.clone());
            let on_change = Closure::<dyn FnMut()>::new(move || seen.set(seen.get() || of.hidden()));
            let function = on_change.as_ref().unchecked_ref();
            document.add_event_listener_with_callback("visibilitychange", function).ok()?;
            Some(Listener { document, hidden, on_change })
        }
    }

    impl Drop for Listener {
        fn drop(&mut self) {
            let function = self.on_change.as_ref().unchecked_ref();
            // It was added under this name; were it gone, nothing would be left to do.
            let _ = self.document.remove_event_listener_with_callback("visibilitychange", function);
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod page {
    /// A program without a page is never hidden.
    pub struct Visibility;

    impl Visibility {
        /// Nothing to listen to.
        pub fn watch() -> Visibility {
            Visibility
        }

        /// Never.
        pub fn was_hidden(&self) -> bool {
            false
        }
    }
}

pub use page::Visibility;
