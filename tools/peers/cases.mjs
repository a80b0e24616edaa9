// A case for the peers: its tensors, and the right values of a few results, in double precision.

/// Workload, extents by letter, words without a number, and element type of `workload/fwd/shape/dtype`.
export function parsed(name) {
  const [workload, , shape, dtype] = name.split("/");
  const extents = {};
  const words = [];
  for (const part of shape.split(",")) {
    const found = part.match(/^([a-z]+)(\d+)$/);
    if (found) extents[found[1]] = Number(found[2]);
    else words.push(part);
  }
  return { name, workload, e: extents, last: words.includes("nhwc"), dtype };
}

/// The inputs: dimensions by name, in the order in which graphs take them. Of images, channels lie where the case has them.
export function inputs({ workload, e, last }, bsnh) {
  const image = (n, c, h) => (last ? [n, h, h, c] : [n, c, h, h]);
  switch (workload) {
    case "matmul":
      return { a: [e.m, e.k], b: [e.k, e.n] };
    case "attention": {
      const row = bsnh ? [e.b, e.s, e.h * e.d] : [e.b, e.h, e.s, e.d];
      return { q: row, k: row, v: row };
    }
    case "conv2d":
      return { x: image(e.n, e.c, e.h), w: last ? [e.k, e.k, e.c, e.m ?? e.c] : [e.m ?? e.c, e.c, e.k, e.k] };
    case "depthwise_conv2d":
      return { x: image(e.n, e.c, e.h), w: last ? [e.k, e.k, e.c, 1] : [e.c, 1, e.k, e.k] };
    case "layernorm":
      return { x: [e.r, e.c], gamma: [e.c], beta: [e.c] };
    case "add_layernorm":
      return { x: [1, e.r, e.c], residual: [1, e.r, e.c], gamma: [e.c], beta: [e.c] };
    case "softmax":
      return { x: [e.r, e.c] };
    case "embedding":
      return { table: [e.v, e.d], indices: [e.n] };
    case "mlp_gelu":
      return { x: [e.m, e.c], w1: [e.c, e.f], b1: [e.f], w2: [e.f, e.c], b2: [e.c] };
  }
  throw new Error(`no inputs for ${workload}`);
}

/// Floating-point operations and bytes that must move, as the suite counts them.
export function cost({ workload, e, dtype }) {
  const size = dtype === "f16" ? 2 : 4;
  switch (workload) {
    case "matmul":
      return { flops: 2 * e.m * e.n * e.k };
    case "attention":
      return { flops: 4 * e.b * e.h * e.s * e.s * e.d };
    case "conv2d":
      return { flops: 2 * e.n * (e.m ?? e.c) * e.h * e.h * e.c * e.k * e.k };
    case "mlp_gelu":
      return { flops: 4 * e.m * e.c * e.f };
    case "depthwise_conv2d":
      return { bytes: 2 * e.n * e.c * e.h * e.h * size };
    case "layernorm":
    case "softmax":
      return { bytes: 2 * e.r * e.c * size };
    case "add_layernorm":
      return { bytes: 3 * e.r * e.c * size };
    case "embedding":
      return { bytes: e.n * e.d * size * 2 + e.n * 4 };
  }
  throw new Error(`no cost for ${workload}`);
}

