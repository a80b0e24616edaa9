#!/usr/bin/env python3
"""Measures TensorFlow.js and ONNX Runtime Web in a browser on cases of the suite, beside runs of ours.

    npm ci && python models.py models      # once; needs the package onnx
    python run.py --browser chromium --ours results/browser.json --json peers.json > table.md

The page is served from this folder with the headers that give it a fine clock. `--flag` hands a flag to the browser, `--only` keeps
cases with a part in their name. Of ours, the fastest variant of a problem is taken; `ratio` is the peer's time over ours: above one,
ours is faster. Peers are timed by the host's clock over batches of 50 ms and more, ours by the run's own clock.
"""

import argparse
import functools
import http.server
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "torch"))
from recorded import read  # noqa: E402


class Page(http.server.SimpleHTTPRequestHandler):
    """Files of this folder, and the page's posts."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}
    told = None
    ended = threading.Event()

    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(204)
        self.end_headers()
        if self.path.startswith("/result"):
            Page.told = json.loads(body)
            Page.ended.set()
        else:
            print(body.decode(), file=sys.stderr)

    def log_message(self, *_):
        pass


def ours(files):
    """Our fastest variant of each problem: its time in milliseconds and its name, by file."""
    found = {}
    for file in files:
        best = {}
        for case, median in read(file)[0].items():
            problem, variant = case.rsplit("/", 1)
            if problem not in best or median / 1e6 < best[problem][0]:
                best[problem] = (median / 1e6, variant)
        found[Path(file).stem] = best
    return found


def milliseconds(value):
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def table(results, found):
    heads = [f"{name}, ms | ratio" for name in found]
    lines = ["| " + " | ".join(["case", "peer", "ms", "rate", *heads]) + " |"]
    lines.append("| --- | --- | --: | --- |" + " --: | --: |" * len(found))
    for row in results:
        if "ms" not in row:
            lines.append(f"| {row['case']} | {row['peer']} | – | {row.get('skipped') or row.get('error')} |" + " | |" * len(found))
            continue
        cells = [row["case"], row["peer"], milliseconds(row["ms"]), row["rate"]]
        for best in found.values():
            own = best.get(row["case"])
            cells += [f"{milliseconds(own[0])} ({own[1]})", f"{row['ms'] / own[0]:.2f}"] if own else ["–", "–"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--browser", required=True)
    given.add_argument("--flag", action="append", default=[])
    given.add_argument("--ours", nargs="*", default=[])
    given.add_argument("--only", default="")
    given.add_argument("--json")
    given.add_argument("--seconds", type=float, default=600)
    args = given.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Page, directory=HERE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/peers.html?only={args.only}"
    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--no-sandbox", "--no-first-run", f"--user-data-dir={profile}", *args.flag]
        browser = subprocess.Popen([args.browser, *flags, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ended = Page.ended.wait(args.seconds)
        browser.kill()
        browser.wait()
    if not ended:
        sys.exit(f"the page had not ended after {args.seconds:.0f} s")
    told = Page.told
    if args.json:
        Path(args.json).write_text(json.dumps(told, indent=1) + "\n")
    print(f"{told['device']}; {told['browser']}\n")
    print(table(told["results"], ours(args.ours)))


if __name__ == "__main__":
    main()
