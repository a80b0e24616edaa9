//! Loops that are written out for compilers that guard loops.
//!
//! naga bounds the iterations of every loop, and drivers do not unroll a bounded loop. Arrays of a thread then lie in memory
//! instead of registers. This pass writes out loops whose trip count is constant. Drivers unroll such loops on their own if they
//! have no guard.
//!
//! A loop is written out in one of three forms.
//!
//! - One block `{ let i = 0u; … }` for each value: for few short iterations, or a variable that indexes a local array or vector.
//! - A loop over several blocks: for many short iterations. One guard then serves all of them.
//! - Nested conditions, one for each possible iteration: for a start that is known at run time. An example is
//!   `for (var i = lane; i < 256u; i += 64u)`.
//!
//! Other loops stay: those with `break` or `continue`, those that change their variable, and those with long iterations. A longer
//! text would take longer to compile, and gain nothing.

mod evaluate;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

use evaluate::{Known, Value, value};
use tokens::{Token, tokens};

/// Most blocks of a loop.
const MOST_BLOCKS: usize = 64;
/// Most nested conditions of a loop whose start is known at run time.
const MOST_CONDITIONS: usize = 16;
/// Most tokens of a loop whose variable indexes a local array.
const MOST_TOKENS: usize = 8192;
/// Tokens of an iteration beside which the guard of a loop is small. Loops that are written out only for their guard have at most
/// as many.
const GUARD_TOKENS: usize = 512;

/// Returns a WGSL text with its loops written out, and their number. Lines keep their numbers.
pub fn unrolled(text: &str) -> (String, usize) {
    let all = tokens(text);
    let words: Vec<Token> = all.iter().map(|(_, token)| *token).collect();
    let pass = Pass { declared: declarations(&words), shared: shared(&words) };
    let (mut done, mut count, mut copied, mut at) = (String::with_capacity(text.len()), 0, 0, 0);
    let known = pass.constants(&words);
    while at < words.len() {
        let Some(head) = Head::read(&words, at) else {
            at += 1;
            continue;
        };
        let Some(Written { code, .. }) = pass.written(&head, &words, &known) else {
            at = head.body.start;
            continue;
        };
        let (first, end) = (all[at].0, all[head.body.end].0 + 1);
        done += &text[copied..first];
        done += code.trim_end();
        done += &"\n".repeat(text[first..end].matches('\n').count());
        (copied, at, count) = (end, head.body.end + 1, count + 1);
    }
    done += &text[copied..];
    (done, count)
}

/// A counting loop, as ranges of tokens.
struct Head<'a> {
    name: Token<'a>,
    start: Range<usize>,
    condition: Range<usize>,
    step: Range<usize>,
    /// Tokens between the braces. `end` is the closing brace.
    body: Range<usize>,
}

impl<'a> Head<'a> {
    /// Reads `for (var NAME = start; condition; step) { body }`. `None` for anything else.
    fn read(words: &[Token<'a>], at: usize) -> Option<Head<'a>> {
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
fn closing(words: &[Token], from: usize, wanted: &str) -> Option<usize> {
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
fn declarations<'a>(words: &[Token<'a>]) -> BTreeMap<Token<'a>, usize> {
    let mut all = BTreeMap::new();
    for pair in words.windows(2) {
        if let ["let" | "const" | "override" | "fn" | "alias" | "struct" | "var", declared] | [declared, ":"] = pair {
            *all.entry(*declared).or_insert(0) += 1;
        }
    }
    all
}

/// Names of the variables in the memory of the device or a workgroup: `var<storage, read> NAME`.
fn shared<'a>(words: &[Token<'a>]) -> BTreeSet<Token<'a>> {
    let one = |(at, pair): (usize, &[Token<'a>])| match pair {
        ["var", "<"] => {
            words[at..].iter().position(|word| *word == ">").and_then(|end| words.get(at + end + 1).copied())
        }
        _ => None,
    };
    words.windows(2).enumerate().filter_map(one).collect()
}

/// Name of the variable that is indexed: `a` of `a[i][j]`. Empty for an expression in parentheses.
fn root<'a>(words: &[Token<'a>], mut bracket: usize) -> Token<'a> {
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

/// Code on one line.
#[derive(Default)]
struct Written {
    code: String,
    /// Tokens of the iterations.
    tokens: usize,
}

impl Written {
    /// Appends statements.
    fn put(&mut self, words: &[Token]) {
        self.code += &joined(words);
        self.code.push(' ');
        self.tokens += words.len();
    }

    /// Appends an iteration, with the value of its variable.
    fn block(&mut self, name: &str, value: &str, body: &Written) {
        let _ = write!(self.code, "{{ let {name} = {value}; {}}} ", body.code);
        self.tokens += body.tokens;
    }
}

struct Pass<'a> {
    /// Number of declarations of each name.
    declared: BTreeMap<Token<'a>, usize>,
    /// Variables in the memory of the device or a workgroup.
    shared: BTreeSet<Token<'a>>,
}

