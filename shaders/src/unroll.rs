//! Loops that are written out for compilers that guard loops.
//!
//! naga bounds the iterations of every loop, and drivers do not unroll a bounded loop. Arrays of a thread then lie in memory
//! instead of registers. This pass writes out loops whose trip count is constant. Drivers unroll such loops on their own if they
//! have no guard.
//!
//! A loop is written out in one of four forms.
//!
//! - One block `{ let i = 0u; … }` for each value: where all iterations fit.
//! - A loop over several blocks: for more iterations. One guard then serves all of them.
//! - Nested conditions, one for each possible iteration: for a start that is known at run time. An example is
//!   `for (var i = lane; i < 256u; i += 64u)`.
//! - A loop over several blocks and a loop of the rest: for a start or a bound that is known at run time.
//!
//! Other loops stay: those with `break` or `continue`, those that change their variable, and those with long iterations.
//! Measurements: docs/notebook/2026-11-29-checks-h200.md.

mod evaluate;
mod parts;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use evaluate::{Known, Value, value};
use parts::{Head, changes, closing, declarations, leaves, looping, root, shared};
use tokens::{Token, tokens};

/// Most blocks of a loop.
const MOST_BLOCKS: usize = 64;
/// Most nested conditions of a loop whose start is known at run time.
const MOST_CONDITIONS: usize = 16;
/// Most tokens of a loop for the compiler of a GPU. The inner loop of a GEMM with 8 × 8 accumulators has 7000.
const MOST_TOKENS: usize = 8192;
/// Most tokens of a loop for the compiler of a processor. With 8192 tokens, llvmpipe compiles the backward pass of a depthwise
/// convolution in 53 s instead of 11 s.
const MOST_TOKENS_ON_PROCESSORS: usize = 1024;
/// Most tokens of a loop with a barrier, or of nested conditions. A guard is small beside a barrier, and a longer text holds more
/// registers. Attention of 512 × 64 takes 1.6 times as long if the loop over its tiles is written out.
const FEW_TOKENS: usize = 512;
/// Most blocks of a loop that stays, for its many iterations.
const TOGETHER: u32 = 16;
/// Most blocks of a loop with a bound of run time, and their tokens.
const SEVERAL_BLOCKS: u32 = 4;
const SEVERAL_TOKENS: usize = 1024;

/// Loops of a kernel source that are written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenLoops {
    /// None: the compiler guards no loop whose end it can prove.
    None,
    /// Short ones: the compiler guards loops, and a processor executes the kernel.
    Short,
    /// Long ones too: the compiler guards loops.
    Long,
}

