//! Translation of subgroup matrices to the syntax of browsers. It is a pure source transformation.
//!
//! Kernels use naga's syntax, in which a load or store names its first element. Chromium's takes the array and the index of that
//! element. Roles, rows, strides and the multiplication have the same meaning in both. Strides count elements of the array, of any
//! type. The rest of a kernel source is unchanged, and its lines keep their numbers.
//!
//! Matrices of 8-bit integers use the same syntax, although naga lacks them: `coop_mat32x16<i8, A>` has 32 columns and 16 rows.

/// First statement of a kernel source in naga's syntax.
pub const NATIVE: &str = "enable wgpu_cooperative_matrix;";
/// Chromium's equivalent. Its check of uniform control flow is disabled, because it rejects kernels that it cannot prove uniform.
const CHROMIUM: &str =
    "enable chromium_experimental_subgroup_matrix; diagnostic(off, chromium.subgroup_matrix_uniformity);";

/// Chromium's name of the device feature.
pub const MATRICES: &str = "chromium-experimental-subgroup-matrix";

/// Chromium's names for row-major and column-major layouts. The names of naga's row-major functions end in T.
const ROWS: &str = "row_major";
const COLUMNS: &str = "col_major";

/// A word of naga's syntax, and its conversion of the code that follows. The conversion returns the new code and the rest.
type Rule = (&'static str, fn(&str) -> Option<(String, &str)>);

const RULES: [Rule; 9] = [
    (NATIVE, |rest| Some((CHROMIUM.to_owned(), rest))),
    ("coop_mat16x16<", |rest| matrix(rest, "16, 16", &["A", "B", "C"])),
    ("coop_mat32x16<", |rest| matrix(rest, "32, 16", &["A"])),
    ("coop_mat16x32<", |rest| matrix(rest, "16, 32", &["B"])),
    ("coopLoadT<", |rest| load(rest, ROWS)),
    ("coopLoad<", |rest| load(rest, COLUMNS)),
    ("coopStoreT(", |rest| store(rest, ROWS)),
    ("coopStore(", |rest| store(rest, COLUMNS)),
    ("coopMultiplyAdd(", |rest| Some(("subgroupMatrixMultiplyAccumulate(".to_owned(), rest))),
];

/// Converts a kernel source for a browser.
///
/// # Errors
/// A line with an unknown use of matrices.
pub fn in_a_browser(text: &str) -> Result<String, String> {
    let mut all = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (code, comment) = line.split_at(line.find("//").unwrap_or(line.len()));
        let spelled = spelled(code).filter(|code| !names(code).any(|name| name.starts_with("coop")));
        all += &spelled.ok_or_else(|| format!("no words of browsers for the matrices of `{}`", code.trim()))?;
        all += comment;
    }
    Ok(all)
}

/// Converts a piece of code. `None` if a word of naga's syntax appears in an unknown form.
fn spelled(code: &str) -> Option<String> {
    let found = RULES.iter().filter_map(|(word, rule)| Some((code.find(word)?, word.len(), rule)));
    let Some((at, length, rule)) = found.min_by_key(|(at, ..)| *at) else { return Some(code.to_owned()) };
    let (new, rest) = rule(&code[at + length..])?;
    Some(format!("{}{new}{}", &code[..at], spelled(rest)?))
}

/// Converts `f16, A>` with this number of columns and rows. `None` for a role outside `roles`.
fn matrix<'a>(rest: &'a str, size: &str, roles: &[&str]) -> Option<(String, &'a str)> {
    let (inner, rest) = closed(rest, '<', '>')?;
    let [elem, role] = arguments(inner)[..] else { return None };
    let side = match role {
        _ if !roles.contains(&role) => return None,
        "A" => "left",
        "B" => "right",
        _ => "result",
    };
    Some((format!("subgroup_matrix_{side}<{elem}, {size}>"), rest))
}

/// Converts `TYPE>(&array[first], stride)`.
fn load<'a>(rest: &'a str, layout: &str) -> Option<(String, &'a str)> {
    let (matrix, rest) = closed(rest, '<', '>')?;
    let (inner, rest) = closed(rest.strip_prefix('(')?, '(', ')')?;
    let [from, stride] = arguments(inner)[..] else { return None };
    let (array, first) = element(from)?;
    Some((format!("subgroupMatrixLoad<{}, {layout}>(&{array}, {first}, {stride})", spelled(matrix)?), rest))
}

