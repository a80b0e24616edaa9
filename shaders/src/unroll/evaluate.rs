//! Values of constant expressions of WGSL: unsigned integers and truth values.

use std::collections::BTreeMap;

use super::tokens::Token;

/// Value of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// Integer literal without a suffix.
    Abstract(u32),
    U32(u32),
    Bool(bool),
}

/// Known values by name.
pub(super) type Known<'a> = BTreeMap<&'a str, Value>;

/// Returns the value of an expression. `None` if it has another type, an unknown name or an overflow.
pub(super) fn value(expression: &[Token], known: &Known) -> Option<Value> {
    let mut parser = Parser { rest: expression, known };
    let value = parser.binary(0)?;
    parser.rest.is_empty().then_some(value)
}

/// Operators by precedence, the weakest first.
const LEVELS: [&[&str]; 5] = [&["||"], &["&&"], &["==", "!=", "<", "<=", ">", ">="], &["+", "-"], &["*", "/", "%"]];

struct Parser<'a> {
    rest: &'a [Token<'a>],
    known: &'a Known<'a>,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn takes(&mut self, wanted: &str) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    fn binary(&mut self, level: usize) -> Option<Value> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.rest.first().copied().filter(|first| operators.contains(first)) {
            self.next();
            let right = self.binary(level + 1)?;
            left = combined(operator, left, right)?;
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Value> {
        match self.next()? {
            "!" => match self.unary()? {
                Value::Bool(value) => Some(Value::Bool(!value)),
                _ => None,
            },
            "(" => {
                let value = self.binary(0)?;
                self.takes(")")?;
                Some(value)
            }
            name if self.rest.first() == Some(&"(") => {
                let arguments = self.arguments()?;
                called(name, &arguments)
            }
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            number if number.starts_with(|c: char| c.is_ascii_digit()) => literal(number),
            name => self.known.get(name).copied(),
        }
    }

    fn arguments(&mut self) -> Option<Vec<Value>> {
        self.takes("(")?;
        let mut all = vec![self.binary(0)?];
        loop {
            match self.next()? {
                "," if self.rest.first() == Some(&")") => {}
                "," => all.push(self.binary(0)?),
                ")" => return Some(all),
                _ => return None,
            }
        }
    }
}

fn literal(text: &str) -> Option<Value> {
    let (digits, typed) = text.strip_suffix('u').map_or((text, false), |digits| (digits, true));
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    value.ok().map(if typed { Value::U32 } else { Value::Abstract })
}

fn called(name: &str, arguments: &[Value]) -> Option<Value> {
    match (name, arguments) {
        ("select", [one, other, Value::Bool(condition)]) => {
            let same = std::mem::discriminant(one) == std::mem::discriminant(other);
            same.then_some(if *condition { *other } else { *one })
        }
        ("u32", [Value::U32(value) | Value::Abstract(value)]) => Some(Value::U32(*value)),
        ("min", [one, other]) => integers(*one, *other, |a, b| Some(a.min(b))),
        ("max", [one, other]) => integers(*one, *other, |a, b| Some(a.max(b))),
        _ => None,
    }
}

fn combined(operator: &str, left: Value, right: Value) -> Option<Value> {
    use Value::{Abstract, Bool, U32};
    if let (Bool(a), Bool(b)) = (left, right) {
        return Some(Bool(match operator {
            "||" => a || b,
            "&&" => a && b,
            "==" => a == b,
            "!=" => a != b,
            _ => return None,
        }));
    }
    let (U32(a) | Abstract(a), U32(b) | Abstract(b)) = (left, right) else { return None };
    let compared = match operator {
        "==" => a == b,
        "!=" => a != b,
        "<" => a < b,
        "<=" => a <= b,
        ">" => a > b,
        ">=" => a >= b,
        "+" => return integers(left, right, u32::checked_add),
        "-" => return integers(left, right, u32::checked_sub),
        "*" => return integers(left, right, u32::checked_mul),
        "/" => return integers(left, right, u32::checked_div),
        "%" => return integers(left, right, u32::checked_rem),
        _ => return None,
    };
    Some(Bool(compared))
}

/// Applies an operation to two integers. One with a type gives the result its type.
fn integers(left: Value, right: Value, operation: fn(u32, u32) -> Option<u32>) -> Option<Value> {
    use Value::{Abstract, U32};
    match (left, right) {
        (Abstract(a), Abstract(b)) => operation(a, b).map(Abstract),
        (U32(a) | Abstract(a), U32(b) | Abstract(b)) => operation(a, b).map(U32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    #[test]
    fn expressions_have_the_values_of_wgsl() {
        let known = Known::from([("N", Value::U32(10)), ("WIDE", Value::Bool(true)), ("ONE", Value::Abstract(1))]);
        for (text, want) in [
            ("4u", Some(Value::U32(4))),
            ("0x1fu", Some(Value::U32(31))),
            ("4", Some(Value::Abstract(4))),
            ("4i", None),
            ("4.0", None),
            ("(N + 3u) / 4u", Some(Value::U32(3))),
            ("N - 2u - 3u", Some(Value::U32(5))),
            ("2 + N * 3", Some(Value::U32(32))),
            ("ONE + 1", Some(Value::Abstract(2))),
            ("N % 4u == 2u && !WIDE || N > 9u", Some(Value::Bool(true))),
            ("select(1u, 0u, WIDE)", Some(Value::U32(0))),
            ("select(1u, 0, WIDE)", None),
            ("min(N, 4u) + max(N, 4u)", Some(Value::U32(14))),
            ("min(N, 4u,)", Some(Value::U32(4))),
            ("u32(7)", Some(Value::U32(7))),
            ("5u - N", None),
            ("N / 0u", None),
            ("4000000000u + 400000000u", None),
            ("M + 1u", None),
            ("f(1u)", None),
            ("N +", None),
            ("N N", None),
            ("(N", None),
            ("WIDE + 1u", None),
            ("", None),
        ] {
            let all: Vec<Token> = tokens(text).into_iter().map(|(_, token)| token).collect();
            assert_eq!(value(&all, &known), want, "{text}");
        }
    }
}
