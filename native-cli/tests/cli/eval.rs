//! `eval`: the user's arrays in, arrays out, or refused.

use npyz::WriterBuilder;

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
