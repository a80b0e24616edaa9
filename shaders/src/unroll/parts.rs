//! Parts of a WGSL text, as tokens: counting loops, declarations, and statements that keep a loop from being written out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::tokens::{self, Token};

/// A counting loop, as ranges of tokens.
pub(super) struct Head<'a> {
    pub(super) name: Token<'a>,
    pub(super) start: Range<usize>,
    pub(super) condition: Range<usize>,
    pub(super) step: Range<usize>,
    /// Tokens between the braces. `end` is the closing brace.
    pub(super) body: Range<usize>,
}

impl<'a> Head<'a> {
    /// Reads `for (var NAME = start; condition; step) { body }`. `None` for anything else.
    pub(super) fn read(words: &[Token<'a>], at: usize) -> Option<Head<'a>> {
        let rest = words.get(at..)?;
        let ["for", "(", "var", name, ..] = rest else { return None };
        let begin = match rest.get(4..)? {
            ["=", ..] => at + 5,
            [":", "u32", "=", ..] => at + 7,
            _ => return None,
        };
        let first = closing(words, begin, ";")?;
        let second = closing(words, first + 1, ";")?;
        let third = closing(words, second + 1, ")")?;
        (words.get(third + 1) == Some(&"{")).then_some(())?;
        let end = closing(words, third + 2, "}")?;
        Some(Head {
            name,
            start: begin..first,
            condition: first + 1..second,
            step: second + 1..third,
            body: third + 2..end,
        })
    }
}

/// Index of the first `wanted` outside parentheses, brackets and braces that open after `from`.
pub(super) fn closing(words: &[Token], from: usize, wanted: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate().skip(from) {
        if depth == 0 && *word == wanted {
            return Some(at);
        }
        match *word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// Counts the declarations of each name. One with a type counts twice.
pub(super) fn declarations<'a>(words: &[Token<'a>]) -> BTreeMap<Token<'a>, usize> {
    let mut all = BTreeMap::new();
    for pair in words.windows(2) {
        if let ["let" | "const" | "override" | "fn" | "alias" | "struct" | "var", declared] | [declared, ":"] = pair {
            *all.entry(*declared).or_insert(0) += 1;
        }
    }
    all
}

/// Names of the variables in the memory of the device or a workgroup: `var<storage, read> NAME`.
pub(super) fn shared<'a>(words: &[Token<'a>]) -> BTreeSet<Token<'a>> {
    let one = |(at, pair): (usize, &[Token<'a>])| match pair {
        ["var", "<"] => {
            words[at..].iter().position(|word| *word == ">").and_then(|end| words.get(at + end + 1).copied())
        }
        _ => None,
    };
    words.windows(2).enumerate().filter_map(one).collect()
}

/// Functions with loops or barriers, of their own or in functions that they call.
pub(super) fn looping<'a>(words: &[Token<'a>]) -> BTreeSet<Token<'a>> {
    let function = |at: usize| {
        let open = at + words[at..].iter().position(|word| *word == "{")?;
        Some((*words.get(at + 1)?, &words[open..closing(words, open + 1, "}")?]))
    };
    let starts = words.iter().enumerate().filter(|(_, word)| **word == "fn");
    let functions: Vec<_> = starts.filter_map(|(at, _)| function(at)).collect();
    let mut all = BTreeSet::new();
    loop {
        let loops =
            |word: &Token<'a>| matches!(*word, "for" | "while" | "loop" | "workgroupBarrier") || all.contains(word);
        let found: BTreeSet<_> =
            functions.iter().filter(|(_, body)| body.iter().any(loops)).map(|(name, _)| *name).collect();
        if found.len() == all.len() {
            return all;
        }
        all = found;
    }
}

/// Name of the variable that is indexed: `a` of `a[i][j]`. Empty for an expression in parentheses.
pub(super) fn root<'a>(words: &[Token<'a>], mut bracket: usize) -> Token<'a> {
    while bracket > 0 && words[bracket - 1] == "]" {
        let mut depth = 0_usize;
        while bracket > 0 {
            bracket -= 1;
            match words[bracket] {
                "]" => depth += 1,
                "[" if depth == 1 => break,
                "[" => depth -= 1,
                _ => {}
            }
        }
    }
    match bracket.checked_sub(1).map(|before| words[before]) {
        Some(word) if word.starts_with(tokens::in_word) => word,
        _ => "",
    }
}

/// Whether statements change a variable, take its address or declare another of its name.
pub(super) fn changes(body: &[Token], name: &str) -> bool {
    body.windows(2).any(|pair| match pair {
        ["&" | "let" | "var" | "const", other] => *other == name,
        [other, "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>=" | "++" | "--" | ":"] => {
            *other == name
        }
        _ => false,
    })
}

/// Whether statements end an iteration or the loop around them.
pub(super) fn leaves(body: &[Token]) -> bool {
    let mut at = 0;
    while at < body.len() {
        match body[at] {
            "break" | "continue" => return true,
            // These belong to the inner loop.
            "for" | "while" | "loop" => {
                let Some(open) = body[at..].iter().position(|word| *word == "{") else { return true };
                let Some(end) = closing(body, at + open + 1, "}") else { return true };
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    false
}
