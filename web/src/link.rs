//! Addresses of this page that carry settings or a summary of results.

use parallax_schema::record::RunSummary;

/// Prefix of a summary in the fragment of an address. Browsers do not send fragments.
const MARK: &str = "#r=";

/// Encoded summary in an address or a fragment.
pub fn payload(address: &str) -> Option<&str> {
    address.split_once(MARK).map(|(_, payload)| payload.trim())
}

/// Returns the address of the page at `place` with a summary of results.
pub fn to_results(place: &str, summary: &RunSummary) -> String {
    format!("{place}{MARK}{}", summary.to_link())
}

/// Returns the address of the page at `place` with settings as a query.
pub fn to_settings(place: &str, query: &str) -> String {
    if query.is_empty() { place.to_owned() } else { format!("{place}?{query}") }
}

/// Returns the HTML by which another site shows a summary of results of the page at `place`.
pub fn to_embedded(place: &str, summary: &RunSummary) -> String {
    let address = to_results(&to_settings(place, "embed=1"), summary);
    format!(
        "<iframe src=\"{address}\" title=\"GPU kernels measured with Parallax\" width=\"100%\" height=\"480\" \
         loading=\"lazy\"></iframe>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_what_stands_behind_the_mark() {
        for (address, want) in [
            ("https://a.example/run/?preset=quick#r=abc", Some("abc")),
            (" https://a.example/#r=abc \n", Some("abc")),
            ("#r=", Some("")),
            ("#main", None),
            ("?r=abc", None),
            ("", None),
        ] {
            assert_eq!(payload(address), want, "{address}");
        }
        assert_eq!(to_settings("https://a.example/run/", ""), "https://a.example/run/");
        assert_eq!(to_settings("https://a.example/run/", "dtype=f32"), "https://a.example/run/?dtype=f32");
    }
}
