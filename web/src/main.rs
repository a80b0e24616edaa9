//! The page's own program: it measures, and fetches the program that compares.

use parallax_web::query::Wanted;
use parallax_web::{app, broken, environment, query, reports, view};
use wasm_bindgen_futures::spawn_local;

fn main() {
    let search = environment::window().location().search().unwrap_or_default();
    view::alive();
    let request = query::parse(&search, environment::at_home(), environment::is_here);
    broken::tell(request.report.clone());
    match query::wanted(&search) {
        Wanted::Embedded => app::embedded(),
        _ if environment::framed_elsewhere() => view::framed(),
        Wanted::Comparison => spawn_local(reports::compare(search)),
        Wanted::Measurement => spawn_local(app::start(request)),
    }
}