/// Converts `value, &array[first], stride)`.
fn store<'a>(rest: &'a str, layout: &str) -> Option<(String, &'a str)> {
    let (inner, rest) = closed(rest, '(', ')')?;
    let [value, to, stride] = arguments(inner)[..] else { return None };
    let (array, first) = element(to)?;
    Some((format!("subgroupMatrixStore<{layout}>(&{array}, {first}, {value}, {stride})"), rest))
}

/// Splits `&array[first]` into the array and the index.
pub fn element(pointer: &str) -> Option<(&str, &str)> {
    let (array, rest) = pointer.strip_prefix('&')?.split_once('[')?;
    let (first, rest) = closed(rest, '[', ']')?;
    (rest.is_empty() && names(array).eq([array])).then_some((array, first))
}

/// Splits at the bracket that closes an already open one. Returns the code before and after it.
pub fn closed(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == open) - i32::from(c == close);
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

/// Returns the names and numbers in a piece of code.
pub fn names(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Splits at commas outside of brackets.
pub fn arguments(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut all) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                all.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(text[from..].trim());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_its_counterpart() {
        let native = "\
enable f16; enable wgpu_cooperative_matrix; // coopLoadT<…> is explained here
    var sum = coop_mat16x16<f32, C>();
        let a = coopLoadT<coop_mat16x16<f16, A>>(&a_tile[(row + 16u) * A_ROW + max(d, 1u)], A_ROW);
        let b = coopLoad<coop_mat16x16<f16, B>>(&stage[offsets[col] * WIDE + x], WIDE);
        sum = coopMultiplyAdd(a, b, coopMultiplyAdd(b, a, sum));
    coopStoreT(sum, &squares[square], 16u);
    coopStore(sum, &squares[square], 16u);
        let c = coopLoadT<coop_mat32x16<i8, A>>(&words[row * ROW], ROW);
        let d = coopLoad<coop_mat16x32<i8, B>>(&words[col * ROW], ROW);
";
        let browser = "\
enable f16; enable chromium_experimental_subgroup_matrix; diagnostic(off, chromium.subgroup_matrix_uniformity); \
// coopLoadT<…> is explained here
    var sum = subgroup_matrix_result<f32, 16, 16>();
        let a = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>(&a_tile, (row + 16u) * A_ROW + max(d, 1u), A_ROW);
        let b = subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, col_major>(&stage, offsets[col] * WIDE + x, WIDE);
        sum = subgroupMatrixMultiplyAccumulate(a, b, subgroupMatrixMultiplyAccumulate(b, a, sum));
    subgroupMatrixStore<row_major>(&squares, square, sum, 16u);
    subgroupMatrixStore<col_major>(&squares, square, sum, 16u);
        let c = subgroupMatrixLoad<subgroup_matrix_left<i8, 32, 16>, row_major>(&words, row * ROW, ROW);
        let d = subgroupMatrixLoad<subgroup_matrix_right<i8, 16, 32>, col_major>(&words, col * ROW, ROW);
";
        assert_eq!(in_a_browser(native).as_deref(), Ok(browser));
    }

    #[test]
    fn what_no_rule_knows_is_named_and_never_passed_on() {
        for line in [
            "let a = coopLoadT<coop_mat16x16<f16, A>>(pointer, 4u);",
            "let a = coopLoadT<coop_mat16x16<f16, A>>(&rows[1u].x, 4u);",
            "let a = coopLoadT<coop_mat16x16<f16, A>>(&a[0u]);",
            "let a = coopLoadT<coop_mat16x16<f16, A>>(&a[0u],",
            "coopStoreT(a, &b[0u]);",
            "var c = coop_mat16x16<f32, D>();",
            "var c = coop_mat8x8<f32, C>();",
            "let b = coopLoad<coop_mat32x16<i8, B>>(&a[0u], 4u);",
            "let c = coopTranspose(a);",
        ] {
            let refused = in_a_browser(&format!("fn f() {{\n  {line}\n}}\n")).expect_err(line);
            assert!(refused.contains(line), "{refused}");
        }
    }
}
