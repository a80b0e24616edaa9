//! GEMM by CubeK's default choice: on matrix units if the device has them for the element type, otherwise with accumulators in a
//! thread's registers.

use cubecl_core::client::Client;
use cubecl_core::prelude::TensorBinding;
use cubek_matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek_matmul::launch::launch_ref;
use cubek_matmul::strategy::Strategy;
use cubek_std::InputBinding;

use super::Call;

pub fn launch(call: &Call<'_>, client: &Client) -> Result<Vec<TensorBinding>, String> {
    let [m, n, k] = ["M", "N", "K"].map(|name| call.size(name));
    let [a, b, c] = [[m, k], [k, n], [m, n]].map(|shape| call.tensor(client, &shape));
    let elem = call.elem();
    let mut elems = MatmulElems::from_globals(&MatmulGlobalElems { lhs: elem, rhs: elem, out: elem });
    let [left, right] = [&a, &b].map(|tensor| InputBinding::new(tensor.clone(), elem));
    launch_ref(&Strategy::Auto, client, left, right, c.clone(), &mut elems).map_err(|why| why.to_string())?;
    Ok(vec![a, b, c])
}
