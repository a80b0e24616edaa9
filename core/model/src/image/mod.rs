//! Classifiers of images and of volumes: convolutions with bias and ReLU, a linear layer, softmax. All layers are workloads of the
//! suite.
//!
//! Images have one channel, and as many pixels along each side. Those of two dimensions pass `conv2d`, `pool`, `conv2d`; volumes pass
//! two of `conv3d` with stride two, since `pool` has two dimensions.

mod volumes;

pub use volumes::{SHAPES, SIDE, volumes};

use crate::data::Weights;
use crate::examples::INPUT;
use crate::layers::{Layer, layer};
use crate::network::{Initial, LOGITS, Network, loss, probabilities};

/// Number of dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimensions {
    /// Images.
    Two,
    /// Volumes.
    Three,
}

impl Dimensions {
    /// Returns the number.
    pub fn rank(self) -> usize {
        match self {
            Dimensions::Two => 2,
            Dimensions::Three => 3,
        }
    }
}

/// Extents of a convolutional classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolutions {
    /// Dimensions of an image.
    pub dimensions: Dimensions,
    /// Pixels along each side: even, and of a volume a multiple of four.
    pub side: usize,
    /// Channels of the first convolution; the second has twice as many.
    pub channels: usize,
    /// Classes.
    pub classes: usize,
}

impl Network for Convolutions {
    fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let Convolutions { channels, classes, .. } = *self;
        let kernels = |outputs: usize, inputs: usize| [vec![outputs, inputs], vec![3; self.dimensions.rank()]].concat();
        let shapes = [
            ("1.weight", kernels(channels, 1)),
            ("1.bias", vec![channels]),
            ("2.weight", kernels(2 * channels, channels)),
            ("2.bias", vec![2 * channels]),
            ("head.weight", vec![self.flat(), classes]),
            ("head.bias", vec![classes]),
        ];
        shapes.into_iter().map(|(name, shape)| (name.to_owned(), shape)).collect()
    }

    /// Kernels have variance two over the number of inputs, since ReLU halves that of their results.
    fn first(&self, name: &str, shape: &[usize]) -> Initial {
        match (name, shape) {
            (_, [_]) => Initial::Constant(0.0),
            ("head.weight", [inputs, ..]) => Initial::Normal((*inputs as f64).sqrt().recip()),
            (_, shape) => Initial::Normal((2.0 / shape[1..].iter().product::<usize>() as f64).sqrt()),
        }
    }

    fn forward(&self, images: usize) -> Vec<Layer> {
        let mut layers = self.logits(images);
        layers.push(probabilities(images, self.classes));
        layers
    }

    fn gradients(&self, images: usize) -> Vec<Layer> {
        let mut layers = self.logits(images);
        layers.extend(loss(images, self.classes));
        layers.push(layer(
            format!("linear/bwd/m{images},n{},k{}/f32", self.classes, self.flat()),
            &[("x", "2.out"), ("w", "head.weight"), ("dout", "dlogits")],
            &[("dx", "2.out.grad"), ("dw", "head.weight.grad"), ("dbias", "head.bias.grad")],
        ));
        layers.push(self.convolution_gradients(1, images));
        if self.dimensions == Dimensions::Two {
            layers.push(layer(
                self.pool("bwd", images),
                &[("x", "1.out"), ("dout", "2.in.grad")],
                &[("dx", "1.out.grad")],
            ));
        }
        layers.push(self.convolution_gradients(0, images));
        layers
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

/// Arrays of a convolution's input and result.
fn ends(at: usize, dimensions: Dimensions) -> [&'static str; 2] {
    match (at, dimensions) {
        (0, _) => [INPUT, "1.out"],
        (_, Dimensions::Two) => ["2.in", "2.out"],
        (_, Dimensions::Three) => ["1.out", "2.out"],
    }
}

impl Convolutions {
    /// Elements of an image after the last convolution.
    fn flat(&self) -> usize {
        let side = match self.dimensions {
            Dimensions::Two => self.side / 2,
            Dimensions::Three => self.side / 4,
        };
        2 * self.channels * side.pow(self.dimensions.rank() as u32)
    }

    /// Problem of the first or the second convolution.
    fn convolution(&self, at: usize, direction: &str, images: usize) -> String {
        let (inputs, outputs) = [(1, self.channels), (self.channels, 2 * self.channels)][at];
        match (self.dimensions, self.side >> at) {
            (Dimensions::Two, side) => {
                format!("conv2d/{direction}/n{images},c{inputs},m{outputs},h{side},k3,p1,nchw,bias,relu/f32")
            }
            (Dimensions::Three, side) => {
                format!(
                    "conv3d/{direction}/n{images},c{inputs},m{outputs},d{side},h{side},k3,s2,p1,ncdhw,bias,relu/f32"
                )
            }
        }
    }

    fn pool(&self, direction: &str, images: usize) -> String {
        format!("pool/{direction}/n{images},c{},h{},s2,nchw,max/f32", self.channels, self.side)
    }

    fn logits(&self, images: usize) -> Vec<Layer> {
        let convolution = |at: usize| {
            let [input, output] = ends(at, self.dimensions);
            let [weight, bias] = ["weight", "bias"].map(|part| format!("{}.{part}", at + 1));
            let inputs = [("x", input), ("w", &*weight), ("bias", &*bias)];
            layer(self.convolution(at, "fwd", images), &inputs, &[("out", output)])
        };
        let mut layers = vec![convolution(0)];
        if self.dimensions == Dimensions::Two {
            layers.push(layer(self.pool("fwd", images), &[("x", "1.out")], &[("out", "2.in")]));
        }
        layers.push(convolution(1));
        layers.push(layer(
            format!("linear/fwd/m{images},n{},k{}/f32", self.classes, self.flat()),
            &[("x", "2.out"), ("w", "head.weight"), ("bias", "head.bias")],
            &[("out", LOGITS)],
        ));
        layers
    }

    fn convolution_gradients(&self, at: usize, images: usize) -> Layer {
        let [input, output] = ends(at, self.dimensions);
        let [weight, gradient] = [format!("{}.weight", at + 1), format!("{output}.grad")];
        let inputs = [("x", input), ("w", &*weight), ("dout", &*gradient), ("out", output)];
        let [dx, dw, dbias] = [format!("{input}.grad"), format!("{weight}.grad"), format!("{}.bias.grad", at + 1)];
        // The images themselves have no parameters before them.
        let outputs = [("dx", &*dx), ("dw", &*dw), ("dbias", &*dbias)];
        layer(self.convolution(at, "bwd", images), &inputs, if at == 0 { &outputs[1..] } else { &outputs })
    }
}

/// Multiplies the kernels of the first convolution by `scale`, so that the model takes images as they are.
pub fn fold(weights: &mut Weights, scale: f32) {
    if let Some(kernels) = weights.tensors.get_mut("1.weight") {
        kernels.values.iter_mut().for_each(|value| *value *= scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::complete;

    #[test]
    fn layers_are_problems_of_the_suite_with_all_their_inputs() {
        for dimensions in [Dimensions::Two, Dimensions::Three] {
            let model: &dyn Network = &Convolutions { dimensions, side: 8, channels: 4, classes: 3 };
            complete(model.gradients(3).into_iter().chain(model.optimisers()).chain(model.forward(1)));
            let outputs: Vec<String> =
                model.gradients(3).into_iter().flat_map(|layer| layer.outputs).map(|(_, array)| array).collect();
            for (name, _) in model.parameters() {
                assert!(outputs.contains(&format!("{name}.grad")), "{name}");
            }
        }
    }
}
