//! Directives of WGSL kernel sources: lines that begin with `#`, and names of constants in braces.
//!
//! - `#import lib/launch` imports another file, once.
//! - `#if NAME`, `#if !NAME`, `#if NAME == 4`, `#else` and `#endif` enclose lines for some constants only. They nest.
//! - `#block NAME(A, B)` and `#end` enclose lines that are written once.
//! - `#emit NAME(x, y)` emits the lines of a block on one line. It has `x` for the name `A`, and `y` for `B`.
//!
//! `{NAME}` is the value of a constant, in an import or in a name of the code: `#import lib/pieces{WIDTH}`. In a block, `{A}` is
//! the text of a parameter within a longer name.
//!
//! Every line keeps its number: a directive and a removed line become empty lines. So messages of compilers have the numbers of
//! the file. Only the emulation of matrix units, which reads one statement per line, gets the lines of a block as lines.

use std::collections::BTreeMap;

use parallax_ir::{Consts, SourceChunk, TextError, Value};

use crate::matrix::arguments;

/// Error of assembling a WGSL kernel source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A file or an import.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A directive.
    #[error("{file}, line {line}: {fault}")]
    Directive {
        /// File name.
        file: String,
        /// Line in the file, from one.
        line: usize,
        /// Fault.
        fault: Fault,
    },
}

/// Fault of a directive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Line that begins with `#` and is no directive.
    #[error("no directive `{0}`; there are #import, #if, #else, #endif, #block, #end and #emit")]
    NoDirective(String),
    /// Condition of another form.
    #[error("no condition `{0}`; conditions are NAME, !NAME and NAME == number")]
    NoCondition(String),
    /// Name without a constant.
    #[error("the kernel has no constant {0}")]
    NoConstant(String),
    /// Condition on a constant of another type.
    #[error("the constant {0} is not Boolean")]
    NotBoolean(String),
    /// Comparison of a constant of another type.
    #[error("the constant {0} is not an integer")]
    NotInteger(String),
    /// Constant in braces whose value has no text.
    #[error("the constant {0} is neither an integer nor a word")]
    NotInName(String),
    /// `#else` or `#endif` without `#if`, `#end` without `#block`.
    #[error("{0} without {1}")]
    Unopened(&'static str, &'static str),
    /// `#if` without `#endif`, `#block` without `#end`.
    #[error("{0} without {1}")]
    Unclosed(&'static str, &'static str),
    /// Second `#else` of an `#if`.
    #[error("a second #else")]
    SecondElse,
    /// Head of a block, or an emission, of another form.
    #[error("`{0}` is not of the form NAME(A, B)")]
    NoCall(String),
    /// Block in a block.
    #[error("a block in a block")]
    BlockInBlock,
    /// Second block of a name.
    #[error("a second block {0}")]
    SecondBlock(String),
    /// Emission of a block that does not exist.
    #[error("no block {0}")]
    NoBlock(String),
    /// Emission with another number of arguments than the block has parameters.
    #[error("the block {name} has {wanted} parameters, not {given}")]
    Arguments {
        /// Name of the block.
        name: String,
        /// Parameters of the block.
        wanted: usize,
        /// Arguments of the emission.
        given: usize,
    },
    /// Block that emits itself.
    #[error("the block {0} emits itself")]
    Recursion(String),
}

/// A line of a file.
#[derive(Clone, Copy)]
struct SourceLine<'a> {
    file: &'a str,
    line: usize,
}

impl SourceLine<'_> {
    fn failed(self, fault: Fault) -> SourceError {
        SourceError::Directive { file: self.file.to_owned(), line: self.line, fault }
    }
}

/// An `#if` that is open.
struct Open {
    line: usize,
    /// Whether the lines around it stay.
    outer: bool,
    /// Whether its lines stay, at present.
    here: bool,
    in_else: bool,
}

