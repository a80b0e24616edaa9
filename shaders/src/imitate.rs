//! Emulation of subgroup matrices in plain WGSL, for devices without matrix units. It is a pure source transformation.
//!
//! The emulation is slow. Its only use is that tests check kernels on matrix units on every machine. A matrix becomes a range of a
//! storage buffer in bind group 1, and each operation on it a function call. A thread stores the parts that its share of a GEMM
//! needs, so it never waits for another thread. These are half a row of the result, that row of A, and half of the columns of B.
//! 8-bit integers become floats, whose sums are exact below 2^24.
//!
//! The matrices are in a buffer, because compilers for processors take minutes for private arrays. Arrays in workgroup memory
//! become buffers too, and each workgroup has a range of them. Processors offer 32 KiB, and such kernels use more. Lines keep their
//! numbers.

mod arrays;
mod calls;
mod matrices;

use std::fmt::Write;

use self::arrays::{buffered, within};
use self::calls::joined;
use self::matrices::{Found, statement};
use crate::matrix::{NATIVE, closed, names};

/// Threads of a subgroup.
const LANES: u32 = 32;

/// A kernel source without matrices.
pub struct Imitated {
    /// WGSL.
    pub wgsl: String,
    /// Buffers that it binds.
    pub buffers: Imitation,
}

/// Buffers of bind group 1 where matrices are emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imitation {
    /// Number of 4-vectors per thread in binding 0.
    pub kept: u32,
    /// Number of arrays per workgroup, in the bindings after that.
    pub arrays: u32,
}

/// Converts a kernel source for a device without matrix units.
///
/// # Errors
/// A line with an unknown use of matrices.
pub fn imitated(text: &str) -> Result<Imitated, String> {
    let mut all = String::with_capacity(2 * text.len());
    let mut found = Found::new(text);
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

/// Workgroup size of an entry point, and its names of the position builtins.
#[derive(Default)]
struct Entry {
    threads: String,
    group: String,
    groups: String,
    thread: String,
    /// Subgroup builtins, computed from the thread index, with the operator of the computation.
    counted: Vec<(String, char)>,
}

/// Converts a line of an entry point's head. Its body begins with the thread's positions.
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

/// Value of another thread of the subgroup, exchanged through the last vector of each. All threads of a workgroup call it together.
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

/// Declarations of every emulated kernel source.
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
