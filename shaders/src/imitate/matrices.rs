//! Conversion of statements on matrices to calls of generated functions.

use std::collections::BTreeSet;

use crate::matrix::{arguments, closed, element, names};

/// Depth (K) of a GEMM of 8-bit matrices, whose elements lie four to a word.
const BYTES_DEPTH: u32 = 32;

/// State of the conversion.
pub struct Found<'a> {
    text: &'a str,
    /// 4-vectors per thread.
    pub kept: u32,
    /// Depth (K) of the GEMMs.
    pub depth: Option<u32>,
    /// Generated functions.
    pub functions: BTreeSet<String>,
}

/// A matrix by its type: its role, and the depth (K) of its GEMM.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Matrix<'a> {
    role: &'a str,
    depth: u32,
}

impl<'a> Matrix<'a> {
    /// Parses a type such as `coop_mat16x16<f16, A>`.
    fn from_name(name: &'a str) -> Option<Matrix<'a>> {
        let (size, inner) = name.strip_suffix('>')?.split_once('<')?;
        match (size, &arguments(inner)[..]) {
            ("coop_mat16x16", [_, role @ ("A" | "B" | "C")]) => Some(Matrix { role, depth: 16 }),
            ("coop_mat32x16", ["i8", role @ "A"]) | ("coop_mat16x32", ["i8", role @ "B"]) => {
                Some(Matrix { role, depth: BYTES_DEPTH })
            }
            _ => None,
        }
    }

    /// 4-vectors of the matrix per thread.
    fn vectors(self) -> u32 {
        match self.role {
            "A" => self.depth / 4,
            "B" => self.depth * 2,
            _ => 2,
        }
    }
}

/// Converts a statement on one line. `None` for an unknown form.
pub fn statement(code: &str, found: &mut Found) -> Option<String> {
    let inner = code.trim();
    let indent = &code[..code.len() - code.trim_start().len()];
    let inner = inner.strip_suffix(';')?;
    for (word, layout) in [("coopStoreT(", "rows"), ("coopStore(", "columns")] {
        if let Some(rest) = inner.strip_prefix(word) {
            let (inner, rest) = closed(rest, '(', ')')?;
            let [value, to, stride] = arguments(inner)[..] else { return None };
            let (array, first) = element(to)?;
            let name = found.function("store", array, Matrix { role: "C", depth: 16 }, layout)?;
            return rest.is_empty().then(|| format!("{indent}{name}({value}, {first}, {stride});"));
        }
    }
    let (left, right) = inner.split_once(" = ")?;
    let (matrix, call) = found.value(right)?;
    let (declared, name) = match left.strip_prefix("var ").or_else(|| left.strip_prefix("let ")) {
        Some(name) => {
            let first = found.kept;
            found.kept += matrix.vectors();
            (format!("let {name} = {first}u; "), name)
        }
        None => (String::new(), left),
    };
    names(name).eq([name]).then(|| format!("{indent}{declared}{}", call.replace("(@", &format!("({name}"))))
}

impl<'a> Found<'a> {
    /// Initial state for a kernel source.
    pub fn new(text: &'a str) -> Found<'a> {
        Found { text, kept: 0, depth: None, functions: BTreeSet::new() }
    }

    /// Converts an expression of matrix type. Returns the matrix, and the call that stores it at `@`.
    fn value<'r>(&mut self, right: &'r str) -> Option<(Matrix<'r>, String)> {
        let result = Matrix { role: "C", depth: 16 };
        if let Some(name) = right.strip_suffix("()") {
            return (Matrix::from_name(name)? == result).then(|| (result, "zero_matrix(@);".to_owned()));
        }
        if let Some(rest) = right.strip_prefix("coopMultiplyAdd(") {
            let (inner, rest) = closed(rest, '(', ')')?;
            let [a, b, c] = arguments(inner)[..] else { return None };
            let plain = [a, b, c].iter().all(|name| names(name).eq([*name]));
            return (rest.is_empty() && plain).then(|| (result, format!("multiply_matrices(@, {a}, {b}, {c});")));
        }
        for (word, layout) in [("coopLoadT<", "rows"), ("coopLoad<", "columns")] {
            let Some(rest) = right.strip_prefix(word) else { continue };
            let (name, rest) = closed(rest, '<', '>')?;
            let (inner, rest) = closed(rest.strip_prefix('(')?, '(', ')')?;
            let [from, stride] = arguments(inner)[..] else { return None };
            let (array, first) = element(from)?;
            let matrix = Matrix::from_name(name)?;
            // All operands of a kernel source have one depth.
            if matrix.role != "C" && *self.depth.get_or_insert(matrix.depth) != matrix.depth {
                return None;
            }
            let name = self.function("load", array, matrix, layout)?;
            return rest.is_empty().then(|| (matrix, format!("{name}(@, {first}, {stride});")));
        }
        None
    }