/// Resolves the conditions of a file, and the constants in the names of its imports. Blocks and other code stay as they are.
///
/// # Errors
/// An unknown directive or constant, or an `#else`, `#endif` or `#if` without its counterpart.
pub(crate) fn conditions_resolved(file: &str, text: &str, consts: &Consts) -> Result<String, SourceError> {
    let mut all = String::with_capacity(text.len());
    let mut open: Vec<Open> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let failed = |fault| SourceLine { file, line: number }.failed(fault);
        let stays = open.last().is_none_or(|innermost| innermost.here);
        match directive(line).map_err(failed)? {
            Some(("#if", condition)) => {
                let holds = holds(condition, consts).map_err(failed)?;
                open.push(Open { line: number, outer: stays, here: stays && holds, in_else: false });
            }
            Some(("#else", _)) => {
                let innermost = open.last_mut().ok_or_else(|| failed(Fault::Unopened("#else", "#if")))?;
                if innermost.in_else {
                    return Err(failed(Fault::SecondElse));
                }
                innermost.in_else = true;
                innermost.here = innermost.outer && !innermost.here;
            }
            Some(("#endif", _)) => {
                open.pop().ok_or_else(|| failed(Fault::Unopened("#endif", "#if")))?;
            }
            Some(("#import", _)) if stays => all += &filled(line, &[], consts).map_err(failed)?,
            _ if stays => all += line,
            _ => {}
        }
        all.push('\n');
    }
    match open.last() {
        None => Ok(all),
        Some(Open { line, .. }) => Err(SourceLine { file, line: *line }.failed(Fault::Unclosed("#if", "#endif"))),
    }
}

/// Splits a directive into its word and the rest, without a comment. `None` for code.
pub(crate) fn directive(line: &str) -> Result<Option<(&str, &str)>, Fault> {
    let code = code_of(line).trim();
    if !code.starts_with('#') {
        return Ok(None);
    }
    let (word, rest) = code.split_once(' ').unwrap_or((code, ""));
    let takes_rest = match word {
        "#else" | "#endif" | "#end" => false,
        "#import" | "#if" | "#block" | "#emit" => true,
        _ => return Err(Fault::NoDirective(code.to_owned())),
    };
    if takes_rest == rest.trim().is_empty() {
        return Err(Fault::NoDirective(code.to_owned()));
    }
    Ok(Some((word, rest.trim())))
}

