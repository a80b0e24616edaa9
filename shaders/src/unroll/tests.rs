//! Tests of the forms in which loops are written out.

use super::*;

/// Returns a text for the compiler of a GPU that guards loops.
fn unrolled(text: &str) -> (String, usize) {
    super::unrolled(text, WrittenLoops::Long)
}

#[test]
fn a_processor_has_shorter_loops() {
    let text = format!("for (var i = 0u; i < 8u; i++) {{ {} }}", "g(i); ".repeat(100));
    let blocks = |loops| super::unrolled(&text, loops).0.matches("let i = ").count();
    // An iteration has 500 tokens: all eight fit into 8192, two into 1024.
    assert_eq!([WrittenLoops::Long, WrittenLoops::Short, WrittenLoops::None].map(blocks), [8, 2, 0]);
}

#[test]
fn few_iterations_are_blocks() {
    for (text, want) in [
        (
            "const N: u32 = 2u;\nfn f() {\n    for (var i = 0u; i < N; i++) {\n        a[i] = i; // comment\n    }\n}\n",
            "const N: u32 = 2u;\nfn f() {\n    { let i = 0u; a [ i ] = i ; } { let i = 1u; a [ i ] = i ; }\n\n\n}\n",
        ),
        (
            "for (var i = 0u; i < 2u; i++) { for (var j = i; j < 2u; j++) { f(i, j); } }",
            "{ let i = 0u;  { let j = 0u; f ( i , j ) ; } { let j = 1u; f ( i , j ) ; }  } \
             { let i = 1u;  { let j = 1u; f ( i , j ) ; }  }",
        ),
        (
            "for (var h = 4u; h > 0u; h /= 2u) { f(h << 1u); }",
            "{ let h = 4u; f ( h << 1u ) ; } { let h = 2u; f ( h << 1u ) ; } { let h = 1u; f ( h << 1u ) ; }",
        ),
        ("for (var i = 2u; i < 2u; i++) { f(); }", ""),
        ("for (var i: u32 = 0u; i < 1u; i++) { f(); }", "{ let i = 0u; f ( ) ; }"),
    ] {
        assert_eq!(unrolled(text).0, want, "{text}");
    }
}

#[test]
fn many_short_iterations_share_a_guard() {
    let (text, count) =
        unrolled("for (var i = 1u; i < 1000u; i += 2u) { f(i); g(i, i); h(i, i, i); f(i); g(i, i); h(i, i, i); }");
    assert_eq!(count, 1);
    // 16 iterations at once, 31 times, and 4 of 500 are left.
    assert!(text.starts_with("for (var i_ = 1u; i_ < 993u; i_ += 32u) { { let i = i_ + 0u; f ( i )"), "{text}");
    assert_eq!((text.matches("let i = i_ + ").count(), text.matches("let i = ").count()), (16, 20));
    assert!(text.contains("{ let i = 993u; ") && text.contains("{ let i = 999u; "), "{text}");
}

#[test]
fn long_iterations_with_barriers_are_written_out_for_local_arrays() {
    let long = format!("workgroupBarrier(); {}", "g(0u); ".repeat(100));
    let without = format!("for (var i = 0u; i < 8u; i++) {{ {} }}", "g(i); ".repeat(100));
    assert_eq!(unrolled(&without).0.matches("let i = ").count(), 8, "without a barrier");
    for (index, want) in [
        ("sums[i] = 1.0;", true),
        ("let s = 4u * i; sums[s + 1u] = 1.0;", true),
        ("sums[0][i] = 1.0;", true),
        ("(*sums)[i] = 1.0;", true),
        ("tile[i] = 1.0;", false),
        ("tile[0][i] = sums[0];", false),
        ("sums[x] = f32(i);", false),
    ] {
        let text = format!(
            "var<workgroup> tile: array<f32, 8>; fn f() {{ for (var i = 0u; i < 8u; i++) {{ {long}{index} }} }}"
        );
        assert_eq!(unrolled(&text).1 == 1, want, "{index}");
    }
}

#[test]
fn a_start_at_run_time_has_a_condition_for_each_iteration() {
    let text = "for (var i = lane; i < 6u; i += 4u) { f(i); }";
    let want = "{ var i_ = lane; if i_ < 6u { { let i = i_; f ( i ) ; } i_ += 4u; if i_ < 6u { { let i = i_; f ( i ) ; } } } }";
    assert_eq!(unrolled(text), (want.to_owned(), 1));
}

