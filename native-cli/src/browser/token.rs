//! Secret in a URL, of a collector or of a page that reports its events.

use subtle::ConstantTimeEq;

/// Random letters and digits, known only to recipients of the URL.
#[derive(Clone)]
pub struct Token(String);

/// Number of random bytes.
const BYTES: usize = 16;

impl Token {
    /// Creates a token from the system's source of randomness.
    pub fn new() -> Result<Token, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns whether a string is the token. The time is constant, so that it reveals nothing about a partial match.
    pub fn is(&self, offered: &str) -> bool {
        self.0.as_bytes().ct_eq(offered.as_bytes()).into()
    }

    /// Returns whether the last part of a path below `folder` is the token.
    pub fn ends(&self, path: &str, folder: &str) -> bool {
        let offered = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        offered.is_some_and(|offered| self.is(offered))
    }

    /// Returns the token for a URL; its letters and digits need no escape.
    pub fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_differ_and_fit_into_addresses() {
        let (one, other) = (Token::new().expect("random"), Token::new().expect("random"));
        assert!(one.is(one.text()) && !one.is(other.text()) && !one.is("") && !one.is(&one.text()[1..]));
        assert!(
            one.ends(&format!("/api/{}", one.text()), "/api")
                && !one.ends("/api/", "/api")
                && !one.ends("/api", "/api")
        );
        assert!(one.text().len() == 2 * BYTES && one.text().chars().all(|c| c.is_ascii_alphanumeric()));
    }
}
