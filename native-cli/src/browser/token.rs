//! The secret that an address carries: of a desk, or of a page that reports what it measures.

use subtle::ConstantTimeEq;

/// Random letters and digits, which only those know who were given the address.
#[derive(Clone)]
pub struct Token(String);

/// Random bytes in it.
const BYTES: usize = 16;

impl Token {
    /// A new one from the system's source of randomness.
    pub fn new() -> Result<Token, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Whether this is it, in a time that does not tell how much of it is right.
    pub fn is(&self, offered: &str) -> bool {
        self.0.as_bytes().ct_eq(offered.as_bytes()).into()
    }

    /// Whether the last part of a path below `folder` is it.
    pub fn ends(&self, path: &str, folder: &str) -> bool {
        let offered = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        offered.is_some_and(|offered| self.is(offered))
    }

    /// For an address, where letters and digits need no escape.
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
