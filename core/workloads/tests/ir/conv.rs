//! Tests over known workloads: geometry of convolutions in two or three dimensions: extents, memory layout of tensors, and constants of kernels. Two

use parallax_ir::*;
use parallax_workloads::parse_case;

#[test]
fn squares_of_results_need_fewer_products() {
    let of = |shape: &str, square| {
        let case = parse_case(&format!("{shape}/f32/direct")).expect("valid");
        Conv::new(&case.problem.shape).fewer_by_squares(square)
    };
    let close = |got: f64, want: f64| assert!((got - want).abs() < 1e-12, "{got} for {want}");
    close(of("conv2d/fwd/n1,c1,h9,k3,p1,nhwc", 2), 36.0 / 16.0);
    close(of("conv2d/fwd/n1,c1,h9,k3,p1,nchw", 4), 4.0);
    close(of("conv2d/fwd/n1,c1,h9,k5,kw1,nchw", 4), 20.0 / 8.0);
    for shape in ["n1,c1,h9,k3,s2,nchw", "n1,c1,h9,k3,l2,nchw", "n1,c1,h9,k1,nchw"] {
        close(of(&format!("conv2d/fwd/{shape}"), 4), 1.0);
    }
    close(of("conv3d/fwd/n1,c1,d4,h5,k3,ncdhw", 4), 1.0);
}

#[test]
fn places_positions_and_taps_go_both_ways() {
    for shape in [
        "conv2d/fwd/n2,c6,m4,h7,w8,k3,kw2,s2,p1,l2,g2,nchw",
        "conv2d/fwd/n2,c6,m4,h7,w8,k3,kw2,s3,p2,g2,nhwc",
        "conv3d/fwd/n2,c3,m2,d4,h5,k2,kd3,s2,p1,ndhwc",
        "conv3d/fwd/n1,c2,m2,d4,h5,k2,l2,p1,ncdhw",
    ] {
        let case = parse_case(&format!("{shape}/f32/direct")).expect("valid");
        let conv = Conv::new(&case.problem.shape);
        let count = |dims: Vec<u64>| 0..dims.iter().product::<u64>();
        for place in count(conv.x_dims()) {
            let (of, at) = conv.x_index(place);
            assert_eq!(conv.x_at(of, at), place, "{shape}");
        }
        for place in count(conv.w_dims()) {
            let (of, tap) = conv.w_index(place);
            assert_eq!(conv.w_at(of, tap), place, "{shape}");
        }
        for place in count(conv.out_dims()) {
            let (of, at) = conv.out_index(place);
            assert_eq!(conv.out_at(of, at), place, "{shape}");
        }
        for (out, tap) in conv.every_output().flat_map(|out| conv.every_tap().map(move |tap| (out, tap))) {
            let Some(at) = conv.input_position(out, tap) else { continue };
            assert_eq!(conv.output_position(at, tap), Some(out), "{shape}");
        }
    }
}

#[test]
fn shapes_without_an_output_that_can_be_counted_are_refused() {
    for (shape, part) in [
        ("n1,c1,h4,w4,k9", "larger than the padded image"),
        ("n1,c1,h4,w4,k3,p1073741824", "stay below"),
        ("n1,c6,m4,h4,k1,g3", "3 groups must divide 6 input and 4 output channels"),
        ("n1048576,c1,m4096,h1,k1", "count elements in 32 bits"),
    ] {
        let error = parse_case(&format!("conv2d/fwd/{shape}/f32/direct")).expect_err(shape);
        assert!(error.to_string().contains(part), "{shape}: {error}");
    }
}
