//! The matrices of a subgroup in plain WGSL, for devices without matrix units: pure text.
//!
//! What is so slow is of no use but one: kernels on matrix units are checked wherever the tests run. A matrix becomes a place in a
//! storage buffer in bind group 1, and what is done to it a call of a function. A thread keeps for itself what its part of a product
//! needs, so that no other thread is waited for: of a result half a row, of a left factor that row, of a right one half of its columns.
//! Bytes are numbers there as others are: their sums are exact as long as they stay below 2^24.
//! It is a buffer, because compilers of processors take minutes for arrays of a thread's own. Arrays in workgroup memory become buffers,
//! too, of which each workgroup has a part: processors offer 32 KiB, and such kernels use more. Lines keep their numbers.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::matrix::{NATIVE, arguments, closed, element, names};

/// Threads of a subgroup.
const LANES: u32 = 32;
/// Depth of a product of matrices of bytes, which lie four to a word.
const BYTES_DEPTH: u32 = 32;

/// A text without matrices.
pub struct Imitated {
    /// WGSL.
    pub wgsl: String,
    /// What it binds.
    pub buffers: Imitation,
}

/// What is bound as group 1 where matrices are imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imitation {
    /// Vectors of four that each thread keeps in binding 0.
    pub kept: u32,
    /// Arrays of each workgroup in as many bindings behind that.
    pub arrays: u32,
}

/// The same text for a device without matrix units.
///
/// # Errors
/// With a line in which matrices are used in another way than is known here.
pub fn imitated(text: &str) -> Result<Imitated, String> {
    let mut all = String::with_capacity(2 * text.len());
    let mut found = Found { text, kept: 0, depth: None, functions: BTreeSet::new() };
    let mut entry = None;
    let mut arrays = Vec::new();
    for line in text.split_inclusive('\n') {
        let (code, rest) = line.split_at(line.find("//").unwrap_or(line.trim_end_matches('\n').len()));
        let code = code.replace(NATIVE, "");
        let code = entered(&code, &mut entry);
        let code = buffered(&code, &mut arrays).unwrap_or(code);
        let plain = !names(&code).any(|name| name.starts_with("coop"));
        let spelled = if plain { Some(code.clone()) } else { statement(&code, &mut found) };
        all += &spelled.ok_or_else(|| format!("no imitation of the matrices of `{}`", code.trim()))?;
        all += rest;
    }
    all = joined(&all);
    // Subgroups may be narrower here, or missing.
    if all.contains("subgroupShuffleXor(") {
        all = all.replace("subgroupShuffleXor(", "exchanged(");
        found.kept += 1;
        found.functions.insert(EXCHANGE.to_owned());
    }
    let kept = found.kept;
    let _ =
        writeln!(all, "const KEPT_VECTORS: u32 = {kept}u;\nconst MATRIX_DEPTH: u32 = {}u;", found.depth.unwrap_or(16));
    all += SHARED;
    found.functions.iter().for_each(|function| all += function);
    let mut places = String::new();
    for (name, length) in &arrays {
        all = within(&all, name);
        let _ = writeln!(all, "var<private> {name}_from: u32;");
        places += &format!(" {name}_from = group * ({length});");
    }
    let _ = writeln!(all, "fn place_arrays(group: u32) {{{places} }}");
    Ok(Imitated { wgsl: all, buffers: Imitation { kept, arrays: arrays.len() as u32 } })
}

/// A line that declares an array in workgroup memory, or waits for it, where that is a buffer; names and lengths are added to a list.
fn buffered(code: &str, arrays: &mut Vec<(String, String)>) -> Option<String> {
    // One barrier and not two: compilers of processors take a thread apart at each.
    if code.contains("workgroupBarrier()") {
        return Some(code.replace("workgroupBarrier()", "storageBarrier()"));
    }
    let (name, of) = code.strip_prefix("var<workgroup> ")?.split_once(": array<")?;
    let (inner, _) = closed(of, '<', '>')?;
    let [elem, length] = arguments(inner)[..] else { return None };
    // Others than plain numbers stay where they are.
    if elem.starts_with("atomic<") {
        return None;
    }
    arrays.push((name.to_owned(), length.to_owned()));
    Some(format!("@group(1) @binding({}) var<storage, read_write> {name}: array<{elem}>;", arrays.len()))
}