impl<'a> Pass<'a> {
    /// Returns the values of the constants of a module. A name that is declared twice has none.
    fn constants(&self, words: &[Token<'a>]) -> Known<'a> {
        let mut open = Vec::new();
        let mut depth = 0_usize;
        for (at, word) in words.iter().enumerate() {
            match *word {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "const" if depth == 0 => open.extend(self.constant(words, at)),
                _ => {}
            }
        }
        let mut known = Known::new();
        // Declarations have no order.
        loop {
            let before = open.len();
            open.retain(|(name, expression): &(Token<'a>, Vec<Token<'a>>)| match value(expression, &known) {
                Some(value) => known.insert(name, value).is_some(),
                None => true,
            });
            if open.len() == before {
                return known;
            }
        }
    }

    /// Name and expression of the declaration of a constant. An integer's type is that of its declaration.
    fn constant(&self, words: &[Token<'a>], at: usize) -> Option<(Token<'a>, Vec<Token<'a>>)> {
        let name = *words.get(at + 1)?;
        let typed = words.get(at + 2) == Some(&":");
        let from = if typed { at + 5 } else { at + 3 };
        let end = closing(words, from, ";")?;
        let plain = !typed || matches!(words.get(at + 3..at + 5)?, ["u32" | "bool", "="]);
        // `NAME:` and `const NAME` are the same declaration.
        let once = self.declared.get(name) == Some(&if typed { 2 } else { 1 });
        let mut expression = words.get(from..end)?.to_vec();
        if typed && words[at + 3] == "u32" {
            expression.splice(0..0, ["u32", "("]);
            expression.push(")");
        }
        (plain && once).then_some((name, expression))
    }

    /// Returns the code of a loop that is written out. `None` for a loop that stays.
    fn written(&self, head: &Head<'a>, words: &[Token<'a>], known: &Known<'a>) -> Option<Written> {
        let body = &words[head.body.clone()];
        if changes(body, head.name) || leaves(body) {
            return None;
        }
        match value(&words[head.start.clone()], known) {
            Some(Value::U32(first)) => {
                let values = self.values(head, words, known, first)?;
                let whole = values.map(|values| self.blocks(head, body, known, values));
                let most = if self.indexes_locals(body, head.name) { MOST_TOKENS } else { GUARD_TOKENS };
                let fits = whole.filter(|whole| whole.tokens <= most);
                fits.or_else(|| self.chunks(head, words, known, first))
            }
            Some(_) => None,
            None => self.conditions(head, words, known),
        }
    }

    /// Values of the variable, or `Some(None)` if they are more than [`MOST_BLOCKS`]. `None` if they are unknown.
    fn values(&self, head: &Head, words: &[Token], known: &Known<'a>, first: u32) -> Option<Option<Vec<u32>>> {
        let mut values = Vec::new();
        let mut inner: Known = known.clone();
        let mut next = first;
        loop {
            inner.insert(head.name, Value::U32(next));
            match value(&words[head.condition.clone()], &inner)? {
                Value::Bool(true) if values.len() == MOST_BLOCKS => return Some(None),
                Value::Bool(true) => values.push(next),
                Value::Bool(false) => return Some(Some(values)),
                _ => return None,
            }
            next = stepped(&words[head.step.clone()], head.name, next, known)?;
        }
    }

    /// One block for each value.
    fn blocks(&self, head: &Head<'a>, body: &[Token<'a>], known: &Known<'a>, values: Vec<u32>) -> Written {
        let mut all = Written::default();
        let mut inner = known.clone();
        for one in values {
            inner.insert(head.name, Value::U32(one));
            let block = self.body(body, &inner);
            all.block(head.name, &format!("{one}u"), &block);
            if all.tokens > MOST_TOKENS {
                break;
            }
        }
        all
    }

    /// A loop of several blocks, for many short iterations: `for (var i_ = 0u; i_ < 96u; i_ += 4u) { { let i = i_; … } … }`.
    fn chunks(&self, head: &Head<'a>, words: &[Token<'a>], known: &Known<'a>, first: u32) -> Option<Written> {
        let (bound, step) = progression(head, words, known)?;
        let counter = self.counter(head)?;
        let body = self.body(&words[head.body.clone()], known);
        let trips = bound.checked_sub(first)?.div_ceil(step);
        let together = u32::try_from(GUARD_TOKENS / body.tokens.max(1)).ok()?.min(trips);
        if together < 2 {
            return None;
        }
        // The counter passes the bound by less than one stride.
        let stride = together.checked_mul(step)?;
        bound.checked_add(stride)?;
        let end = first + trips / together * stride;
        let mut all = Written::default();
        let _ = write!(all.code, "for (var {counter} = {first}u; {counter} < {end}u; {counter} += {stride}u) {{ ");
        for i in 0..together {
            all.block(head.name, &format!("{counter} + {}u", i * step), &body);
        }
        all.code += "} ";
        for i in 0..trips % together {
            all.block(head.name, &format!("{}u", end + i * step), &body);
        }
        Some(all)
    }

