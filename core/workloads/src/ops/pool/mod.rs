//! Pooling of images: the largest element or the average of each window of an input.
//!
//! Windows are `k` × `kw` pixels, `s` apart. The image has a border of `p` pixels, which belong to no maximum and count as zeros in
//! an average, as in PyTorch's `MaxPool2d` and `AvgPool2d`. `adaptive` divides the image into `oh` × `ow` windows and averages each
//! (`AdaptiveAvgPool2d`). Window `y` has the rows from `⌊y·h/oh⌋` to before `⌈(y+1)·h/oh⌉`.
//!
//! Operations: one for each pixel of each window. Bytes: each tensor read or written once.

mod backward;
mod window;

use window::Windows;

use crate::dense::total;
use crate::pixels::{along, apart, bytes, extents, position, several, split, stage_of_pieces};
use crate::real::maximum;
use parallax_ir::Access::{Read, Write};
use parallax_ir::parallel::*;
use parallax_ir::stress::{exact, one, scattered_nan, smallest_normal, subnormal, wide, zero};
use parallax_ir::{
    Axis, BufferSpec, Draw, Elem, HostBuffer, Inputs, OfNan, OpSpec, Problem, Program, Reference, Shape, Stage,
    StressInput, Tolerance, Variant, Workload, countable, indexable, normal,
};
use parallax_schema::case::{Cost, DType, Direction, Preset, Rate};

const X: usize = 0;

/// Definition of the workload.
pub fn workload() -> Workload {
    Workload {
        name: "",
        probes: &[],
        about: "pooling of images: the largest of each window, or its average",
        axes: const {
            &[
                Axis::extent("n", "images").items(),
                Axis::extent("c", "channels"),
                Axis::extent("h", "height"),
                Axis::same_as("w", "width", "h"),
                Axis::optional("k", "window", 1, 2),
                Axis::same_as("kw", "window width", "k"),
                Axis::optional("s", "stride", 1, 1),
                Axis::optional("p", "padding", 0, 0),
                Axis::optional("oh", "height of an adaptive output", 0, 0),
                Axis::optional("ow", "width of an adaptive output", 0, 0),
                Axis::word("layout", "memory order", &["nchw", "nhwc"]),
                Axis::word("kind", "operation on a window", &["max", "average", "adaptive"]),
            ]
        },
        dtypes: &[DType::F32, DType::F16, DType::BF16],
        validate,
        forms: vec![forward(), backward::form()],
    }
}

const AWKWARD: &[&str] = &[
    "n1,c1,h1,k1,nchw,max",
    "n1,c1,h1,k1,nhwc,average",
    "n2,c3,h7,w5,k3,p1,nchw,max",
    "n2,c3,h7,w5,k3,s2,p1,nhwc,max",
    "n1,c8,h9,w11,k3,s2,p1,nhwc,average",
    "n2,c3,h9,w16,k3,kw1,nchw,average",
    "n1,c2,h16,s2,nchw,max",
    "n1,c8,h13,w8,k5,s3,p2,nchw,max",
    "n3,c5,h7,w11,oh3,ow4,nchw,adaptive",
    "n2,c12,h7,oh1,ow1,nhwc,adaptive",
    "n1,c2,h5,w8,oh7,ow12,nchw,adaptive",
    "n2,c16,h10,w17,k4,kw2,s2,p1,nhwc,max",
];

fn forward() -> OpSpec {
    OpSpec::new(
        Direction::Fwd,
        Rate::Bytes,
        |p| {
            vec![
                BufferSpec::input("x", Elem::Real, &image(p), normal),
                BufferSpec::output("out", Elem::Real, &pooled(p)),
            ]
        },
        |p| Cost::new(pixels_of_windows(p), bytes(p, &image(p)), bytes(p, &pooled(p))),
        tolerance,
        Reference::new(
            |p, _| most_pixels(p) * pooled(p)[3],
            |p, inputs| Box::new(move |_, row, out| reference(p, inputs, row, out)),
        ),
        OfNan::Kept,
    )
    .headline("n8,c64,h112,k3,s2,p1,nchw,max")
    .shapes(shapes)
    .awkward(AWKWARD)
    .host(host)
    .variants(vec![
        Variant::kernel("naive", "one element of the result per thread", |p, _| program(p, 1)),
        Variant::kernel(
            "vector",
            "16 bytes of the result per thread (WGSL: four elements): of neighbouring channels, which are read so too, in \
                 nhwc; of a row in nchw, where neighbours share their reads",
            |p, caps| program(p, along(p, pooled(p), caps)),
        )
        .available(|p, caps| several(p, pooled(p), caps)),
    ])
    .fallback(&["vector", "naive"])
    .stress(stress_inputs())
}

