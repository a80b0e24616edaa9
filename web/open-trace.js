// The page that hands a trace to the Perfetto UI: see perfetto.js.

import { openInPerfetto, pickUp } from "./perfetto.js";

const button = document.getElementById("open");
const line = document.getElementById("line");
const told = {
  sent: "Perfetto has the trace. You can close this page.",
  silent: "Perfetto did not answer. Try again, or download the trace and open it at ui.perfetto.dev.",
};
try {
  const trace = await pickUp();
  if (trace) {
    line.textContent = trace.title;
    button.disabled = false;
    button.onclick = () => {
      const opened = openInPerfetto(trace.bytes, trace.title, (outcome) => { line.textContent = told[outcome]; });
      line.textContent = opened
        ? "Waiting for Perfetto…"
        : "The browser blocked the new tab. Allow pop-ups for this page and press again.";
    };
  } else {
    line.textContent = "There is no trace here. Finish a run and press “Open trace in Perfetto” there.";
  }
} catch (error) {
  line.textContent = `The trace could not be read: ${error}. Download it instead and open it at ui.perfetto.dev.`;
}
