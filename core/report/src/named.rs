//! First cell of a row about a case or a problem.

use parallax_schema::case::{problem_of, variant_of};
use parallax_schema::catalog::Catalog;

use super::Cell;

/// Returns the string of a case or a problem, with its label if this version has one.
pub(crate) fn named(catalog: &dyn Catalog, name: &str) -> Cell {
    let of_case = || Some(format!("{} · {}", catalog.label(problem_of(name))?, variant_of(name)));
    Cell { label: catalog.label(name).or_else(of_case), ..name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_workloads::Registry;

    #[test]
    fn cases_and_problems_have_words_and_unknown_ones_their_string() {
        for (name, label) in [
            ("copy/fwd/n64/f32", Some("Copy · 64 elements · f32")),
            ("copy/fwd/n64/f32/vec4", Some("Copy · 64 elements · f32 · vec4")),
            ("later/fwd/n64/f32/vec4", None),
            ("", None),
        ] {
            let cell = named(&Registry, name);
            assert_eq!((cell.text.as_str(), cell.label.as_deref()), (name, label));
        }
    }
}