#[test]
fn a_bound_at_run_time_leaves_a_loop_of_the_rest() {
    let rest = "for (; i_ < iend_; i_ += 1u) { { let i = i_; f ( i ) ; } } } ";
    for (text, head, tail) in [
        (
            "for (var i = 0u; i < min(n, 9u); i++) { f(i); }",
            "{ var i_: u32 = 0u; let iend_: u32 = min ( n , 9u ); for (; i_ < iend_ && iend_ - i_ > 3u; i_ += 4u) { \
             { let i = i_ + 0u; f ( i ) ; } { let i = i_ + 1u; f ( i ) ; } { let i = i_ + 2u; f ( i ) ; } ",
            rest,
        ),
        // A name with two declarations has no value.
        (
            "const N = 4u; fn g(N: u32) { for (var i = 0u; i < N; i++) { f(i); } }",
            "const N = 4u; fn g(N: u32) { { var",
            "}",
        ),
        (
            "for (var i = lane; i < 1024u; i += 4u) { f(i); }",
            "{ var i_: u32 = lane; let iend_: u32 = 1024u; ",
            "} } } ",
        ),
        ("for (var i: u32 = a; i < n; i++) { f(i); }", "{ var i_: u32 = a; ", rest),
        ("for (var i = 0u; i < (n + 1u) * m; i++) { f(i); }", "{ var i_: u32 = 0u; ", rest),
    ] {
        let (found, count) = unrolled(text);
        assert!(count == 1 && found.starts_with(head) && found.trim_end().ends_with(tail.trim_end()), "{found}");
    }
    let long = format!("for (var i = 0u; i < n; i++) {{ {} }}", "f(i); ".repeat(200));
    assert_eq!(unrolled(&long).1, 0, "two iterations are too long");
}

#[test]
fn other_loops_stay() {
    for text in [
        "for (var i = 0u; i < 4u; i++) { if a { break; } }",
        "for (var i = 0u; i < 4u; i++) { if a { continue; } }",
        "for (var i = 0u; i < 4u; i++) { i += 1u; }",
        "for (var i = 0u; i < 4u; i++) { g(&i); }",
        "for (var i = 0u; i < 4u; i++) { let i = 2u; }",
        "for (var i = a; i < n; i++) { f(i); }",
        "for (var i = 0u; i < sizes[0]; i++) { f(i); }",
        "for (var i = 0u; i < n; i++) { n += f(i); }",
        "for (var i = 0u; i < n / i; i++) { f(i); }",
        "for (var i = 0u; i < atomicLoad(&n); i++) { f(i); }",
        "for (var i = 0u; i < shrinking(n); i++) { f(i); }",
        "for (var i = 0u; i < 2u + *p; i++) { f(i); }",
        "let p = &n; for (var i = 0u; i < n; i++) { *p = 0u; }",
        "var<private> n: u32; fn g() { for (var i = 0u; i < n; i++) { shrink(); } }",
        "var<storage, read_write> sizes: Sizes; fn g() { for (var i = 0u; i < sizes.n; i++) { shrink(); } }",
        "for (var i = 0; i < 4; i++) { f(i); }",
        "for (var i = lane; i < 4294967295u; i += 4294967295u) { f(i); }",
        "for (var i = 0u; i < 4u; i *= 2u) { f(i); }",
        "for (var i = 3u; i >= 0u; i--) { f(i); }",
        "for (var i = 0u; i < 4u; i++) { unclosed",
        "while a { f(); }",
    ] {
        assert_eq!(unrolled(text), (text.to_owned(), 0));
    }
    let inner = unrolled("for (var i = 0u; i < 2u; i++) { loop { break; } switch i { default: {} } }").0;
    assert_eq!(inner.matches("let i = ").count(), 2);
}

#[test]
fn constants_have_no_order() {
    let text = "fn f() { for (var i = 0u; i < B; i++) { g(i); } } const B = A * 2u; const A: u32 = 1;";
    assert!(unrolled(text).0.contains("let i = 1u"));
}

#[test]
fn a_bound_at_run_time_copies_no_call_with_a_loop() {
    let text = |inner: &str| {
        format!("fn g() {{ {inner} }} fn h() {{ g(); }} fn f(n: u32) {{ for (var i = 0u; i < n; i++) {{ h(); }} }}")
    };
    for (inner, want) in [("x = 1u;", 1), ("workgroupBarrier();", 0), ("while x < 2u { x++; }", 0)] {
        assert_eq!(unrolled(&text(inner)).1, want, "{inner}");
    }
}