/// Returns a WGSL text with its loops written out, and their number. Lines keep their numbers.
pub fn unrolled(text: &str, loops: WrittenLoops) -> (String, usize) {
    let most = match loops {
        WrittenLoops::None => return (text.to_owned(), 0),
        WrittenLoops::Short => MOST_TOKENS_ON_PROCESSORS,
        WrittenLoops::Long => MOST_TOKENS,
    };
    let all = tokens(text);
    let words: Vec<Token> = all.iter().map(|(_, token)| *token).collect();
    let pass = Pass { declared: declarations(&words), shared: shared(&words), looping: looping(&words), most };
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
    /// Functions with loops or barriers.
    looping: BTreeSet<Token<'a>>,
    /// Most tokens of a loop.
    most: usize,
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
                let Some(values) = self.values(head, words, known, first) else {
                    return self.several(head, words, known);
                };
                let whole = values.map(|values| self.blocks(head, body, known, values));
                let most = if self.indexes_locals(body, head.name) { self.most } else { self.most_tokens(body) };
                let fits = whole.filter(|whole| whole.tokens <= most);
                fits.or_else(|| self.chunks(head, words, known, first))
            }
            Some(_) => None,
            None => self.conditions(head, words, known).or_else(|| self.several(head, words, known)),
        }
    }

    /// A loop of several blocks and one of the rest, for a start or a bound that is known at run time.
    ///
    /// Form: `for (; i_ < iend_ && iend_ - i_ > 3u; i_ += 4u) { … } for (; i_ < iend_; i_ += 1u) { … }`.
    fn several(&self, head: &Head<'a>, words: &[Token<'a>], known: &Known<'a>) -> Option<Written> {
        let [name, "<", bound @ ..] = &words[head.condition.clone()] else { return None };
        let step = constant_step(head, words, known)?;
        let body = &words[head.body.clone()];
        let steady =
            self.is_steady(bound, words) && bound.iter().all(|word| *word != head.name && !changes(body, word));
        if *name != head.name || !steady || !self.is_u32(head, bound, words, known) {
            return None;
        }
        let counter = self.counter(head)?;
        let end = format!("{}end_", head.name);
        if self.declared.contains_key(end.as_str()) {
            return None;
        }
        // Compilers inline each call: five copies of a tile's loops take five times as long to compile, and save one guard a tile.
        if body.iter().any(|word| self.looping.contains(word)) {
            return None;
        }
        let body = self.body(body, known);
        let together = u32::try_from(SEVERAL_TOKENS / body.tokens.max(1)).ok()?.min(SEVERAL_BLOCKS);
        if together < 2 {
            return None;
        }
        let stride = together.checked_mul(step)?;
        let mut all = Written::default();
        let [start, bound] = [&words[head.start.clone()], bound].map(joined);
        let _ = write!(all.code, "{{ var {counter}: u32 = {start}; let {end}: u32 = {bound}; ");
        let _ = write!(all.code, "for (; {counter} < {end} && {end} - {counter} > {}u; ", stride - step);
        let _ = write!(all.code, "{counter} += {stride}u) {{ ");
        for i in 0..together {
            all.block(head.name, &format!("{counter} + {}u", i * step), &body);
        }
        let _ = write!(all.code, "}} for (; {counter} < {end}; {counter} += {step}u) {{ ");
        all.block(head.name, &counter, &body);
        all.code += "} } ";
        Some(all)
    }

    /// Whether a bound has the same value in each iteration of a loop that changes none of its names, so that it is computed once. It
    /// must not read a variable of the module, read or write through a pointer, or call a function but `min`, `max` and `u32`.
    fn is_steady(&self, bound: &[Token<'a>], words: &[Token<'a>]) -> bool {
        let is_name = |word: &str| word.starts_with(tokens::in_word) && !word.starts_with(|c: char| c.is_ascii_digit());
        let addressed = |word: &Token| words.windows(2).any(|pair| matches!(pair, ["&", name] if name == word));
        bound.iter().enumerate().all(|(at, word)| {
            let before = at.checked_sub(1).map_or("", |before| bound[before]);
            let calls = bound.get(at + 1) == Some(&"(");
            match *word {
                "min" | "max" | "u32" if calls => true,
                "[" | "&" => false,
                "*" => before == ")" || before.starts_with(tokens::in_word),
                word if is_name(word) => !calls && !self.shared.contains(word) && !addressed(&word),
                _ => true,
            }
        })
    }

    /// Most tokens of a loop that is written out for its guard.
    fn most_tokens(&self, body: &[Token]) -> usize {
        if body.contains(&"workgroupBarrier") { FEW_TOKENS } else { self.most }
    }

    /// Whether the variable of a loop is known to be a `u32`: by its declaration, its start, its bound or its step.
    fn is_u32(&self, head: &Head<'a>, bound: &[Token<'a>], words: &[Token<'a>], known: &Known<'a>) -> bool {
        let is = |words: &[Token<'a>]| matches!(value(words, known), Some(Value::U32(_)));
        let step = words[head.step.clone()].get(2..).unwrap_or_default();
        words[..head.start.start].ends_with(&["u32", "="]) || is(&words[head.start.clone()]) || is(bound) || is(step)
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
            if all.tokens > self.most {
                break;
            }
        }
        all
    }

    /// A loop of several blocks, for many short iterations: `for (var i_ = 0u; i_ < 96u; i_ += 4u) { { let i = i_; … } … }`.
    fn chunks(&self, head: &Head<'a>, words: &[Token<'a>], known: &Known<'a>, first: u32) -> Option<Written> {
        let (bound, step) = progression(head, words, known)?;
        let counter = self.counter(head)?;
        let most = self.most_tokens(&words[head.body.clone()]);
        let body = self.body(&words[head.body.clone()], known);
        let trips = bound.checked_sub(first)?.div_ceil(step);
        let together = u32::try_from(most / body.tokens.max(1)).ok()?.min(trips).min(TOGETHER);
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
        if most > MOST_CONDITIONS || most * body.tokens > FEW_TOKENS || bound.checked_add(step).is_none() {
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
    match value(bound, known)? {
        Value::U32(bound) if *name == head.name => Some((bound, constant_step(head, words, known)?)),
        _ => None,
    }
}

/// Step of `NAME++` or `NAME += step`, if it is constant and not zero.
fn constant_step(head: &Head, words: &[Token], known: &Known) -> Option<u32> {
    let step = match &words[head.step.clone()] {
        [stepped, "++"] if *stepped == head.name => Value::U32(1),
        [stepped, "+=", step @ ..] if *stepped == head.name => value(step, known)?,
        _ => return None,
    };
    match step {
        Value::U32(step) | Value::Abstract(step) if step > 0 => Some(step),
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
