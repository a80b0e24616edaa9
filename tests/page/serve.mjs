// Serves the built page as the native command line does: isolated, except the page that opens traces.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize, sep } from "node:path";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".wasm": "application/wasm",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".webmanifest": "application/manifest+json",
};

/// Bytes that a slow server sends at a time.
const PIECE = 16 << 10;

/// Resolves to { address, events, close }; `events` collects the page's posts. Plain file servers isolate nothing; `runs` is
/// another folder, served as runs/; `below` is a path that everything else lies below, as the page does in a site. A slow one sends
/// 16 kB at a time. `more` are headers of every answer.
export async function serve(folder, { isolated = true, runs, below = "", slow = false, port = 0, more = {} } = {}) {
  const events = [];
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname).replace(below, "");
    if (request.method === "POST" && path === "/api/events") {
      let body = "";
      for await (const part of request) body += part;
      // A line for each event.
      events.push(...body.trim().split("\n").map((line) => JSON.parse(line)));
      response.writeHead(200).end();
      return;
    }
    const root = runs && path.startsWith("/runs/") ? runs : folder;
    const file = normalize(join(root, root === runs ? path.slice("/runs".length) : path.endsWith("/") ? `${path}index.html` : path));
    const headers = { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream", "Cache-Control": "no-store", ...more };
    if (isolated && !file.endsWith("open-trace.html")) {
      headers["Cross-Origin-Opener-Policy"] = "same-origin";
      headers["Cross-Origin-Embedder-Policy"] = "require-corp";
    }
    try {
      if (!file.startsWith(normalize(root + sep))) throw new Error("outside");
      const bytes = await readFile(file);
      response.writeHead(200, headers);
      for (let at = 0; slow && at < bytes.length; at += PIECE) {
        response.write(bytes.subarray(at, at + PIECE));
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      response.end(slow ? undefined : bytes);
    } catch {
      response.writeHead(404, headers).end();
    }
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    address: `http://127.0.0.1:${server.address().port}/`,
    port: server.address().port,
    events,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