    /// Nested conditions, for a start that is known at run time: `{ var i_ = start; if i_ < N { … i_ += S; if i_ < N { … } } }`.
    fn conditions(&self, head: &Head<'a>, words: &[Token<'a>], known: &Known<'a>) -> Option<Written> {
        let (bound, step) = progression(head, words, known)?;
        let counter = self.counter(head)?;
        let body = self.body(&words[head.body.clone()], known);
        let most = bound.div_ceil(step) as usize;
        // The last addition must not wrap.
        if most > MOST_CONDITIONS || most * body.tokens > GUARD_TOKENS || bound.checked_add(step).is_none() {
            return None;
        }
        let mut all = Written::default();
        let _ = write!(all.code, "{{ var {counter} = {}; ", joined(&words[head.start.clone()]));
        for iteration in 0..most {
            if iteration > 0 {
                let _ = write!(all.code, "{counter} += {step}u; ");
            }
            let _ = write!(all.code, "if {counter} < {bound}u {{ ");
            all.block(head.name, &counter, &body);
        }
        all.code += &"} ".repeat(most + 1);
        Some(all)
    }

    /// Whether a variable, or a value derived from it, indexes a local array or vector. Drivers keep such an array in memory, unless
    /// the index is constant.
    fn indexes_locals(&self, body: &[Token<'a>], name: &str) -> bool {
        let mut derived = vec![name];
        let from = |words: &[Token], derived: &[&str]| words.iter().any(|word| derived.contains(word));
        for (at, word) in body.iter().enumerate() {
            match *word {
                "let" | "var" | "const" => {
                    let end = closing(body, at + 1, ";").unwrap_or(at);
                    let Some([name, rest @ ..]) = body.get(at + 1..end) else { continue };
                    if from(rest, &derived) {
                        derived.push(name);
                    }
                }
                "[" => {
                    let end = closing(body, at + 1, "]").unwrap_or(at);
                    let index = body.get(at + 1..end).unwrap_or_default();
                    if from(index, &derived) && !self.shared.contains(root(body, at)) {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Name of the counter of a loop, beside its variable.
    fn counter(&self, head: &Head) -> Option<String> {
        let name = format!("{}_", head.name);
        (!self.declared.contains_key(name.as_str())).then_some(name)
    }

    /// Statements on one line, with their own loops written out.
    fn body(&self, words: &[Token<'a>], known: &Known<'a>) -> Written {
        let mut all = Written::default();
        let (mut at, mut copied) = (0, 0);
        while at < words.len() {
            let found = Head::read(words, at).and_then(|head| Some((self.written(&head, words, known)?, head)));
            let Some((written, head)) = found else {
                at += 1;
                continue;
            };
            all.put(&words[copied..at]);
            all.code += &written.code;
            all.tokens += written.tokens;
            at = head.body.end + 1;
            copied = at;
        }
        all.put(&words[copied..]);
        all
    }
}

/// Bound and step of `NAME < bound; NAME += step`, if they are constant. The step is not zero.
fn progression(head: &Head, words: &[Token], known: &Known) -> Option<(u32, u32)> {
    let [name, "<", bound @ ..] = &words[head.condition.clone()] else { return None };
    let step = match &words[head.step.clone()] {
        [stepped, "++"] if *stepped == head.name => Value::U32(1),
        [stepped, "+=", step @ ..] if *stepped == head.name => value(step, known)?,
        _ => return None,
    };
    match (value(bound, known)?, step) {
        (Value::U32(bound), Value::U32(step) | Value::Abstract(step)) if *name == head.name && step > 0 => {
            Some((bound, step))
        }
        _ => None,
    }
}

/// Joins tokens. Those of a shift stay together.
fn joined(words: &[Token]) -> String {
    let mut all = String::new();
    for (at, word) in words.iter().enumerate() {
        let shift = at > 0 && matches!((words[at - 1], *word), ("<", "<") | (">", ">"));
        if at > 0 && !shift {
            all.push(' ');
        }
        all += word;
    }
    all
}

/// Value after a step. `None` for another step than a constant one.
fn stepped(step: &[Token], name: &str, before: u32, known: &Known) -> Option<u32> {
    let operand = |words: &[Token]| match value(words, known)? {
        Value::U32(value) | Value::Abstract(value) => Some(value),
        Value::Bool(_) => None,
    };
    match step {
        [stepped, "++"] if *stepped == name => before.checked_add(1),
        [stepped, "--"] if *stepped == name => before.checked_sub(1),
        [stepped, operator, rest @ ..] if *stepped == name => {
            let by = operand(rest)?;
            match *operator {
                "+=" => before.checked_add(by),
                "-=" => before.checked_sub(by),
                "*=" => before.checked_mul(by),
                "/=" => before.checked_div(by),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether statements change a variable, take its address or declare another of its name.
fn changes(body: &[Token], name: &str) -> bool {
    body.windows(2).any(|pair| match pair {
        ["&" | "let" | "var" | "const", other] => *other == name,
        [other, "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>=" | "++" | "--" | ":"] => {
            *other == name
        }
        _ => false,
    })
}

/// Whether statements end an iteration or the loop around them.
fn leaves(body: &[Token]) -> bool {
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