/// A text with elements of an array counted from where the workgroup's own begin.
fn within(text: &str, array: &str) -> String {
    let mut all = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&format!("{array}[")) {
        let (before, found) = rest.split_at(at);
        let inner = &found[array.len() + 1..];
        all += before;
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        match closed(inner, '[', ']').filter(|_| !all.ends_with(part)) {
            Some((index, behind)) => {
                all += &format!("{array}[{array}_from + ({})]", within(index, array));
                rest = behind;
            }
            None => {
                all += &found[..array.len() + 1];
                rest = inner;
            }
        }
    }
    all + rest
}

/// A text in which calls that follow each other, of the same function, are one call in a loop: compilers write out every call, and take
/// minutes for hundreds of them.
fn joined(text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut all = String::with_capacity(text.len());
    let mut at = 0;
    while at < lines.len() {
        let Some(first) = Call::on(lines[at]) else {
            all += lines[at];
            at += 1;
            continue;
        };
        // Lines for another compiler are empty ones in between.
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

/// A call of a function that makes a matrix, alone on its line but for where the matrix is.
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

/// An entry point's size, and the names that it gives to what tells where a thread is.
#[derive(Default)]
struct Entry {
    threads: String,
    group: String,
    groups: String,
    thread: String,
    /// Builtins of subgroups, which are counted off from the threads, with the operator that does it.
    counted: Vec<(String, char)>,
}

/// A line of an entry point's head: its body begins with where the thread's places are.
fn entered(code: &str, entry: &mut Option<Entry>) -> String {
    if let Some((_, size)) = code.split_once("@workgroup_size(") {
        let threads = closed(size, '(', ')').map_or_else(String::new, |(size, _)| size.to_owned());
        *entry = Some(Entry { threads, ..Entry::default() });
    }
    let Some(known) = entry else { return code.to_owned() };
    if let Some((builtin, rest)) = code.split_once("@builtin(").and_then(|(_, parameter)| parameter.split_once(')')) {
        let name = rest.split(':').next().unwrap_or_default().trim().to_owned();
        match builtin {
            "workgroup_id" => known.group = name,
            "num_workgroups" => known.groups = name,
            "local_invocation_index" => known.thread = name,
            "subgroup_id" => known.counted.push((name, '/')),
            "subgroup_invocation_id" => known.counted.push((name, '%')),
            _ => {}
        }
        if builtin.starts_with("subgroup_") {
            return String::new();
        }
    }
    if !code.trim_end().ends_with(") {") {
        return code.to_owned();
    }
    let Entry { threads, group, groups, thread, counted } = entry.take().unwrap_or_default();
    let number = format!("({group}.z * {groups}.y + {group}.y) * {groups}.x + {group}.x");
    let counted = counted.iter().map(|(name, how)| format!(" let {name} = {thread} {how} {LANES}u;"));
    let counted: String = counted.collect();
    format!(
        "{code} place_arrays({number}); place_matrices(({number}) * ({threads}) + {thread}, {thread} % {LANES}u);{counted}"
    )
}

/// What was found so far.
struct Found<'a> {
    text: &'a str,
    kept: u32,
    depth: Option<u32>,
    functions: BTreeSet<String>,
}

/// A matrix by its type: its role, and the depth of the product that it is a factor of.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Matrix<'a> {
    role: &'a str,
    depth: u32,
}

