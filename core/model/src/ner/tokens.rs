//! Tokens of a text, and their features.

use crate::network::hash;

use super::TABLES;

/// Row of padding in each table.
pub(super) const PADDING: u32 = 0;
/// Row of a feature that is left out.
pub(super) const UNKNOWN: u32 = 1;
/// Rows with a meaning of their own.
const RESERVED: u32 = 2;

/// Token: a run of letters, a run of digits, or another character. Positions are characters of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// First character.
    pub start: usize,
    /// Character after the last.
    pub end: usize,
    /// Its text.
    pub text: String,
}

#[derive(PartialEq, Clone, Copy)]
enum Class {
    Space,
    Letter,
    Digit,
    Other,
}

fn class(c: char) -> Class {
    match c {
        c if c.is_whitespace() => Class::Space,
        c if c.is_numeric() => Class::Digit,
        c if c.is_alphabetic() => Class::Letter,
        _ => Class::Other,
    }
}

/// Returns the tokens of a text. White space separates tokens, and is in none.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut all: Vec<Token> = Vec::new();
    let mut before = Class::Space;
    for (at, c) in text.chars().enumerate() {
        let class = class(c);
        match all.last_mut().filter(|_| class == before && class != Class::Other) {
            Some(token) if class != Class::Space => {
                token.end = at + 1;
                token.text.push(c);
            }
            _ if class == Class::Space => {}
            _ => all.push(Token { start: at, end: at + 1, text: c.to_string() }),
        }
        before = class;
    }
    all
}

/// Form of a token: upper case `X`, lower case `x`, digits `0`, other characters themselves; of equal ones in a row, two at most.
fn shape(token: &str) -> String {
    let mut shape = String::new();
    for c in token.chars() {
        let c = match c {
            c if c.is_uppercase() => 'X',
            c if c.is_alphabetic() => 'x',
            c if c.is_numeric() => '0',
            c => c,
        };
        if !(shape.ends_with(c) && shape[..shape.len() - c.len_utf8()].ends_with(c)) {
            shape.push(c);
        }
    }
    shape
}

/// Word of a token: in lower case, and numbers by their number of digits alone.
fn word(token: &str) -> String {
    token.to_lowercase().chars().map(|c| if c.is_numeric() { '0' } else { c }).collect()
}

fn head(word: &str, count: usize) -> String {
    word.chars().take(count).collect()
}

fn tail(word: &str, count: usize) -> String {
    let skipped = word.chars().count().saturating_sub(count);
    word.chars().skip(skipped).collect()
}

/// Place of the position in the window among the features.
pub(super) const POSITION: usize = TABLES - 1;

/// Returns the rows of a token's features in tables of `rows` rows, without its position in the window.
pub(super) fn features(tokens: &[Token], at: usize, rows: usize) -> [u32; TABLES] {
    let word_at = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or(String::new(), |token| word(&token.text));
    let own = word_at(Some(at));
    let texts = [
        own.clone(),
        word_at(at.checked_sub(1)),
        word_at(Some(at + 1)),
        shape(&tokens[at].text),
        head(&own, 3),
        tail(&own, 3),
        tail(&own, 2),
    ];
    let mut found = [PADDING; TABLES];
    for (row, text) in found.iter_mut().zip(&texts) {
        *row = RESERVED + hash(text) % (rows as u32 - RESERVED);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_positions_in_characters() {
        let found = tokens("é 5mg,  naïve μg/L\t");
        let pieces: Vec<(usize, usize, &str)> = found.iter().map(|t| (t.start, t.end, &*t.text)).collect();
        let want = [
            (0, 1, "é"),
            (2, 3, "5"),
            (3, 5, "mg"),
            (5, 6, ","),
            (8, 13, "naïve"),
            (14, 16, "μg"),
            (16, 17, "/"),
            (17, 18, "L"),
        ];
        assert_eq!(pieces, want);
        assert_eq!(tokens(" \n"), []);
        assert_eq!(tokens("--").len(), 2);
    }

    #[test]
    fn shapes_and_words_forget_the_letters_and_the_digits() {
        assert_eq!([shape("Naproxen"), shape("HbA"), shape("1234")], ["Xxx", "XxX", "00"]);
        assert_eq!([word("Ab"), word("250")], ["ab", "000"]);
        assert_eq!((head("é1x", 2), tail("é1x", 2), tail("a", 3)), ("é1".into(), "1x".into(), "a".into()));
    }

    #[test]
    fn features_are_rows_of_their_tables() {
        let all = tokens("Mild pain after 40 mg");
        for at in 0..all.len() {
            let rows = features(&all, at, 50);
            assert!(rows[..POSITION].iter().all(|row| (RESERVED..50).contains(row)) && rows[POSITION] == PADDING);
        }
        // The word of a token is the word before of the next.
        assert_eq!(features(&all, 0, 5000)[0], features(&all, 1, 5000)[1]);
        assert_eq!(features(&all, 1, 5000)[0], features(&all, 0, 5000)[2]);
    }
}
