//! The page: a thin edge around [`parallax_core`]. A URL query becomes a spec, the browser's GPU a profiler, and the
//! runner's events a picture.
//!
//! [`app`] holds the flow of measuring, [`compare`] that of comparing files, [`view`] alone touches the document, and the
//! other files each hold one idea. [`measuring`] has the device, which is in another program: [`parallax_lab`].

mod activity;
mod app;
mod compare;
mod desk;
mod environment;
mod expected;
mod link;
mod live;
mod measuring;
mod progress;
mod query;
mod reading;
mod remarks;
mod remote;
mod share;
mod shelf;
mod view;
mod words;

fn main() {
    let search = environment::window().location().search().unwrap_or_default();
    view::alive();
    let request = query::parse(&search, environment::at_home());
    let report = request.report.clone();
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
    if compare::asked_for(&search) {
        wasm_bindgen_futures::spawn_local(compare::start(search));
    } else {
        wasm_bindgen_futures::spawn_local(app::start(request));
    }
}
