// A browser on this machine, and nothing downloaded for it.

import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";

/// PARALLAX_BROWSER names it; otherwise one is looked for on the PATH.
function findBrowser() {
  if (process.env.PARALLAX_BROWSER) return process.env.PARALLAX_BROWSER;
  const names = ["google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chromium-headless-shell"];
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
  throw new Error(`no browser: looked for ${names.join(", ")} on the PATH; set PARALLAX_BROWSER`);
}

/// With the browser's software adapter.
export function launch() {
  return chromium.launch({
    executablePath: findBrowser(),
    args: [
      "--no-sandbox",
      "--enable-unsafe-webgpu",
      "--use-webgpu-adapter=swiftshader",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