/// Code of a line, without its comment.
fn code_of(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// Whether a condition holds.
fn holds(condition: &str, consts: &Consts) -> Result<bool, Fault> {
    let malformed = || Fault::NoCondition(condition.to_owned());
    if let Some((name, number)) = condition.split_once("==") {
        let (name, number) = (name.trim(), number.trim().parse::<u32>().map_err(|_| malformed())?);
        return match constant(name, consts)? {
            Value::U32(value) => Ok(value == number),
            _ => Err(Fault::NotInteger(name.to_owned())),
        };
    }
    let (name, wanted) = condition.strip_prefix('!').map_or((condition, true), |name| (name, false));
    if name.is_empty() || !name.chars().all(in_name) {
        return Err(malformed());
    }
    match constant(name, consts)? {
        Value::Bool(value) => Ok(value == wanted),
        _ => Err(Fault::NotBoolean(name.to_owned())),
    }
}

/// Value of a constant. Of several values of a name, the last counts.
fn constant(name: &str, consts: &Consts) -> Result<Value, Fault> {
    let found = consts.iter().rev().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| Fault::NoConstant(name.to_owned()))
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Replaces `{NAME}` by a parameter's argument or a constant's value. Parameters are also replaced where they are whole names.
fn filled(line: &str, parameters: &[(&str, &str)], consts: &Consts) -> Result<String, Fault> {
    let (mut all, mut rest) = (String::with_capacity(line.len()), line);
    let argument = |name: &str| parameters.iter().find(|(known, _)| *known == name).map(|(_, argument)| *argument);
    while let Some(first) = rest.chars().next() {
        let word = &rest[..rest.find(|c| !in_name(c)).unwrap_or(rest.len())];
        if rest.starts_with("//") {
            break;
        } else if !word.is_empty() {
            all += argument(word).unwrap_or(word);
            rest = &rest[word.len()..];
        } else if let Some((name, after)) = braced(rest) {
            all += &match argument(name) {
                Some(argument) => argument.to_owned(),
                None => match constant(name, consts)? {
                    Value::U32(value) => value.to_string(),
                    Value::Word(word) => word.to_owned(),
                    Value::F32(_) | Value::Bool(_) => return Err(Fault::NotInName(name.to_owned())),
                },
            };
            rest = after;
        } else {
            all.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(all + rest)
}

/// Splits `{NAME}rest` into the name and the rest. A name in braces has no spaces and begins with a capital letter, as no code does.
fn braced(code: &str) -> Option<(&str, &str)> {
    let (name, rest) = code.strip_prefix('{')?.split_once('}')?;
    (name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(in_name)).then_some((name, rest))
}

/// Lines that are written once.
struct Block {
    parameters: Vec<String>,
    /// Lines with code, with their numbers.
    lines: Vec<(usize, String)>,
    file: String,
}

/// Blocks of a kernel source by name, those of its imports included.
type Blocks = BTreeMap<String, Block>;

/// Emits blocks, with `between` between their lines, and replaces constants in names, in all parts of a kernel source.
///
/// # Errors
/// A block or an emission of another form, an unknown block, a wrong number of arguments, or an unknown constant.
pub(crate) fn blocks_emitted(parts: &mut [SourceChunk], consts: &Consts, between: &str) -> Result<(), SourceError> {
    let mut blocks = Blocks::new();
    for part in &mut *parts {
        part.text = blocks_taken(part, &mut blocks)?;
    }
    for part in parts {
        let mut all = String::with_capacity(part.text.len());
        for (number, line) in (part.first_line..).zip(part.text.lines()) {
            let place = SourceLine { file: &part.file, line: number };
            match directive(line).map_err(|fault| place.failed(fault))? {
                Some((_, call)) => {
                    all += &line[..line.len() - line.trim_start().len()];
                    let mut lines = Vec::new();
                    emit(call, place, (&blocks, consts), &mut Vec::new(), &mut lines)?;
                    all += &lines.join(between);
                }
                None => all += &filled(line, &[], consts).map_err(|fault| place.failed(fault))?,
            }
            all.push('\n');
        }
        part.text = all;
    }
    Ok(())
}

/// Moves the blocks of a part to `blocks`. Returns the part with empty lines in their place.
fn blocks_taken(part: &SourceChunk, blocks: &mut Blocks) -> Result<String, SourceError> {
    let mut all = String::with_capacity(part.text.len());
    let mut open: Option<(usize, String, Block)> = None;
    for (number, line) in (part.first_line..).zip(part.text.lines()) {
        let failed = |fault| SourceLine { file: &part.file, line: number }.failed(fault);
        match (directive(line).map_err(failed)?, &mut open) {
            (Some(("#block", _)), Some(_)) => return Err(failed(Fault::BlockInBlock)),
            (Some(("#block", head)), None) => {
                let (name, parameters) = call(head).map_err(failed)?;
                let parameters = parameters.into_iter().map(str::to_owned).collect();
                open =
                    Some((number, name.to_owned(), Block { parameters, lines: Vec::new(), file: part.file.clone() }));
            }
            (Some(("#end", _)), _) => {
                let (_, name, block) = open.take().ok_or_else(|| failed(Fault::Unopened("#end", "#block")))?;
                if blocks.insert(name.clone(), block).is_some() {
                    return Err(failed(Fault::SecondBlock(name)));
                }
            }
            (_, Some((_, _, block))) => {
                let code = code_of(line).trim();
                if !code.is_empty() {
                    block.lines.push((number, code.to_owned()));
                }
            }
            (_, None) => all += line,
        }
        all.push('\n');
    }
    match open {
        None => Ok(all),
        Some((line, ..)) => Err(SourceLine { file: &part.file, line }.failed(Fault::Unclosed("#block", "#end"))),
    }
}

/// Splits `NAME(a, b)`, or `NAME` without parameters.
fn call(text: &str) -> Result<(&str, Vec<&str>), Fault> {
    let malformed = || Fault::NoCall(text.to_owned());
    let (name, inner) = match text.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')').ok_or_else(malformed)?),
        None => (text, ""),
    };
    let given = if inner.trim().is_empty() { Vec::new() } else { arguments(inner) };
    let whole = !name.is_empty() && name.chars().all(in_name) && given.iter().all(|one| !one.is_empty());
    if whole { Ok((name, given)) } else { Err(malformed()) }
}