impl<'a> Matrix<'a> {
    /// `coop_mat16x16<f16, A>`
    fn of(name: &'a str) -> Option<Matrix<'a>> {
        let (size, inner) = name.strip_suffix('>')?.split_once('<')?;
        match (size, &arguments(inner)[..]) {
            ("coop_mat16x16", [_, role @ ("A" | "B" | "C")]) => Some(Matrix { role, depth: 16 }),
            ("coop_mat32x16", ["i8", role @ "A"]) | ("coop_mat16x32", ["i8", role @ "B"]) => {
                Some(Matrix { role, depth: BYTES_DEPTH })
            }
            _ => None,
        }
    }

    /// Vectors of four that a thread keeps of it.
    fn vectors(self) -> u32 {
        match self.role {
            "A" => self.depth / 4,
            "B" => self.depth * 2,
            _ => 2,
        }
    }
}

/// One statement on a line.
fn statement(code: &str, found: &mut Found) -> Option<String> {
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

impl Found<'_> {
    /// What makes a matrix, and the call that makes it at `@`.
    fn value<'r>(&mut self, right: &'r str) -> Option<(Matrix<'r>, String)> {
        let result = Matrix { role: "C", depth: 16 };
        if let Some(name) = right.strip_suffix("()") {
            return (Matrix::of(name)? == result).then(|| (result, "zero_matrix(@);".to_owned()));
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
            let matrix = Matrix::of(name)?;
            // All factors of a text have one depth.
            if matrix.role != "C" && *self.depth.get_or_insert(matrix.depth) != matrix.depth {
                return None;
            }
            let name = self.function("load", array, matrix, layout)?;
            return rest.is_empty().then(|| (matrix, format!("{name}(@, {first}, {stride});")));
        }
        None
    }

    /// The function that moves a thread's part of a matrix from or to an array, by rows or columns that lie one after the other.
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

    /// How many numbers an element of an array has, and the numbers' type.
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

/// What another thread of the subgroup hands over, through the last of what each keeps; by all threads of a workgroup together.
const EXCHANGE: &str = "\
fn exchanged(x: f32, distance: u32) -> f32 {
    kept_matrices[first_kept + KEPT_VECTORS - 1u] = vec4<f32>(x);
    storageBarrier();
    let other = ((first_kept / KEPT_VECTORS) ^ distance) * KEPT_VECTORS;
    let found = kept_matrices[other + KEPT_VECTORS - 1u].x;
    storageBarrier();
    return found;
}
";