fn shapes(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::Standard => &[
            "n8,c64,h112,k3,s2,p1,nchw,max",
            "n32,c64,h112,k3,s2,p1,nhwc,max",
            "n32,c256,h56,s2,nchw,average",
            "n32,c512,h14,oh7,ow7,nhwc,adaptive",
        ],
        _ => &[
            "n8,c64,h112,k3,s2,p1,nchw,max",
            "n64,c64,h112,k3,s2,p1,nchw,max",
            "n64,c64,h112,k3,s2,p1,nhwc,max",
            "n64,c256,h56,s2,nchw,average",
            "n64,c256,h56,s2,nhwc,average",
            "n64,c2048,h14,oh7,ow7,nhwc,adaptive",
        ],
    }
}

fn largest(p: &Problem) -> bool {
    p.shape.has("max")
}

fn validate(shape: &Shape) -> Result<(), String> {
    let (adaptive, given) = (shape.has("adaptive"), shape["oh"] > 0 && shape["ow"] > 0);
    if adaptive && !given {
        return Err("an adaptive output has a height `oh` and a width `ow`".to_owned());
    }
    if adaptive && (shape["k"] != 2 || shape["kw"] != 2 || shape["s"] != 1 || shape["p"] != 0) {
        return Err(
            "windows of an adaptive output have neither an extent, nor a stride, nor padding of their own".to_owned()
        );
    }
    if !adaptive && shape["oh"] + shape["ow"] > 0 {
        return Err("only an adaptive output says its height and width".to_owned());
    }
    // Every window then has a pixel of the image.
    if shape["p"] > shape["k"].min(shape["kw"]) / 2 {
        return Err("padding is at most half of the window".to_owned());
    }
    let [rows, columns] = Windows::from_shape(shape);
    if rows.outputs == 0 || columns.outputs == 0 {
        return Err("the window is larger than the padded image, so the output is empty".to_owned());
    }
    let (n, c, taps) = (shape["n"], shape["c"], rows.most() * columns.most());
    if !countable([n, c, rows.outputs, columns.outputs, taps]) {
        return Err("the number of pixels of all windows is too large for 64 bits".to_owned());
    }
    // Operands of the window bounds.
    indexable(rows.extent.max(columns.extent) + 2 * shape["p"] + shape["k"].max(shape["kw"]))?;
    indexable((rows.extent + 1) * (rows.outputs + 1))?;
    indexable((columns.extent + 1) * (columns.outputs + 1))?;
    indexable(n * c * shape["h"] * shape["w"])?;
    indexable(n * c * rows.outputs * columns.outputs)
}

fn image(p: &Problem) -> [u64; 4] {
    extents(p, p["h"], p["w"])
}

fn pooled(p: &Problem) -> [u64; 4] {
    let [rows, columns] = Windows::from_shape(&p.shape);
    extents(p, rows.outputs, columns.outputs)
}

/// Pixels of the largest window.
fn most_pixels(p: &Problem) -> u64 {
    Windows::from_shape(&p.shape).iter().map(Windows::most).product()
}

fn pixels_of_windows(p: &Problem) -> u64 {
    pooled(p).iter().product::<u64>() * most_pixels(p)
}

fn tolerance(p: &Problem, output: usize) -> Tolerance {
    if largest(p) {
        return exact(p, output);
    }
    Tolerance {
        abs: most_pixels(p) as f64 * 3.47 * 2f64.powi(-24) + smallest_normal(p),
        rel: 2.0 * p.dtype.unit_roundoff(),
        reason: "numbers of at most 3.47 are summed in f32 (n·u times the sum of magnitudes) and divided by their number, and \
                 the result is rounded once to the element type",
    }
}

/// NaN and -inf among numbers.
fn not_finite(shape: &Shape, draw: Draw) -> f64 {
    if draw.index % 7 == 5 { f64::NEG_INFINITY } else { scattered_nan(shape, draw) }
}