    /// Returns the name of the generated function for a load or store of a thread's part of a matrix. The layout is by rows or by
    /// columns.
    fn function(&mut self, verb: &str, array: &str, matrix: Matrix, layout: &str) -> Option<String> {
        let (wide, elem) = self.declared(array)?;
        let Matrix { role, depth } = matrix;
        let bytes = depth == BYTES_DEPTH;
        if bytes && wide != 4 {
            return None;
        }
        let name = format!("{verb}_{role}_{array}_{layout}");
        let at = |row: &str, column: &str| {
            let (far, near) = if layout == "rows" { (row, column) } else { (column, row) };
            match wide {
                _ if bytes => {
                    let word = format!("{array}[first + ({far}) * stride + ({near}) / 16u][({near}) / 4u % 4u]");
                    format!("extractBits(bitcast<i32>({word}), ({near}) % 4u * 8u, 8u)")
                }
                1 => format!("{array}[first + ({far}) * stride + {near}]"),
                wide => format!("{array}[first + ({far}) * stride + ({near}) / {wide}u][({near}) % {wide}u]"),
            }
        };
        let four = |row: &dyn Fn(u32) -> String, column: &dyn Fn(u32) -> String| {
            let one = |i| format!("f32({})", at(&row(i), &column(i)));
            format!("vec4<f32>({})", (0..4).map(one).collect::<Vec<_>>().join(", "))
        };
        let whole = |row: &str, vector: &str| format!("vec4<f32>({array}[first + ({row}) * stride + {vector}])");
        let vectors = wide == 4 && layout == "rows" && !bytes;
        let half = |i: u32| format!("matrix_lane % 2u * 8u + {i}u");
        let own = |_: u32| "matrix_lane / 2u".to_owned();
        let body = match (verb, role) {
            ("load", "A") if vectors => format!(
                "for (var i = 0u; i < 4u * one_matrix; i++) {{ kept_matrices[first_kept + matrix + i] = {}; }}",
                whole("matrix_lane / 2u", "i")
            ),
            ("load", "B") if vectors => format!(
                "for (var i = 0u; i < 32u * one_matrix; i++) {{ kept_matrices[first_kept + matrix + i] = {}; }}",
                whole("i / 2u", "matrix_lane % 2u * 2u + i % 2u")
            ),
            ("load", "A") => format!(
                "for (var i = 0u; i < {}u * one_matrix; i++) {{ kept_matrices[first_kept + matrix + i] = {}; }}",
                depth / 4,
                four(&own, &|i| format!("i * 4u + {i}u"))
            ),
            ("load", "B") => format!(
                "for (var i = 0u; i < {depth}u * one_matrix; i++) {{ kept_matrices[first_kept + matrix + i * 2u] = {}; \
                 kept_matrices[first_kept + matrix + i * 2u + 1u] = {}; }}",
                four(&|_| "i".to_owned(), &half),
                four(&|_| "i".to_owned(), &|i| half(i + 4)),
            ),
            ("load", "C") if vectors => format!(
                "for (var i = 0u; i < 2u * one_matrix; i++) {{ kept_matrices[first_kept + matrix + i] = {}; }}",
                whole("matrix_lane / 2u", "matrix_lane % 2u * 2u + i")
            ),
            ("load", "C") => format!(
                "kept_matrices[first_kept + matrix] = {}; kept_matrices[first_kept + matrix + 1u] = {};",
                four(&own, &half),
                four(&own, &|i| half(i + 4))
            ),
            ("store", _) if vectors => (0..2)
                .map(|i| {
                    let to = format!("{array}[first + matrix_lane / 2u * stride + matrix_lane % 2u * 2u + {i}u]");
                    format!("{to} = vec4<{elem}>(kept_matrices[first_kept + matrix + {i}u]); ")
                })
                .collect(),
            ("store", _) => (0..8)
                .map(|i| {
                    let kept = format!("kept_matrices[first_kept + matrix + {}u][{}u]", i / 4, i % 4);
                    format!("{} = {elem}({kept}); ", at(&own(i), &half(i)))
                })
                .collect(),
            _ => return None,
        };
        self.functions.insert(format!("fn {name}(matrix: u32, first: u32, stride: u32) {{ {body} }}\n"));
        Some(name)
    }

    /// Returns the numbers per element of an array, and their type.
    fn declared(&self, array: &str) -> Option<(u32, &str)> {
        let is = |line: &&str| line.split_once(':').is_some_and(|(left, _)| left.ends_with(&format!("> {array}")));
        let line = self.text.lines().find(is)?;
        let (_, of) = line.split_once(": array<")?;
        let named = of.split([',', '>']).next()?;
        let alias = self.text.lines().find_map(|line| line.trim_start().strip_prefix(&format!("alias {named} = ")));
        let of = alias.unwrap_or(of);
        Some(match of.strip_prefix("vec").and_then(|vector| vector.split_once('<')) {
            Some((wide, of)) => (wide.parse().ok()?, of.split('>').next()?),
            None => (1, of.split([',', '>', ';']).next()?.trim()),
        })
    }
}