/// Appends the lines of a block. `within` has the names of the blocks that emit it.
fn emit(
    text: &str,
    place: SourceLine,
    (blocks, consts): (&Blocks, &Consts),
    within: &mut Vec<String>,
    lines: &mut Vec<String>,
) -> Result<(), SourceError> {
    let (name, given) = call(text).map_err(|fault| place.failed(fault))?;
    let block = blocks.get(name).ok_or_else(|| place.failed(Fault::NoBlock(name.to_owned())))?;
    if within.iter().any(|outer| outer == name) {
        return Err(place.failed(Fault::Recursion(name.to_owned())));
    }
    let wanted = block.parameters.len();
    if wanted != given.len() {
        return Err(place.failed(Fault::Arguments { name: name.to_owned(), wanted, given: given.len() }));
    }
    let parameters: Vec<(&str, &str)> = block.parameters.iter().map(String::as_str).zip(given).collect();
    within.push(name.to_owned());
    for (number, line) in &block.lines {
        let place = SourceLine { file: &block.file, line: *number };
        let line = filled(line, &parameters, consts).map_err(|fault| place.failed(fault))?;
        match directive(&line).map_err(|fault| place.failed(fault))? {
            Some((_, call)) => emit(call, place, (blocks, consts), within, lines)?,
            None => lines.push(line),
        }
    }
    within.pop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Constants of the tests.
    fn consts() -> Consts {
        vec![
            ("A", true.into()),
            ("B", false.into()),
            ("N", 1.into()),
            ("N", 4.into()),
            ("F", 0.5.into()),
            ("WORD", "bias".into()),
        ]
    }

    fn conditions(text: &str) -> Result<String, String> {
        conditions_resolved("x.wgsl", text, &consts()).map_err(|e| e.to_string())
    }

    /// Resolves parts of the files `x.wgsl` and `lib/y.wgsl`.
    fn blocks(texts: [&str; 2]) -> Result<[String; 2], String> {
        let files = ["x.wgsl", "lib/y.wgsl"];
        let mut parts = Vec::from_iter(files.into_iter().zip(texts).map(|(file, text)| SourceChunk {
            file: file.to_owned(),
            first_line: 11,
            text: text.to_owned(),
            own: true,
        }));
        blocks_emitted(&mut parts, &consts(), " ").map_err(|e| e.to_string())?;
        Ok([0, 1].map(|i| parts[i].text.clone()))
    }

    #[test]
    fn conditions_keep_lines_and_their_numbers() {
        for (text, want) in [
            ("one\n#if A\ntwo\n#endif\nthree\n", "one\n\ntwo\n\nthree\n"),
            ("#if B\none\n#else\ntwo\n#endif\n", "\n\n\ntwo\n\n"),
            ("#if !A\none\n#else // A\ntwo\n#endif\n", "\n\n\ntwo\n\n"),
            ("#if A\n  #if B\none\n  #else\ntwo\n  #endif\n#else\nthree\n#endif\n", "\n\n\n\ntwo\n\n\n\n\n"),
            ("#if B\n#if A\none\n#else\ntwo\n#endif\n#endif\nthree\n", "\n\n\n\n\n\n\nthree\n"),
            ("#if N == 4\none\n#endif\n#if N == 1\ntwo\n#endif\n", "\none\n\n\n\n\n"),
            (
                "#import lib/pieces{N}\n#import lib/{WORD}{N} // {F}\n",
                "#import lib/pieces4\n#import lib/bias4 // {F}\n",
            ),
            ("#if B\n#import lib/pieces{F}\n#endif\n", "\n\n\n"),
            ("#if A\n#block b(X)\n{X}\n#end\n#emit b(1)\n#endif\n", "\n#block b(X)\n{X}\n#end\n#emit b(1)\n\n"),
            ("let x = {};\n// #if of a comment\n", "let x = {};\n// #if of a comment\n"),
            ("", ""),
        ] {
            assert_eq!(conditions(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn faults_of_conditions_are_named_with_file_and_line() {
        for (text, want) in [
            ("\n#if C\n#endif\n", "line 2: the kernel has no constant C"),
            ("#if B\n#if C\n#endif\n#endif\n", "line 2: the kernel has no constant C"),
            ("#if N\n#endif\n", "line 1: the constant N is not Boolean"),
            ("#if A == 4\n#endif\n", "line 1: the constant A is not an integer"),
            ("#if N == four\n#endif\n", "line 1: no condition `N == four`"),
            ("#if A && B\n#endif\n", "line 1: no condition `A && B`"),
            ("#if\n#endif\n", "line 1: no directive `#if`"),
            ("#else\n", "line 1: #else without #if"),
            ("one\n#endif\n", "line 2: #endif without #if"),
            ("#if A\n#if B\n#endif\none\n", "line 1: #if without #endif"),
            ("#if A\n#else\n#else\n#endif\n", "line 3: a second #else"),
            ("#else if A\n", "line 1: no directive `#else if A`"),
            ("#when A one\n", "line 1: no directive `#when A one`"),
            ("#import lib/{F}\n", "line 1: the constant F is neither an integer nor a word"),
            ("#import lib/{WIDTH}\n", "line 1: the kernel has no constant WIDTH"),
        ] {
            let error = conditions(text).expect_err(text);
            assert!(error.starts_with(&format!("x.wgsl, {want}")), "{text}: {error}");
        }
    }

    #[test]
    fn blocks_are_emitted_on_one_line() {
        let add =
            "#block add(I, FROM)\n// comment\n    c{I} = fma({FROM}{I}, I, c{I}); // more\n    d += FROM;\n#end\n";
        for (texts, want) in [
            (
                [&*format!("{add}    #emit add(0, a[1])\n"), ""],
                ["\n\n\n\n\n    c0 = fma(a[1]0, 0, c0); d += a[1];\n", ""],
            ),
            (["#emit add(7, b)\nend\n", add], ["c7 = fma(b7, 7, c7); d += b;\nend\n", "\n\n\n\n\n"]),
            (
                ["#block two(X)\n#emit one(X, {X}1)\n#end\n#emit two(v)\n", "#block one(A, B)\nA = B;\n#end\n"],
                ["\n\n\nv = v1;\n", "\n\n\n"],
            ),
            (["#block same\nx;\n#end\n#emit same\n#emit same()\n", ""], ["\n\n\nx;\nx;\n", ""]),
            (["#block none(A)\n#end\n#emit none(f(x, y))\n", ""], ["\n\n\n", ""]),
            (["fn linear_{WORD}() {} // {F}\n", "{N}\n"], ["fn linear_bias() {} // {F}\n", "4\n"]),
            (["if x { y }\n", "{n}{}\n"], ["if x { y }\n", "{n}{}\n"]),
        ] {
            assert_eq!(blocks(texts), Ok(want.map(str::to_owned)), "{texts:?}");
        }
    }

    #[test]
    fn faults_of_blocks_are_named_with_file_and_line() {
        let one = "#block one(A)\nA\n#end\n";
        for (texts, want) in [
            (["#emit one(1)\n", ""], "x.wgsl, line 11: no block one"),
            (["\n#emit one(1, 2)\n", one], "x.wgsl, line 12: the block one has 1 parameters, not 2"),
            (["#emit one(1\n", one], "x.wgsl, line 11: `one(1` is not of the form NAME(A, B)"),
            (["#emit one(1,)\n", one], "x.wgsl, line 11: `one(1,)` is not of the form NAME(A, B)"),
            ([one, one], "lib/y.wgsl, line 13: a second block one"),
            (["#block a\n#block b\n#end\n#end\n", ""], "x.wgsl, line 12: a block in a block"),
            (["\n#block a\n", one], "x.wgsl, line 12: #block without #end"),
            (["#end\n", ""], "x.wgsl, line 11: #end without #block"),
            (
                ["#block a\n#emit b\n#end\n#emit a\n", "#block b\n#emit a\n#end\n"],
                "lib/y.wgsl, line 12: the block a emits itself",
            ),
            (["#emit a\n", "#block a\n{WIDTH}\n#end\n"], "lib/y.wgsl, line 12: the kernel has no constant WIDTH"),
            (["x{F}\n", ""], "x.wgsl, line 11: the constant F is neither an integer nor a word"),
        ] {
            assert_eq!(blocks(texts), Err(want.to_owned()), "{texts:?}");
        }
    }
}
