//! Plans: reflection, pairs of bindings, sizes and launches, and messages for all that cannot be.

use parallax_lab::{BindingPoint, LabError, Plan, Request, STACK, Source, bindings};

use crate::{request, text};

const DOUBLE: &str = "if i < arrayLength(&y) { y[i] = 2.0 * x[i]; }";

fn point(binding: u32) -> BindingPoint {
    BindingPoint { group: 0, binding }
}

/// A file of `numpy.save`.
fn npy(descr: &str, length: usize, bytes: &[u8]) -> Source {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({length},), }}");
    Source::File([b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), bytes].concat())
}

#[test]
fn a_plan_shows_bindings_sizes_and_launches() {
    let vectors = text("if i < arrayLength(&y) { y[i] = x[i] + x[i]; }").replace("array<f32>", "array<vec4<f32>>");
    let plan = Plan::new(request(&text(DOUBLE), &vectors)).expect("both match");
    assert_eq!(plan.grids, [[64, 1, 1], [16, 1, 1]], "one thread for each element of either type");
    let rows = bindings(&plan);
    let shown: Vec<_> = rows.iter().map(|row| (row.kind, &*row.type_name, row.elements, &*row.source)).collect();
    let both = "array<f32>; in B array<vec4<f32>>";
    assert_eq!(shown, [("read", both, Some(4096), "seeded"), ("read_write", both, Some(4096), "seeded")]);
    assert_eq!(rows[0].size, "16.4 kB");
}

#[test]
fn every_buffer_type_of_wgsl_has_a_layout() {
    let declared = "enable f16;\n\
        struct Part { place: vec3<f32>, mass: f32, turn: mat3x3<f32>, tag: vec2<f16> }\n\
        struct All { head: u32, count: atomic<i32>, parts: array<Part> }\n\
        struct Settings { n: u32, scale: f32 }\n\
        override WIDTH: u32 = 8;\n\
        @group(0) @binding(0) var<uniform> settings: Settings;\n\
        @group(0) @binding(3) var<storage, read_write> all: All;\n\
        @group(1) @binding(0) var<storage, read> few: array<array<i32, 3>, 5>;\n\
        var<workgroup> tile: array<f32, 32>;\n\
        @compute @workgroup_size(WIDTH, 2) fn main() {\n\
          tile[0] = settings.scale; all.head = settings.n + u32(few[1][2]); all.parts[0].mass = tile[0];\n\
        }\n\
        @compute @workgroup_size(1) fn other() {}\n";
    let mut request = request(declared, declared);
    let several = Plan::new(request.clone()).expect_err("two entry points");
    assert_eq!(several.to_string(), "A has several compute entry points, name one of them: main, other");
    request.a.entry = Some("main".to_owned());
    request.b.entry = Some("main".to_owned());
    let plan = Plan::new(request).expect("valid");
    let program = &plan.programs[0];
    assert_eq!((program.workgroup, program.shared_bytes, program.half), ([8, 2, 1], 128, true));
    let rows: Vec<_> = plan.bindings.iter().map(|b| (b.point().to_string(), b.bytes, b.elements)).collect();
    // Part: 16 bytes, three columns of 16, then four bytes, to a multiple of 16.
    let want = [("0.0", 8, None), ("0.3", 16 + 80 * 4096, Some(4096)), ("1.0", 60, None)];
    assert_eq!(rows, want.map(|(point, bytes, elements)| (point.to_owned(), bytes, elements)));
    assert_eq!(bindings(&plan)[1].source, "zeros", "atomics begin with zeros");
}

#[test]
fn files_and_lists_fill_bindings() {
    let numbers: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let mut request = request(&text(DOUBLE), &text(DOUBLE));
    request.sources.insert(point(0), npy("<f4", 6, &numbers));
    request.sources.insert(point(1), Source::Values(vec![1.0, -1.0]));
    request.lengths.insert(point(1), 130);
    let plan = Plan::new(request).expect("valid");
    assert_eq!(plan.bindings.iter().map(|b| b.bytes).collect::<Vec<_>>(), [24, 520]);
    assert_eq!(plan.grids, [[3, 1, 1]; 2]);
}

