// TensorFlow.js on its WebGPU backend, from the global `tf` that its scripts leave.

/// The peer, once its backend is up.
export async function tensorflow() {
  const tf = globalThis.tf;
  const up = await tf.setBackend("webgpu");
  if (!up) throw new Error("TensorFlow.js has no WebGPU here");
  await tf.ready();
  return { name: `TensorFlow.js ${tf.version.tfjs}`, bsnh: false, lacks, prepare: (the, made) => prepare(tf, the, made) };
}

function lacks(the) {
  if (the.dtype !== "f32") return "it computes in f32 alone";
  if (the.workload === "add_layernorm" || the.workload === "layernorm") return "it has no such operation of its own";
  return undefined;
}

/// One call of a case on tensors: the operations of a model's graph, written out.
function calls(tf, the, t) {
  const gelu = (x) => {
    const inner = tf.mul(Math.sqrt(2 / Math.PI), tf.add(x, tf.mul(0.044715, tf.mul(x, tf.mul(x, x)))));
    return tf.mul(tf.mul(0.5, x), tf.add(1, tf.tanh(inner)));
  };
  const layout = the.last ? "NHWC" : "NCHW";
  switch (the.workload) {
    case "matmul":
      return () => tf.matMul(t.a, t.b);
    case "attention":
      return () => {
        const scores = tf.mul(tf.matMul(t.q, t.k, false, true), 1 / Math.sqrt(the.e.d));
        return tf.matMul(tf.softmax(scores), t.v);
      };
    case "conv2d":
      return () => tf.conv2d(t.x, t.w, 1, the.e.p, layout);
    case "depthwise_conv2d":
      return () => tf.depthwiseConv2d(t.x, t.w, 1, the.e.p, layout);
    case "softmax":
      return () => tf.softmax(t.x);
    case "embedding":
      return () => tf.gather(t.table, t.indices);
    case "mlp_gelu":
      return () => tf.add(tf.matMul(gelu(tf.add(tf.matMul(t.x, t.w1), t.b1)), t.w2), t.b2);
  }
  throw new Error(`no call for ${the.workload}`);
}

async function prepare(tf, the, made) {
  // Its filters are H, W, in, out in either layout; ours in NCHW are out, in, H, W.
  const tensors = {};
  for (const [name, { dims, values }] of Object.entries(made)) {
    const tensor = tf.tensor(values, dims, name === "indices" ? "int32" : "float32");
    const turned = name === "w" && !the.last;
    const order = the.workload === "depthwise_conv2d" ? [2, 3, 0, 1] : [2, 3, 1, 0];
    tensors[name] = turned ? tf.transpose(tensor, order) : tensor;
    if (turned) tensor.dispose();
  }
  const once = calls(tf, the, tensors);
  const call = () => tf.tidy(() => void once());
  const backend = tf.backend();
  return {
    ways: ["calls handed over together", "each call handed over"],
    // Results go back to its pool of buffers only when work is handed over: large ones are allocated anew until then.
    choose: (way) => tf.env().set("WEBGPU_DEFERRED_SUBMIT_BATCH_SIZE", way.startsWith("each") ? 1 : 15),
    result: async () => {
      const out = tf.tidy(once);
      const values = await out.data();
      out.dispose();
      return values;
    },
    call,
    done: async () => {
      // Commands are submitted only when a pass is full: an open one would be refused whole.
      backend.ensureCommandEncoderReady();
      backend.endComputePassEncoder();
      backend.submitQueue();
      await backend.queue.onSubmittedWorkDone();
    },
    free: () => Object.values(tensors).forEach((tensor) => tensor.dispose()),
  };
}
