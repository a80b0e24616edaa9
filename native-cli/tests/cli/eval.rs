//! `eval`: the user's arrays in, arrays out, or refused.

use npyz::WriterBuilder;
use parallax_ir::Elem;
use parallax_schema::case::CPU_VARIANT;
use parallax_workloads::parse_case;

use crate::{folder, mistake, parallax, save};

#[test]
fn eval_computes_the_users_arrays() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    // All keys equal, so every query sees the mean of the values.
    save(&at("q.npy"), &[1, 1, 3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    save(&at("k.npy"), &[1, 1, 3, 2], &[1.0; 6]);
    save(&at("v.npy"), &[1, 1, 3, 2], &[0.0, 3.0, 3.0, 6.0, 6.0, 9.0]);
    let inputs = ["--input", "q=q.npy", "--input", "k=k.npy", "--input", "v=v.npy", "--output-dir", "out"];
    for (target, variant) in [("cpu", "host"), ("wgpu", "flash"), ("wgpu", "manual")] {
        let case = format!("attention/fwd/b1,h1,s3,d2/f32/{variant}");
        let args = [&["eval", case.as_str(), "--target", target], &inputs[..]].concat();
        let output = parallax(dir.path(), &args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = std::fs::File::open(at("out/out.npy")).expect("the output");
        let npy = npyz::NpyFile::new(std::io::BufReader::new(file)).expect("NumPy's format");
        assert_eq!(npy.shape(), [1, 1, 3, 2]);
        let values: Vec<f32> = npy.into_vec().expect("f32");
        for (got, want) in values.iter().zip([3.0, 6.0, 3.0, 6.0, 3.0, 6.0]) {
            assert!((got - want).abs() < 1e-5, "{target}/{variant}: {values:?}");
        }
    }
}

#[test]
fn eval_refuses_arrays_that_break_what_the_form_asks_for() {
    let dir = folder();
    let save_integers = |name: &str, values: [u32; 3]| {
        let file = std::fs::File::create(dir.path().join(name)).expect("writable");
        let mut writer =
            npyz::WriteOptions::<u32>::new().default_dtype().shape(&[3]).writer(file).begin_nd().expect("header");
        writer.extend(values).expect("values");
        writer.finish().expect("whole");
    };
    save_integers("id.npy", [7, 8, 9]);
    save(&dir.path().join("weight.npy"), &[3], &[1.0; 3]);
    let eval = |target: &str, order: &str, group: &str| {
        let variant = if target == "cpu" { "host" } else { "basic" };
        let case = format!("hash_embedding/fwd/r3,g2,d4,{order}/f32/{variant}");
        let inputs = ["--input", "id=id.npy", "--input", "weight=weight.npy", "--input"].map(str::to_owned);
        let start = ["eval", &case, "--target", target, "--output-dir", "o"].map(str::to_owned);
        [&start[..], &inputs[..], &[format!("group={group}")]].concat()
    };
    save_integers("beyond.npy", [0, 1, 2]);
    save_integers("falling.npy", [1, 0, 1]);
    for target in ["cpu", "wgpu"] {
        for (order, group, part) in [
            ("unsorted", "beyond.npy", "`group`[2] is 2, and must be below 2"),
            ("sorted", "falling.npy", "`group`[1] is 0, and must be no less than 1 before it"),
        ] {
            let args = eval(target, order, group);
            mistake(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>(), &[part]);
        }
        let args = eval(target, "unsorted", "falling.npy");
        let output = parallax(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Arrays as files of their names, of whole numbers where the form has such.
fn save_all(dir: &std::path::Path, problem: &str, arrays: &[(&str, &[u64], &[f32])]) {
    let problem = parse_case(&format!("{problem}/{CPU_VARIANT}")).expect("a case");
    let whole = |name: &str| problem.problem.buffers().iter().any(|spec| spec.name == name && spec.elem == Elem::U32);
    for (name, shape, values) in arrays {
        let path = dir.join(format!("{name}.npy"));
        if whole(name) {
            let file = std::fs::File::create(path).expect("writable");
            let options = npyz::WriteOptions::<u32>::new().default_dtype().shape(shape);
            let mut writer = options.writer(file).begin_nd().expect("header");
            writer.extend(values.iter().map(|x| *x as u32)).expect("values");
            writer.finish().expect("whole");
        } else {
            save(&path, shape, values);
        }
    }
}

/// Results of each variant on each of its targets for these arrays, against the right ones. An expected NaN matches NaN.
fn evaluates(
    problem: &str,
    variants: &[(&str, &str)],
    inputs: &[(&str, &[u64], &[f32])],
    outputs: &[(&str, &[f32], f32)],
) {
    let dir = folder();
    save_all(dir.path(), problem, inputs);
    let given = inputs.iter().flat_map(|(name, ..)| ["--input".to_owned(), format!("{name}={name}.npy")]);
    let given: Vec<String> = given.collect();
    for (target, variant) in variants {
        let case = format!("{problem}/{variant}");
        let first = ["eval", case.as_str(), "--target", target, "--output-dir", "out"];
        let args: Vec<&str> = first.into_iter().chain(given.iter().map(String::as_str)).collect();
        let output = parallax(dir.path(), &args);
        assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
        for (name, wanted, tolerance) in outputs {
            let file = std::fs::File::open(dir.path().join(format!("out/{name}.npy"))).expect("the output");
            let npy = npyz::NpyFile::new(std::io::BufReader::new(file)).expect("NumPy's format");
            let got: Vec<f32> = npy.into_vec().expect("f32");
            let right = |(got, want): (&f32, &f32)| match want.is_nan() {
                true => got.is_nan(),
                false => got == want || (got - want).abs() <= *tolerance,
            };
            let all = got.len() == wanted.len() && got.iter().zip(*wanted).all(right);
            assert!(all, "{case} on {target}: `{name}` is {got:?}, should be {wanted:?}");
        }
    }
}

const NAN: f32 = f32::NAN;
const LOW: f32 = f32::NEG_INFINITY;

#[test]
fn a_row_that_begins_with_minus_infinity_weighs_it_nothing() {
    let softmax = [("cpu", "host"), ("wgpu", "naive"), ("wgpu", "online"), ("wgpu", "row")];
    evaluates("softmax/fwd/r1,c2/f32", &softmax, &[("x", &[1, 2], &[LOW, 0.0])], &[("out", &[0.0, 1.0], 0.0)]);
    let wide: Vec<f32> = (0..2048).map(|i| if i < 2047 { LOW } else { 3.0 }).collect();
    let last: Vec<f32> = (0..2048).map(|i| if i < 2047 { 0.0 } else { 1.0 }).collect();
    evaluates("softmax/fwd/r1,c2048/f32", &softmax, &[("x", &[1, 2048], &wide)], &[("out", &last, 0.0)]);
    let logits: (&str, &[u64], &[f32]) = ("logits", &[1, 2], &[LOW, 0.0]);
    let targets: (&str, &[u64], &[f32]) = ("targets", &[1], &[1.0]);
    let all = [("cpu", "host"), ("wgpu", "naive"), ("wgpu", "online"), ("wgpu", "separate"), ("wgpu", "row")];
    evaluates("cross_entropy/fwd/r1,c2/f32", &all, &[logits, targets], &[("loss", &[0.0], 0.0), ("lse", &[0.0], 0.0)]);
    let backward = [("cpu", "host"), ("wgpu", "naive"), ("wgpu", "fused"), ("wgpu", "separate")];
    let given = [logits, targets, ("dloss", &[1], &[1.0])];
    evaluates("cross_entropy/bwd/r1,c2/f32", &backward, &given, &[("dlogits", &[0.0, 0.0], 0.0)]);
    let given: [(&str, &[u64], &[f32]); 2] = [("x", &[1, 2], &[LOW, 0.0]), ("dout", &[1, 2], &[5.0, 7.0])];
    evaluates("softmax/bwd/r1,c2/f32", &[("cpu", "host"), ("wgpu", "naive")], &given, &[("dx", &[0.0, 0.0], 0.0)]);
    let given: [(&str, &[u64], &[f32]); 2] = [("x", &[1, 1, 2], &[LOW, 0.0]), ("v", &[1, 2, 1], &[5.0, 7.0])];
    let both = [("cpu", "host"), ("wgpu", "separate"), ("wgpu", "fused")];
    evaluates("softmax_v/fwd/s1,t2,d1/f32", &both, &given, &[("out", &[7.0], 0.0)]);
}

#[test]
fn what_lies_beyond_a_length_is_never_read_into_a_sum() {
    let (one, two): (&[u64], &[u64]) = (&[1, 1, 1, 1], &[1, 1, 2, 1]);
    let forward = [("cpu", "host"), ("wgpu", "manual"), ("wgpu", "flash")];
    for key in [1.0, NAN] {
        let keys = [1.0, key];
        let given: [(&str, &[u64], &[f32]); 4] =
            [("q", one, &[1.0]), ("k", two, &keys), ("v", two, &[7.0, NAN]), ("lengths", &[1], &[1.0])];
        evaluates("attention/fwd/b1,h1,s1,t2,d1,padded/f32", &forward, &given, &[("out", &[7.0], 0.0)]);
        let backward = [("cpu", "host"), ("wgpu", "manual"), ("wgpu", "flash")];
        let given = [given[0], given[1], given[2], ("dout", one, &[1.0]), given[3]];
        let gradients: [(&str, &[f32], f32); 3] =
            [("dq", &[0.0], 0.0), ("dk", &[0.0, 0.0], 0.0), ("dv", &[1.0, 0.0], 0.0)];
        evaluates("attention/bwd/b1,h1,s1,t2,d1,padded/f32", &backward, &given, &gradients);
    }
}

#[test]
fn norms_of_long_rows_of_equal_numbers_are_exact() {
    let (x, ones, zeros) = ([10_000.3; 4099], [1.0; 4099], [0.0; 4099]);
    let given: [(&str, &[u64], &[f32]); 3] =
        [("x", &[1, 4099], &x), ("gamma", &[4099], &ones), ("beta", &[4099], &zeros)];
    let host = [("cpu", "host")];
    evaluates("layernorm/fwd/r1,c4099/f32", &host, &given, &[("mean", &[10_000.3], 0.0), ("out", &zeros, 0.0)]);
    evaluates("rmsnorm/fwd/r1,c4099/f32", &host, &given[..2], &[("out", &ones, 1e-6)]);
}

#[test]
fn nan_stays_nan_as_in_pytorch() {
    let reduce = [("cpu", "host"), ("wgpu", "atomic"), ("wgpu", "tree"), ("wgpu", "vector")];
    evaluates("reduce/fwd/n4,max/f32", &reduce, &[("x", &[4], &[1.0, NAN, 3.0, LOW])], &[("out", &[NAN], 0.0)]);
    let pool = [("cpu", "host"), ("wgpu", "naive")];
    let x: (&str, &[u64], &[f32]) = ("x", &[1, 1, 2, 2], &[1.0, NAN, 3.0, LOW]);
    evaluates("pool/fwd/n1,c1,h2,k2,nchw,max/f32", &pool, &[x], &[("out", &[NAN], 0.0)]);
    let dout: (&str, &[u64], &[f32]) = ("dout", &[1, 1, 1, 1], &[2.0]);
    let dx: (&str, &[f32], f32) = ("dx", &[0.0, 2.0, 0.0, 0.0], 0.0);
    evaluates("pool/bwd/n1,c1,h2,k2,nchw,max/f32", &pool, &[x, dout], &[dx]);
    let bag: [(&str, &[u64], &[f32]); 3] =
        [("index", &[2], &[0.0, 1.0]), ("offsets", &[2], &[0.0, 2.0]), ("table", &[2, 2], &[NAN, 1.0, 5.0, 2.0])];
    let bags = [("cpu", "host"), ("wgpu", "naive"), ("wgpu", "rows")];
    evaluates("embedding_bag/fwd/b1,l2,v2,d2,max/f32", &bags, &bag, &[("out", &[NAN, 2.0], 0.0)]);
    for formula in ["tanh", "erf"] {
        let gelu = [("cpu", "host"), ("wgpu", "scalar"), ("wgpu", "vector")];
        let (x, out) = ([NAN, 0.0, 40.0, -40.0], [NAN, 0.0, 40.0, 0.0]);
        evaluates(&format!("gelu/fwd/n4,{formula}/f32"), &gelu, &[("x", &[4], &x)], &[("out", &out, 1e-6)]);
    }
    let relu: [(&str, &[u64], &[f32]); 3] =
        [("x", &[1, 1, 1, 1], &[NAN]), ("w", &[1, 1, 1, 1], &[1.0]), ("bias", &[1], &[1.0])];
    let direct = [("cpu", "host"), ("wgpu", "direct"), ("wgpu", "implicit_gemm")];
    evaluates("conv2d/fwd/n1,c1,m1,h1,k1,nchw,bias,relu/f32", &direct, &relu, &[("out", &[NAN], 0.0)]);
    let four: &[u64] = &[1, 1, 1, 1];
    let query: [(&str, &[u64], &[f32]); 3] = [("q", four, &[NAN]), ("k", four, &[1.0]), ("v", four, &[7.0])];
    let forward = [("cpu", "host"), ("wgpu", "manual"), ("wgpu", "flash")];
    evaluates("attention/fwd/b1,h1,s1,d1/f32", &forward, &query, &[("out", &[NAN], 0.0)]);
}

#[test]
fn a_mask_of_nothing_but_the_lowest_number_gives_the_mean_as_pytorch_does() {
    let (one, two): (&[u64], &[u64]) = (&[1, 1, 1, 1], &[1, 1, 2, 1]);
    for (mask, out) in
        [([-3e38, -3e38], 5.0), ([-3e38, LOW], 3.0), ([-3e38, 0.0], 7.0), ([LOW, LOW], 0.0), ([NAN, 0.0], NAN)]
    {
        let given: [(&str, &[u64], &[f32]); 4] =
            [("q", one, &[1.0]), ("k", two, &[1.0, 2.0]), ("v", two, &[3.0, 7.0]), ("mask", &[1, 2], &mask)];
        let forward = [("cpu", "host"), ("wgpu", "manual"), ("wgpu", "flash")];
        evaluates("attention/fwd/b1,h1,s1,t2,d1,biased/f32", &forward, &given, &[("out", &[out], 1e-5)]);
    }
}

#[test]
fn a_prediction_for_a_target_of_zero_has_an_error_of_two_and_is_outside_no_band() {
    let given: [(&str, &[u64], &[f32]); 2] = [("pred", &[1], &[1.0]), ("targets", &[1], &[0.0])];
    let all = [("cpu", "host"), ("wgpu", "separate"), ("wgpu", "fused")];
    evaluates("loss_smape/fwd/n1/f32", &all, &given, &[("loss", &[2.0], 1e-6)]);
}