#[test]
fn overrides_have_values_of_the_kernel_source_or_of_the_request() {
    let sized =
        "override WIDTH: u32 = 64;\n@id(7) override SCALE: f32;\noverride HALF = WIDTH / 2u;\noverride FAST = true;\n"
            .to_owned()
            + &text("if FAST { y[i] = SCALE * x[i] + f32(HALF); }").replace("size(64)", "size(WIDTH)");
    let mut asked = request(&sized, &sized);
    let missing = Plan::new(asked.clone()).expect_err("SCALE has no value").to_string();
    assert!(missing.contains("A: ") && missing.contains('7'), "{missing}");
    for side in [&mut asked.a, &mut asked.b] {
        side.overrides.insert("7".to_owned(), 2.5);
    }
    asked.b.overrides.insert("WIDTH".to_owned(), 128.0);
    let plan = Plan::new(asked.clone()).expect("valid");
    assert_eq!(plan.grids, [[64, 1, 1], [32, 1, 1]]);
    let shown: Vec<_> = plan.programs[1].overrides.iter().map(|o| (&*o.key, &*o.name, &*o.type_name)).collect();
    let want = [("WIDTH", "WIDTH", "u32"), ("7", "SCALE", "f32"), ("HALF", "HALF", "u32"), ("FAST", "FAST", "bool")];
    assert_eq!(shown, want);
    let defaults: Vec<_> = plan.programs[1].overrides.iter().map(|o| (o.default.as_deref(), o.value)).collect();
    let want = [(Some("64"), Some(128.0)), (None, Some(2.5)), (Some("computed"), None), (Some("true"), None)];
    assert_eq!(defaults, want);
    for (key, value, part) in [
        ("TILE", 1.0, "B has no override `TILE`; it has WIDTH, 7, HALF, FAST"),
        ("WIDTH", 1.5, "B, override `WIDTH`: 1.5 is no u32"),
        ("WIDTH", -1.0, "B, override `WIDTH`: -1 is no u32"),
        ("WIDTH", 0.0, "B: "),
        ("WIDTH", f64::from(u32::MAX), "B"),
        ("7", f64::NAN, "B, override `7`: NaN is no f32"),
        ("FAST", 2.0, "B, override `FAST`: 2 is no bool"),
    ] {
        let mut wrong = asked.clone();
        wrong.b.overrides.insert(key.to_owned(), value);
        let error = Plan::new(wrong).expect_err(part).to_string();
        assert!(error.contains(part), "{error} lacks {part}");
    }
    let mut divided =
        request(&text("y[i] = x[i];"), &(text("y[i] = f32(Q);") + "override D: u32 = 0u; override Q = 8u / D;"));
    let error = Plan::new(divided.clone()).expect_err("division by zero").to_string();
    assert!(error.starts_with("B: "), "{error}");
    divided.b.overrides.insert("D".to_owned(), 2.0);
    Plan::new(divided).expect("a divisor of two");
}

/// Change of a request.
type Change = fn(&mut Request);