fn stress_inputs() -> Vec<StressInput> {
    let set = |name, about, fills, tolerance| StressInput::new(name, about, fills, tolerance);
    vec![
        set("zeros", "all zero", |_| vec![("x", zero)], exact),
        set(
            "not finite",
            "NaN and -inf among numbers: so are windows with NaN",
            |_| vec![("x", not_finite)],
            tolerance,
        ),
        set("equal", "all one: one, or the share of a window that is image", |_| vec![("x", one)], tolerance),
        set(
            "negative",
            "all below zero: padding must not be a maximum",
            |_| vec![("x", |_, draw| -1.0 - draw.uniform())],
            tolerance,
        ),
        StressInput {
            applies: |p| wide(p) && most_pixels(p) <= 1000,
            ..set(
                "huge",
                "up to 1e34: sums of a window stay within f32",
                |_| vec![("x", |_, draw| 1e34 * draw.normal())],
                |p, output| Tolerance { abs: 1e34 * tolerance(p, output).abs, ..tolerance(p, output) },
            )
        },
        set(
            "subnormal",
            "numbers too small to be normal: a result as small, or zero where the device flushes them",
            |p| vec![("x", subnormal(p))],
            |p, _| Tolerance {
                abs: 3.0 * smallest_normal(p),
                rel: 0.0,
                reason: "each number may be taken for zero, and so may the result",
            },
        ),
    ]
}

fn reference(p: &Problem, inputs: &Inputs, row: u64, out: &mut [f64]) {
    let [rows, columns] = Windows::from_shape(&p.shape);
    for (slot, at) in out.iter_mut().zip(row * pooled(p)[3]..) {
        let [n, c, y, x] = split(p, pooled(p), at);
        let pixels = rows.window(y).flat_map(|i| columns.window(x).map(move |j| (i, j)));
        let values = pixels.map(|(i, j)| inputs.at(X, position(p, image(p), [n, c, i, j])));
        *slot = match largest(p) {
            true => values.fold(f64::NEG_INFINITY, maximum),
            false => values.sum::<f64>() / (rows.divisor(y) * columns.divisor(x)) as f64,
        };
    }
}

fn host(p: &Problem, inputs: &[HostBuffer], outputs: &mut [Vec<f32>]) {
    let x = inputs[X].f32();
    let [rows, columns] = Windows::from_shape(&p.shape);
    let [height, width, lines, windows] =
        [rows.extent, columns.extent, rows.outputs, columns.outputs].map(|extent| extent as usize);
    let apart = apart(p);
    outputs[0].par_chunks_mut(windows * apart).enumerate().for_each(|(line, out)| {
        let (image, oy) = (&x[line / lines * height * width * apart..], (line % lines) as u64);
        for (ox, out) in out.chunks_exact_mut(apart).enumerate() {
            let (down, along) = (rows.window(oy), columns.window(ox as u64));
            let divisor = (rows.divisor(oy) * columns.divisor(ox as u64)) as f32;
            for (channel, slot) in out.iter_mut().enumerate() {
                let row = |i: u64| {
                    let first = (i as usize * width + along.start as usize) * apart + channel;
                    image[first..].iter().step_by(apart).take((along.end - along.start) as usize).copied()
                };
                let values = down.clone().flat_map(row);
                *slot = match largest(p) {
                    true => values.fold(f32::NEG_INFINITY, maximum),
                    false => total(values) / divisor,
                };
            }
        }
    });
}

/// Stage with one piece of a tensor per thread, with the constants of the windows.
fn by_pieces_of(p: &Problem, tensor: ([u64; 4], u64), texts: [&'static str; 2], entry: &'static str) -> Stage {
    let sides = Windows::from_shape(&p.shape).map(|windows| (windows.extent, windows.outputs));
    let consts = [("KH", p["k"]), ("KW", p["kw"]), ("STRIDE", p["s"]), ("PAD", p["p"])];
    stage_of_pieces(p, tensor, sides, texts, entry)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("LARGEST", largest(p)), ("ADAPTIVE", p.shape.has("adaptive"))])
}

fn program(p: &Problem, width: u64) -> Program {
    let texts = ["pool/forward", "pool/forward_row"];
    by_pieces_of(p, (pooled(p), width), texts, "pool_forward")
        .args([("x", Read), ("out", Write)])
        .cost((forward().cost)(p))
        .into()
}

#[cfg(test)]
mod tests {
    use crate::parse_case;

    #[test]
    fn shapes_without_a_pixel_in_each_window_are_refused() {
        for (shape, part) in [
            ("n1,c1,h4,k9,nchw,max", "larger than the padded image"),
            ("n1,c1,h4,k3,p2,nchw,max", "at most half"),
            ("n1,c1,h4,nchw,adaptive", "has a height"),
            ("n1,c1,h4,oh2,ow2,nchw,max", "only an adaptive output"),
            ("n1,c1,h4,s2,oh2,ow2,nchw,adaptive", "of their own"),
        ] {
            let error = parse_case(&format!("pool/fwd/{shape}/f32/naive")).expect_err(shape);
            assert!(error.to_string().contains(part), "{shape}: {error}");
        }
    }
}