/// What every text needs.
const SHARED: &str = "\
@group(1) @binding(0) var<storage, read_write> kept_matrices: array<vec4<f32>>;
var<private> first_kept: u32;
var<private> matrix_lane: u32;
// One, which compilers cannot know: loops that they write out are too long for them.
var<private> one_matrix: u32;
fn place_matrices(thread: u32, lane: u32) {
    first_kept = thread * KEPT_VECTORS;
    matrix_lane = lane;
    one_matrix = min(arrayLength(&kept_matrices), 1u);
}
fn zero_matrix(to: u32) { kept_matrices[first_kept + to] = vec4<f32>(); kept_matrices[first_kept + to + 1u] = vec4<f32>(); }
fn multiply_matrices(to: u32, a: u32, b: u32, c: u32) {
    var left = kept_matrices[first_kept + c];
    var right = kept_matrices[first_kept + c + 1u];
    for (var i = 0u; i < MATRIX_DEPTH / 4u * one_matrix; i++) {
        let row = kept_matrices[first_kept + a + i];
        let at = first_kept + b + i * 8u;
        left += row.x * kept_matrices[at] + row.y * kept_matrices[at + 2u] + row.z * kept_matrices[at + 4u] + row.w * kept_matrices[at + 6u];
        right += row.x * kept_matrices[at + 1u] + row.y * kept_matrices[at + 3u] + row.z * kept_matrices[at + 5u] + row.w * kept_matrices[at + 7u];
    }
    kept_matrices[first_kept + to] = left;
    kept_matrices[first_kept + to + 1u] = right;
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_become_places_and_lines_keep_their_numbers() {
        let native = "\
enable f16; enable wgpu_cooperative_matrix;
var<workgroup> tile: array<vec4<f16>, 64>; // coopLoadT<…> is explained here
var<workgroup> squares: array<f32, 256>;
@compute @workgroup_size(64)
fn f(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    var sum = coop_mat16x16<f32, C>();
        let a = coopLoadT<coop_mat16x16<f16, A>>(&tile[(row + 16u) * ROW], ROW);
        let b = coopLoad<coop_mat16x16<f16, B>>(&tile[max(x, 1u)], ROW);
        sum = coopMultiplyAdd(a, b, sum);
    coopStoreT(sum, &squares[subgroup * 256u], 16u);
    workgroupBarrier();
}
";
        let Imitated { wgsl, buffers } = imitated(native).expect("known words");
        assert_eq!(buffers, Imitation { kept: 2 + 4 + 32, arrays: 2 });
        let lines: Vec<&str> = wgsl.lines().collect();
        assert_eq!(lines[0], "enable f16; ");
        assert_eq!(
            lines[1].split("//").next(),
            Some("@group(1) @binding(1) var<storage, read_write> tile: array<vec4<f16>>;")
        );
        assert_eq!(lines[8], "");
        let number = "(group.z * groups.y + group.y) * groups.x + group.x";
        let places = format!("place_arrays({number}); place_matrices(({number}) * (64) + thread, thread % 32u);");
        assert_eq!(lines[9], format!(") {{ {places} let subgroup = thread / 32u;"));
        let body = [
            "    let sum = 0u; zero_matrix(sum);",
            "        let a = 2u; load_A_tile_rows(a, (row + 16u) * ROW, ROW);",
            "        let b = 6u; load_B_tile_columns(b, max(x, 1u), ROW);",
            "        multiply_matrices(sum, a, b, sum);",
            "    store_C_squares_rows(sum, subgroup * 256u, 16u);",
            "    storageBarrier();",
            "}",
            "const KEPT_VECTORS: u32 = 38u;",
            "const MATRIX_DEPTH: u32 = 16u;",
        ];
        assert_eq!(lines[10..19], body);
        assert_eq!(wgsl.matches("fn load_").count() + wgsl.matches("fn store_").count(), 3);
        assert!(
            wgsl.contains("= f32(kept_matrices[first_kept + matrix + 0u][0u])")
                && wgsl.contains("squares[squares_from + (first")
        );
        assert!(
            wgsl.ends_with("fn place_arrays(group: u32) { tile_from = group * (64); squares_from = group * (256); }\n")
        );
    }

    #[test]
    fn bytes_are_taken_from_words_and_depths_do_not_mix() {
        let text = "\
enable wgpu_cooperative_matrix;
var<workgroup> tile: array<vec4<u32>, 64>;
    var sum = coop_mat16x16<i32, C>();
        let a = coopLoadT<coop_mat32x16<i8, A>>(&tile[0u], 4u);
        let b = coopLoad<coop_mat16x32<i8, B>>(&tile[32u], 4u);
        sum = coopMultiplyAdd(a, b, sum);
";
        let Imitated { wgsl, buffers } = imitated(text).expect("known words");
        assert_eq!(buffers, Imitation { kept: 2 + 8 + 64, arrays: 1 });
        assert!(wgsl.contains("const MATRIX_DEPTH: u32 = 32u;") && wgsl.contains("% 4u * 8u, 8u)"), "{wgsl}");
        let mixed = format!("{text}        let c = coopLoadT<coop_mat16x16<f16, A>>(&tile[0u], 4u);\n");
        assert!(imitated(&mixed).is_err());
    }

    #[test]
    fn calls_in_a_row_are_one_in_a_loop() {
        let lines = "    multiply_matrices(c, a, b, c);\n\n    multiply_matrices(d, a, b, d);\nend();\n";
        let loops = " { var calls = array<vec4<u32>, 2>(vec4<u32>(c, a, b, c), vec4<u32>(d, a, b, d)); \
                     for (var i = 0u; i < 2u * one_matrix; i++) \
                     { let call = calls[i]; multiply_matrices(call.x, call.y, call.z, call.w); } }\n\n\nend();\n";
        assert_eq!(joined(lines), loops);
        let others = "    multiply_matrices(c, a, b, c);\n    zero_matrix(c);\n";
        assert_eq!(joined(others), others);
    }

    #[test]
    fn what_is_not_known_is_named() {
        for line in [
            "let a = coopLoadT<coop_mat16x16<f16, A>>(pointer, 4u);",
            "let a = coopLoadT<coop_mat16x16<f16, A>>(&undeclared[0u], 4u);",
            "sum = coopMultiplyAdd(a, b, coopMultiplyAdd(b, a, sum));",
            "var c = coop_mat8x8<f32, C>();",
            "let c = coopTranspose(a);",
            "if coopTranspose(a) {",
        ] {
            let refused = imitated(&format!("fn f() {{\n  {line}\n}}\n")).map(|_| ()).expect_err(line);
            assert!(refused.contains(line), "{refused}");
        }
    }
}
