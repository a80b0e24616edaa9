// The program that reads files and makes reports: WebAssembly, and the script that goes with it.

/// Milliseconds that one file may take.
const PATIENCE = 120_000;

let loading;
let again = 0;
let asked;
let last = Promise.resolve();

/// The program in the page itself, for pictures. After a failed load the next call tries again.
export function here(glue, program) {
  loading ??= load(glue, program).catch((error) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

async function load(glue, program) {
  const script = new URL(glue, document.baseURI);
  // A script under the same address would bring the instance that broke.
  if (again > 0) script.searchParams.set("again", again);
  const made = await import(script);
  await made.default({ module_or_path: new URL(program, document.baseURI) });
  return made;
}

/// Result of the program for a text and bytes, one after the other. Rejects with `{ refused }`, `{ broke }` or `{ absent }`, each a text.
export function make(glue, program, what, text, bytes) {
  const made = last.then(() => tryToMake(glue, program, what, text, bytes));
  last = made.catch(() => {});
  return made;
}

async function tryToMake(glue, program, what, text, bytes) {
  asked ??= inWorker(glue, program).catch(() => inPage(glue, program));
  const { ask, end } = await asked.catch((error) => {
    asked = undefined;
    throw { absent: error.message };
  });
  const answer = await ask(what, text, bytes);
  if ("made" in answer) return answer.made;
  if ("broke" in answer) {
    end();
    asked = undefined;
  }
  throw answer;
}

/// A program beside the page; a file that breaks it leaves the page intact.
async function inWorker(glue, program) {
  const worker = new Worker(new URL("reading.js", document.baseURI), { type: "module" });
  const post = (message) =>
    new Promise((answer) => {
      const late = setTimeout(() => answer({ broke: `no answer within ${PATIENCE / 1000} s` }), PATIENCE);
      const end = (told) => (clearTimeout(late), answer(told));
      worker.onmessage = ({ data }) => end(data);
      worker.onerror = (event) => (event.preventDefault(), end({ broke: event.message ?? "its script did not load" }));
      worker.postMessage(message, message.bytes ? [message.bytes.buffer] : []);
    });
  const { ready } = await post({ glue, program });
  if (ready) return { ask: (what, text, bytes) => post({ what, text, bytes }), end: () => worker.terminate() };
  worker.terminate();
  throw new Error("no worker");
}

/// The same in the page, for browsers without workers.
async function inPage(glue, program) {
  const made = await here(glue, program);
  const ask = async (what, text, bytes) => {
    try {
      return { made: made[what](text, bytes) };
    } catch (error) {
      return typeof error === "string" ? { refused: error } : { broke: String(error) };
    }
  };
  const end = () => {
    loading = undefined;
    again += 1;
  };
  return { ask, end };
}
