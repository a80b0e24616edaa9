// The page that compares two kernels of the visitor. The worker has the program; a worker that hangs is ended and replaced.

const byId = (id) => document.getElementById(id);
const SIDES = ["a", "b"];
const FIELDS = ["elements", "seed", "tolerance", "budget", "iterations", "limit"];
const FRAGMENT = "#lab=";
/// Characters of a link's contents at most, once they are unpacked: hostile links unpack to any length.
const MOST = 1 << 19;
/// Bytes of a kernel source at most.
const LONGEST = 1 << 16;
/// Milliseconds for reflection, and for the compilation of both kernels.
const PATIENCE = 30_000;
const PHASES = { compile: "Compiling both kernels …", check: "Comparing their outputs …", time: "Timing both kernels …" };

/// Contents of bindings by the visitor: text, file and number of elements.
const given = new Map();
/// Values of overrides by the visitor, by side and key.
const overridden = { a: new Map(), b: new Map() };
let worker;
let waiting;
/// Label of the kernel in whose reflection the worker is.
let reflecting;
let asked = 0;

/// Ends the worker, and answers its request with an error.
function replace(why) {
  worker?.terminate();
  worker = undefined;
  const { reject } = waiting ?? {};
  waiting = undefined;
  reject?.(new Error(why));
}

/// Begins a worker. Its program arrives while the visitor writes, and is kept for visits without a network.
function begin() {
  worker = new Worker("./worker.js", { type: "module" });
  worker.onerror = (event) => replace(event.message ? failure(event.message) : "The worker of the lab did not load. Reload the page.");
}

/// Message of a worker that ended.
const failure = (message) => reflecting
  ? `${reflecting}: the compiler failed on this kernel source. It is nested too deeply for this browser, or too large. (${message})`
  : `The program of the lab failed on these kernels: ${message}`;

