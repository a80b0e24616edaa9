// A browser on this machine, and nothing downloaded for it.

import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";

const CHROMIUMS = ["google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chromium-headless-shell"];

/// The one that was chosen, or else the first of these names on the PATH.
export function find(chosen, names) {
  if (chosen) return chosen;
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of names) {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return join(folder, name);
      } catch {
        // Not this one.
      }
    }
  }
  throw new Error(`no browser: looked for ${names.join(", ")} on the PATH`);
}

/// With the browser's software adapter, and these flags besides. PARALLAX_BROWSER names it; otherwise one is looked for on the PATH.
export function launch(...flags) {
  return chromium.launch({
    executablePath: find(process.env.PARALLAX_BROWSER, CHROMIUMS),
    args: [
      "--no-sandbox",
      "--enable-unsafe-webgpu",
      "--use-webgpu-adapter=swiftshader",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      ...flags,
    ],
  });
}