#[test]
fn a_request_that_cannot_run_names_the_fault() {
    let good = text(DOUBLE);
    let none: Change = |_| {};
    let cases: Vec<(String, Change, &str)> = vec![
        (text("y[i] = ;"), none, "B, line 6: "),
        (text("y[i] = 1u;"), none, "B, line 6: "),
        (good.replace("@compute", ""), none, "B, line 4: "),
        ("// nothing".to_owned(), none, "B has no compute entry point; it has none"),
        (good.clone(), |r| r.a.entry = Some("mian".to_owned()), "A has no compute entry point `mian`; it has main"),
        (text("y[i] = 2.0;").replace("@binding(1)", "@binding(2)"), none, "binding 0.1 does not match: "),
        (
            good.replace("read_write> y: array<f32>", "read_write> y: array<u32>")
                .replace("2.0 * x", "u32(x")
                .replace("[i];", "[i]);"),
            none,
            "read_write `y`: array<f32> in A, read_write `y`: array<u32> in B",
        ),
        (good.replace("storage, read>", "storage, read_write>"), none, "binding 0.0 does not match: read `x`"),
        (good.replace("array<f32>", "array<vec3<f32>>"), none, "binding 0.0 does not match"),
        (good.replace("workgroup_size(64)", "workgroup_size(1000000)"), none, "B"),
        (good.replace("workgroup_size(64)", "workgroup_size(0)"), none, "B"),
        (
            good.replace("array<f32>;\n@compute", "array<array<f32, 65535>, 65535>;\n@compute")
                .replace("y[i] =", "y[i][0] ="),
            none,
            "B",
        ),
        (format!("{good}{}", " ".repeat(1 << 16)), none, "the limit is 65536"),
        (
            good.replace("var<storage, read> x: array<f32>", "var x: texture_2d<f32>")
                .replace("x[i]", "textureLoad(x, vec2<u32>(i), 0).r"),
            none,
            "B, binding 0.0 `x`: it is no buffer",
        ),
        (good.replace("64)", "W)") + "override W: u32;", none, "B: "),
        (good.clone(), |r| r.elements = 0, "the number of elements is 0: it must be at least 1"),
        (good.clone(), |r| r.elements = u64::MAX, "binding 0.0: it has 18446744073709551615 bytes, the limit is"),
        (good.clone(), |r| r.elements = 1 << 40, "binding 0.0: it has 4398046511104 bytes, the limit is 1073741824"),
        (good.clone(), |r| r.b.workgroups = Some([1, 0, 1]), "each dimension must be at least 1"),
        (good.clone(), |r| r.tolerance = Some(f64::NAN), "the tolerance is NaN"),
        (good.clone(), |r| r.budget = 1e9, "the budget is 1000000000"),
        (good.clone(), |r| r.lengths.extend([(point(7), 1)]), "there is no binding 0.7; the kernels use 0.0, 0.1"),
        (good.clone(), |r| drop(r.sources.insert(point(0), npy("<f8", 1, &[0; 8]))), "save x.astype('<f4')"),
        (good.clone(), |r| drop(r.sources.insert(point(0), Source::File(vec![1, 2]))), "is not a NumPy array file"),
        (good.clone(), |r| drop(r.sources.insert(point(0), npy("<f4", 0, &[]))), "no whole number of elements"),
    ];
    for (b, change, part) in cases {
        let mut request = request(&good, &b);
        change(&mut request);
        let error = Plan::new(request).expect_err(part).to_string();
        assert!(error.contains(part), "{error} lacks {part}");
    }
}

/// The compiler recurses into operands, branches and declarations.
#[test]
fn deep_kernel_sources_need_no_more_than_the_stack_of_the_lab() {
    let bodies = |part: &str, times: usize| text(&format!("y[i] = {}1.0;", part.repeat(times)));
    let branches = format!("if i == 0u {{ }}{}", " else if i == 1u { }".repeat(3_000));
    let chain = |i: usize| format!("const C{i} = C{};\n", i + 1);
    let chain: String = (0..3_000).map(chain).chain(["const C3000 = 1.0;\n".to_owned()]).collect();
    let doubled = |i: usize| format!("struct S{} {{ a: S{i}, b: S{i} }}\n", i + 1);
    let doubled: String = ["struct S0 { a: f32 }\n".to_owned()].into_iter().chain((0..28).map(doubled)).collect();
    let cases = [
        bodies("-", 15_000),
        bodies("1.0+", 15_000),
        text(&branches),
        chain + &text("y[i] = C0;"),
        text(&format!("y[i] = {}1.0{};", "(".repeat(30_000), ")".repeat(30_000))),
        doubled.clone()
            + &text("y[i] = 1.0;")
                .replace("y: array<f32>", "y: S28")
                .replace("y[i]", "y.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a"),
    ];
    let planned = move || {
        let good = text(DOUBLE);
        cases.map(|b| Plan::new(request(&good, &b)).map_or_else(|error| error.to_string(), |_| "valid".to_owned()))
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(planned).expect("a thread");
    for (found, part) in thread.join().expect("no overflow").iter().zip([
        "",
        "",
        "",
        "",
        "nested too deeply",
        "`S14` has more than 10000 parts",
    ]) {
        assert!(found.contains(part), "{} lacks {part}", &found[..found.len().min(300)]);
    }
}

#[test]
fn kernels_without_an_output_are_refused() {
    let text = "@compute @workgroup_size(1) fn main() {}";
    assert_eq!(Plan::new(request(text, text)), Err(LabError::NoOutput));
}