/// Text with letters that change the direction of writing, and other control characters, as numbers. Messages quote kernel sources.
const visible = (text) => text.replace(/(?![\n\t])[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);

/// Sends a request, and resolves to its answer. `patience` has milliseconds for each phase.
function ask(kind, patience, onPhase = () => {}) {
  if (waiting) replace("superseded");
  if (!worker) begin();
  reflecting = undefined;
  const id = ++asked;
  return new Promise((resolve, reject) => {
    let timer;
    const wait = (phase) => {
      clearTimeout(timer);
      timer = setTimeout(() => replace(patience.message(phase)), patience[phase]);
    };
    const end = (settle) => (value) => {
      clearTimeout(timer);
      settle(value);
    };
    waiting = { reject: end(reject) };
    wait("compile");
    worker.onmessage = ({ data }) => {
      if (data.id !== id) return;
      if (data.kernel) {
        reflecting = data.kernel;
        return;
      }
      if (data.phase) {
        reflecting = undefined;
        wait(data.phase);
        onPhase(data.phase);
        return;
      }
      const { reject: refuse } = waiting;
      waiting = undefined;
      if (data.error) {
        refuse(new Error(visible(data.trapped ? failure(data.error) : data.error)));
        if (data.broken) replace();
      } else {
        end(resolve)(data.answer);
      }
    };
    worker.postMessage({ id, kind, ...request() });
  });
}

/// The request of the fields, and the files beside it.
function request() {
  const side = (name) => ({
    text: byId(`text-${name}`).value,
    entry: byId(`entry-${name}`).value.trim() || null,
    workgroups: workgroups(byId(`workgroups-${name}`).value),
    overrides: Object.fromEntries([...overridden[name]].filter(([, text]) => text).map(([key, text]) => [key, valueOf(text)])),
  });
  const [lengths, sources, files] = [{}, {}, []];
  for (const [point, { text, file, elements }] of given) {
    if (elements) lengths[point] = elements;
    if (file) files.push([point, file.bytes]);
    else if (text === "zeros" || text === "seeded") sources[point] = text;
    else if (text) sources[point] = { values: text.split(",").map(Number) };
  }
  const number = (id) => Number(byId(id).value);
  const values = {
    a: side("a"), b: side("b"), lengths, sources,
    elements: number("elements"), seed: number("seed"), budget: number("budget"), iterations: number("iterations"), limit: number("limit"),
    tolerance: byId("tolerance").value.trim() ? number("tolerance") : null,
  };
  return { request: JSON.stringify(values), files };
}

/// Fault of a kernel source with this number of bytes.
const tooLong = (name, bytes) => (bytes > LONGEST ? `${name.toUpperCase()} has ${bytes} bytes, the limit is ${LONGEST}.` : undefined);

function workgroups(text) {
  const numbers = text.split(",").map((part) => part.trim()).filter(Boolean).map(Number);
  return numbers.length ? [...numbers, 1, 1].slice(0, Math.max(3, numbers.length)) : null;
}

/// Number of an override's field; booleans are 0 or 1.
const valueOf = (text) => ({ true: 1, false: 0 })[text] ?? Number(text);

/// A fault of the fields that JSON cannot say, or that need no worker.
function fault() {
  for (const name of SIDES) {
    const wrong = tooLong(name, byId(`text-${name}`).value.length);
    if (wrong) return wrong;
  }
  for (const [point, { text, file }] of given) {
    const known = file || !text || text === "zeros" || text === "seeded";
    if (!known && text.split(",").some((part) => !part.trim() || !Number.isFinite(Number(part)))) {
      return `Binding ${point}: write seeded, zeros, or numbers with commas, as in 64, 0.5.`;
    }
  }
  for (const name of SIDES) {
    const odd = [...overridden[name]].find(([, text]) => text && !Number.isFinite(valueOf(text)));
    if (odd) return `${name.toUpperCase()}, override ${odd[0]}: write a number, true or false.`;
    const groups = workgroups(byId(`workgroups-${name}`).value) ?? [];
    if (groups.length > 3 || groups.some((count) => !Number.isInteger(count) || count < 1 || count >= 2 ** 32)) {
      return `${name.toUpperCase()}: write one to three numbers of workgroups, as in 64 or 64, 8, 1.`;
    }
  }
  const whole = ["elements", "seed", "iterations"].find((id) => !/^\d{1,15}$/.test(byId(id).value));
  if (whole) return `The field ${whole} takes a whole number.`;
  const numeric = ["budget", "limit"].find((id) => !(Number(byId(id).value) > 0));
  if (numeric) return `The field ${numeric} takes a number of seconds.`;
  const tolerance = byId("tolerance").value.trim();
  if (tolerance && !(Number(tolerance) >= 0)) return "The tolerance takes a number, as in 0.001.";
}

const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

/// Shows the bindings. Fields keep their contents.
function showBindings(rows) {
  const body = byId("bindings");
  const key = JSON.stringify(rows.map(({ binding, name, kind, type_name, elements }) => [binding, name, kind, type_name, elements === null]));
  if (body.dataset.key !== key) {
    body.dataset.key = key;
    body.replaceChildren(...rows.map(bindingRow));
    for (const point of given.keys()) if (!rows.some((row) => row.binding === point)) given.delete(point);
  }
  rows.forEach((row, index) => {
    const { cells } = body.rows[index];
    cells[4].textContent = row.size;
    const [length, contents] = [cells[3].querySelector("input"), cells[5].querySelector("input")];
    if (length) length.placeholder = row.elements;
    contents.placeholder = row.source;
  });
  byId("bindings-card").hidden = !rows.length;
}

function bindingRow({ binding, name, kind, type_name, elements }) {
  const own = given.get(binding) ?? {};
  given.set(binding, own);
  const change = (changes) => {
    Object.assign(own, changes);
    reflectSoon();
  };
  const label = (of) => `${of} of binding ${binding}, ${name}`;
  const length = element("input", { type: "number", min: 1, value: own.elements ?? "", ariaLabel: label("Elements") });
  length.oninput = () => change({ elements: Math.floor(Number(length.value)) || undefined });
  const text = element("input", { type: "text", spellcheck: false, value: own.text ?? "", ariaLabel: label("Contents") });
  text.setAttribute("aria-describedby", "contents-help");
  const file = element("input", { type: "file", accept: ".npy", ariaLabel: label("File") });
  text.oninput = () => {
    file.value = "";
    change({ text: text.value.trim(), file: undefined });
  };
  const take = async (chosen) => {
    if (!chosen) return change({ file: undefined });
    text.value = "";
    change({ text: "", file: { bytes: new Uint8Array(await chosen.arrayBuffer()) } });
  };
  file.onchange = () => take(file.files[0]);
  const row = element("tr", {},
    element("th", { scope: "row", textContent: `${binding} ${name}` }),
    element("td", { textContent: kind }),
    element("td", { className: "type", textContent: type_name }),
    elements === null ? element("td", { className: "quiet", textContent: "fixed" }) : element("td", {}, length),
    element("td", { className: "num" }),
    element("td", {}, text),
    element("td", {}, file));
  droppable(row, (dropped) => {
    const list = new DataTransfer();
    list.items.add(dropped);
    file.files = list.files;
    take(dropped);
  });
  return row;
}

/// Shows the overrides of a kernel. Fields keep their contents; values of overrides that an edit removed are dropped.
function showOverrides(name, overrides) {
  const place = byId(`overrides-${name}`);
  const values = overridden[name];
  const key = JSON.stringify(overrides.map(({ key, type_name, default: own }) => [key, type_name, own]));
  for (const known of values.keys()) if (!overrides.some((one) => one.key === known)) values.delete(known);
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  place.replaceChildren(...overrides.map((one) => {
    const input = element("input", { type: "text", spellcheck: false, value: values.get(one.key) ?? "", placeholder: one.default ?? "needed" });
    input.dataset.override = one.key;
    input.oninput = () => values.set(one.key, input.value.trim());
    const number = one.key === one.name ? "" : ` @id(${one.key})`;
    return element("label", { className: "field" }, `override ${one.name}${number}: ${one.type_name} `, input);
  }));
  place.hidden = !overrides.length;
}

/// Takes files that are dropped on an element.
function droppable(target, take) {
  target.addEventListener("dragover", (event) => {
    event.preventDefault();
    target.classList.add("over");
  });
  for (const end of ["dragleave", "drop"]) target.addEventListener(end, () => target.classList.remove("over"));
  target.addEventListener("drop", (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    event.stopPropagation();
    take(file);
  });
}

let soon;
function reflectSoon() {
  clearTimeout(soon);
  soon = setTimeout(reflect, 300);
}

/// Shows the bindings of both kernels, or the reason for which there are none.
async function reflect() {
  if (comparing) return;
  const line = byId("reflected");
  if (!SIDES.every((name) => byId(`text-${name}`).value.trim())) {
    line.textContent = "Give two kernels, or start with the example.";
    return;
  }
  const wrong = fault();
  if (wrong) {
    line.textContent = wrong;
    return;
  }
  try {
    const { bindings, overrides, grids, workgroups: threads } = await ask("reflect", { compile: PATIENCE, message: () => "The reflection of these kernels took too long." });
    showBindings(bindings);
    SIDES.forEach((name, index) => showOverrides(name, overrides[index]));
    const launch = (index) => `${SIDES[index].toUpperCase()} launches ${grids[index].join("×")} workgroups of ${threads[index].join("×")} threads`;
    line.textContent = `${launch(0)}; ${launch(1)}.`;
  } catch ({ message }) {
    if (message !== "superseded") line.textContent = message;
  }
}

let comparing = false;
async function compare() {
  clearTimeout(soon);
  byId("failure").replaceChildren();
  byId("result").hidden = true;
  const wrong = fault();
  if (wrong) return fail(wrong);
  busy(true);
  const limit = 1000 * Number(byId("limit").value);
  const budget = 1000 * Number(byId("budget").value);
  const patience = {
    compile: PATIENCE + limit,
    check: 4 * limit,
    time: 4 * budget + 2 * limit,
    message: (phase) => phase === "compile"
      ? "The compilation of these kernels took too long. The worker was ended and replaced."
      : `The kernels did not end within the limit of ${limit / 1000} s. The worker was ended and replaced; the page can run again.`,
  };
  byId("line").textContent = "Opening the device …";
  try {
    show(await ask("compare", patience, (phase) => { byId("line").textContent = PHASES[phase]; }));
    byId("line").textContent = "";
  } catch ({ message }) {
    byId("line").textContent = "";
    fail(message);
  }
  busy(false);
  reflectSoon();
}

function busy(now) {
  comparing = now;
  byId("compare").disabled = now;
  byId("stop").hidden = !now;
}

/// Shows an error. Messages of compilers have lines.
function fail(message) {
  const [first, ...rest] = message.split("\n");
  const notice = element("div", { className: "notice error" }, element("strong", { textContent: first }));
  if (rest.length) notice.append(element("pre", { textContent: rest.join("\n") }));
  byId("failure").replaceChildren(notice);
}

/// Shows the words of a report.
function show({ device, agrees, sentence, outputs, times, ratio, notes }) {
  const cell = (text, className = "") => element("td", { textContent: text, className });
  const head = (text) => element("th", { scope: "row", textContent: text });
  byId("sentence").textContent = sentence;
  byId("sentence").className = `answer ${agrees ? "good" : "bad"}`;
  byId("outputs").replaceChildren(...outputs.map((output) => element("tr", {},
    head(`${output.binding} ${output.name}`),
    cell(output.verdict, output.verdict === "agrees" ? "good" : "bad"),
    cell(output.first || "none"),
    ...[output.differing, output.largest, output.relative].map((text) => cell(text, "num")))));
  byId("times").replaceChildren(...times.map((time) => element("tr", {},
    head(time.kernel), ...[time.median, time.interval, time.samples].map((text) => cell(text, "num")), cell(time.launch))));
  byId("times-card").hidden = !times.length;
  byId("ratio").textContent = ratio ? `B over A: ${ratio}` : "";
  byId("notes").replaceChildren(...notes.map((note) => element("li", { textContent: note })));
  byId("device").textContent = `Measured on ${device}.`;
  byId("result").hidden = false;
  byId("sentence").focus({ preventScroll: true });
  byId("result").scrollIntoView({ block: "nearest" });
}

const through = (bytes, stream) => new Response(new Blob([bytes]).stream().pipeThrough(stream));

/// A link that has both kernels and all settings, without files.
async function link() {
  const values = {};
  for (const name of SIDES) for (const part of ["text", "entry", "workgroups"]) values[`${part}-${name}`] = byId(`${part}-${name}`).value;
  for (const id of FIELDS) values[id] = byId(id).value;
  values.given = [...given].flatMap(([point, { text, elements }]) => (text || elements ? [[point, text ?? "", elements ?? 0]] : []));
  values.overrides = SIDES.map((name) => [...overridden[name]].filter(([, text]) => text));
  const packed = await through(new TextEncoder().encode(JSON.stringify(values)), new CompressionStream("deflate-raw")).arrayBuffer();
  const letters = [...new Uint8Array(packed)].map((byte) => String.fromCharCode(byte)).join("");
  return `${location.href.split("#")[0]}${FRAGMENT}${btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/// Replaces the values of overrides, and has their fields made anew.
function fill(lists) {
  SIDES.forEach((name, index) => {
    overridden[name] = new Map((lists[index] ?? []).map(([key, text]) => [String(key), String(text)]));
    delete byId(`overrides-${name}`).dataset.key;
  });
}

/// Fills the page from its address. It runs nothing.
async function fromLink() {
  if (!location.hash.startsWith(FRAGMENT)) return;
  try {
    const letters = atob(location.hash.slice(FRAGMENT.length).replaceAll("-", "+").replaceAll("_", "/"));
    const reader = through(Uint8Array.from(letters, (letter) => letter.charCodeAt(0)), new DecompressionStream("deflate-raw")).body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += decoder.decode(part.value, { stream: true });
      if (text.length > MOST) throw new Error("it is too long");
    }
    const values = JSON.parse(text);
    if (Object.prototype.toString.call(values) !== "[object Object]") throw new Error("it has no kernels");
    const long = SIDES.map((name) => tooLong(name, String(values[`text-${name}`] ?? "").length)).find(Boolean);
    if (long) throw new Error(long);
    given.clear();
    for (const [point, text, elements] of values.given ?? []) given.set(String(point), { text: String(text), elements: Number(elements) || undefined });
    fill(values.overrides ?? []);
    delete byId("bindings").dataset.key;
    for (const [id, value] of Object.entries(values)) {
      if (FIELDS.includes(id) || /^(text|entry|workgroups)-[ab]$/.test(id)) byId(id).value = String(value);
    }
    byId("line").textContent = "Both kernels are from the link. They run only when you press Run.";
    reflect();
  } catch (error) {
    fail(`The link cannot be read: ${visible(error.message).replace(/\.$/, "")}. Ask for it again, whole.`);
  }
}

const EXAMPLE = {
  a: `// One float at a time.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
  if at.x < arrayLength(&y) {
    y[at.x] = x[at.x] / (1.0 + exp(-1.702 * x[at.x]));
  }
}
`,
  b: `// Four floats at a time.
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
  if at.x < arrayLength(&y) {
    y[at.x] = x[at.x] / (1.0 + exp(-1.702 * x[at.x]));
  }
}
`,
};

byId("lab").addEventListener("submit", (event) => {
  event.preventDefault();
  compare();
});
byId("lab").addEventListener("input", reflectSoon);
byId("stop").onclick = () => replace("The comparison was stopped.");
byId("example").onclick = () => {
  for (const name of SIDES) {
    byId(`text-${name}`).value = EXAMPLE[name];
    byId(`entry-${name}`).value = "";
    byId(`workgroups-${name}`).value = "";
  }
  given.clear();
  fill([]);
  delete byId("bindings").dataset.key;
  reflect();
};
byId("link").onclick = async () => {
  const address = await link();
  history.replaceState(null, "", address);
  const files = [...given.values()].some(({ file }) => file) ? " Files are not in it." : "";
  try {
    await navigator.clipboard.writeText(address);
    byId("line").textContent = `The link is in the clipboard: both kernels and all settings.${files}`;
  } catch {
    byId("line").textContent = `The link is in the address bar: both kernels and all settings.${files}`;
  }
};
for (const name of SIDES) {
  const field = byId(`text-${name}`);
  // A browser takes half a minute to lay out megabytes.
  field.addEventListener("paste", (event) => {
    const wrong = tooLong(name, event.clipboardData?.getData("text/plain").length ?? 0);
    if (!wrong) return;
    event.preventDefault();
    fail(wrong);
  });
  droppable(document.querySelector(`[data-label=${name}]`), async (file) => {
    const wrong = tooLong(name, file.size);
    if (wrong) return fail(wrong);
    field.value = await file.text();
    reflect();
  });
}
window.addEventListener("hashchange", fromLink);
begin();
fromLink();
