//! Conversion of consecutive calls to loops.

use crate::matrix::{arguments, closed};

/// Replaces consecutive calls of one function by a loop. Compilers inline every call, and take minutes for hundreds of them.
pub fn joined(text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut all = String::with_capacity(text.len());
    let mut at = 0;
    while at < lines.len() {
        let Some(first) = Call::on(lines[at]) else {
            all += lines[at];
            at += 1;
            continue;
        };
        // Lines for the other compiler are empty lines between the calls.
        let function = first.function;
        let (mut calls, mut behind) = (vec![first], at + 1);
        for (i, line) in lines.iter().enumerate().skip(behind).filter(|(_, line)| !line.trim().is_empty()) {
            let Some(call) = Call::on(line).filter(|call| call.function == function) else { break };
            calls.push(call);
            behind = i + 1;
        }
        if calls.len() == 1 {
            all += lines[at];
            at += 1;
            continue;
        }
        let arguments: Vec<String> = calls.iter().map(Call::arguments).collect();
        let declared: String = calls.iter().map(|call| call.declared).collect();
        let (count, list, taken) = (calls.len(), arguments.join(", "), calls[0].taken());
        all += &format!(
            "{declared} {{ var calls = array<vec4<u32>, {count}>({list}); \
             for (var i = 0u; i < {count}u * one_matrix; i++) {{ let call = calls[i]; {function}({taken}); }} }}"
        );
        all += &"\n".repeat(behind - at);
        at = behind;
    }
    all
}

/// A call of a matrix function, alone on its line except for the destination.
struct Call<'a> {
    declared: &'a str,
    function: &'a str,
    arguments: Vec<&'a str>,
}

impl<'a> Call<'a> {
    fn on(line: &'a str) -> Option<Call<'a>> {
        let code = line.trim();
        let (declared, code) = match code.strip_prefix("let ").and_then(|_| code.split_once("; ")) {
            Some((declared, code)) => (&line[line.find(declared)?..][..declared.len() + 1], code),
            None => ("", code),
        };
        let (function, rest) = code.split_once('(')?;
        let known = ["load_", "multiply_matrices"].iter().any(|start| function.starts_with(start));
        let (inner, rest) = closed(rest, '(', ')')?;
        (known && rest == ";").then(|| Call { declared, function, arguments: arguments(inner) })
    }

    fn arguments(&self) -> String {
        let all: Vec<&str> = self.arguments.iter().copied().chain(["0u"; 4]).take(4).collect();
        format!("vec4<u32>({})", all.join(", "))
    }

    fn taken(&self) -> String {
        let all: Vec<String> = "xyzw".chars().take(self.arguments.len()).map(|c| format!("call.{c}")).collect();
        all.join(", ")
    }
}