/// A few of the results, row by row: their places and right values.
export function expected(the, data, bsnh) {
  const { workload, e, last } = the;
  const places = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => (i * 0x9e3779b1) >>> 0);
  const of = (total, value) => places.map((p) => [p % total, value(p % total)]);
  switch (workload) {
    case "matmul":
      return of(e.m * e.n, (at) => {
        const [row, col] = [Math.floor(at / e.n), at % e.n];
        let sum = 0;
        for (let k = 0; k < e.k; k++) sum += data.a[row * e.k + k] * data.b[k * e.n + col];
        return sum;
      });
    case "attention": {
      const place = (h, s, d) => (bsnh ? (s * e.h + h) * e.d + d : (h * e.s + s) * e.d + d);
      return places.map((p) => {
        const [h, s, d] = [p % e.h, p % e.s, p % e.d];
        const scores = Array.from({ length: e.s }, (_, t) => {
          let sum = 0;
          for (let i = 0; i < e.d; i++) sum += data.q[place(h, s, i)] * data.k[place(h, t, i)];
          return sum / Math.sqrt(e.d);
        });
        const top = Math.max(...scores);
        let [sum, all] = [0, 0];
        scores.forEach((score, t) => {
          const weight = Math.exp(score - top);
          sum += weight * data.v[place(h, t, d)];
          all += weight;
        });
        return [place(h, s, d), sum / all];
      });
    }
    case "conv2d":
    case "depthwise_conv2d": {
      const deep = workload === "depthwise_conv2d";
      const m = deep ? e.c : (e.m ?? e.c);
      return places.map((p) => {
        const [n, o, y, x] = [p % e.n, p % m, p % e.h, (p >>> 8) % e.h];
        let sum = 0;
        for (let i = 0; i < (deep ? 1 : e.c); i++) {
          const c = deep ? o : i;
          for (let j = 0; j < e.k; j++) {
            for (let l = 0; l < e.k; l++) {
              const [v, u] = [y + j - e.p, x + l - e.p];
              if (v < 0 || u < 0 || v >= e.h || u >= e.h) continue;
              const pixel = last ? ((n * e.h + v) * e.h + u) * e.c + c : ((n * e.c + c) * e.h + v) * e.h + u;
              const tap = last
                ? ((j * e.k + l) * e.c + c) * (deep ? 1 : m) + (deep ? 0 : o)
                : ((o * (deep ? 1 : e.c) + i) * e.k + j) * e.k + l;
              sum += data.x[pixel] * data.w[tap];
            }
          }
        }
        return [last ? ((n * e.h + y) * e.h + x) * m + o : ((n * m + o) * e.h + y) * e.h + x, sum];
      });
    }
    case "softmax":
    case "layernorm":
    case "add_layernorm":
      return of(e.r * e.c, (at) => {
        const [row, col] = [Math.floor(at / e.c), at % e.c];
        const value = (i) => data.x[row * e.c + i] + (data.residual?.[row * e.c + i] ?? 0);
        const values = Array.from({ length: e.c }, (_, i) => value(i));
        if (workload === "softmax") {
          const top = Math.max(...values);
          return Math.exp(values[col] - top) / values.reduce((sum, x) => sum + Math.exp(x - top), 0);
        }
        const mean = values.reduce((sum, x) => sum + x, 0) / e.c;
        const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / e.c;
        return ((values[col] - mean) / Math.sqrt(variance + 1e-5)) * data.gamma[col] + data.beta[col];
      });
    case "embedding":
      return of(e.n * e.d, (at) => data.table[data.indices[Math.floor(at / e.d)] * e.d + (at % e.d)]);
    case "mlp_gelu":
      return of(e.m * e.c, (at) => {
        const [row, col] = [Math.floor(at / e.c), at % e.c];
        let sum = data.b2[col];
        for (let f = 0; f < e.f; f++) {
          let h = data.b1[f];
          for (let c = 0; c < e.c; c++) h += data.x[row * e.c + c] * data.w1[c * e.f + f];
          const gelu = 0.5 * h * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (h + 0.044715 * h ** 3)));
          sum += gelu * data.w2[f * e.c + col];
        }
        return sum;
      });
  }
  throw new Error(`no reference for ${workload}`);
}

/// Numbers between −scale and scale, whole ones below `below` where that is given: a hash of their places. Never zeros: those are faster.
export function numbers(count, seed, scale, below) {
  const all = below ? new Int32Array(count) : new Float32Array(count);
  for (let i = 0; i < count; i++) {
    let h = Math.imul(i + 1, 0x9e3779b1) ^ Math.imul(seed, 0x7feb352d);
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    const bits = (h ^ (h >>> 16)) >>> 0;
    all[i] = below ? bits % below : (bits / 2 ** 31 - 1) * scale;
  }
  return all;
}
