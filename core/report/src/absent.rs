//! Lines on figures that are absent.

/// Returns a line for each reason of the absence of a figure: with the case, or with the number of cases. `absent` has reasons and
/// cases.
pub(crate) fn absences<'a>(figure: &str, absent: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let line = |(reason, cases): (&str, Vec<&str>)| match cases[..] {
        [case] => format!("no {figure} of {case}: {reason}"),
        _ => format!("no {figure} of {} cases: {reason}", cases.len()),
    };
    parallax_schema::grouped(absent).into_iter().map(line).collect()
}
