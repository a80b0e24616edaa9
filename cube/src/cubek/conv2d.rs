//! Convolution with channels last by CubeK's direct kernel: a thread computes some neighbouring channels of an output pixel.
//! CubeK's convolution on matrix units is a GEMM of several launches.

use cubecl_core::client::Client;
use cubecl_core::prelude::TensorBinding;
use cubek_convolution::{ConvolutionArgs, DirectTensors, launch_direct};

use super::Call;

pub fn launch(call: &Call<'_>, client: &Client) -> Result<Vec<TensorBinding>, String> {
    let of = |names: [&str; 4]| call.tensor(client, &names.map(|name| call.size(name)));
    let input = of(["N", "H", "W", "C"]);
    let weight = of(["M", "KH", "KW", "OF_GROUP"]);
    let out = of(["N", "OH", "OW", "M"]);
    let args = ConvolutionArgs {
        stride: [call.size("STRIDE_H"), call.size("STRIDE_W")],
        padding: [call.size("PAD_H"), call.size("PAD_W")],
        dilation: [call.size("DILATION_H"), call.size("DILATION_W")],
    };
    let tensors = DirectTensors { input: input.clone(), weight: weight.clone(), bias: None, out: out.clone() };
    launch_direct(client, tensors, args, call.size("GROUPS"), call.elem()).map_err(|why| format!("{why:?}"))?;
    Ok(vec![input, weight, out])
}
