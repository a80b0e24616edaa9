#!/usr/bin/env python3
"""Measures PyTorch on cases of the suite, beside our figures: eager (cuDNN without and with its benchmark) and compiled.

    pip install torch
    python tools/torch/peers.py --ours results/cuda.json --json peers.json > table.md

Time is the device's: a row of launches is one CUDA graph (or, where a call cannot be captured, plain launches), between two events,
long enough that the cost of an event does not count; the figure is the median of many samples, and calls of one case alternate in
random order. Caches are as our `--cache` has them: `hot`, each launch on the same memory, or `cold`, going around enough copies of
it to exceed the last cache twice. f32 is f32: PyTorch may not use TF32.

Rows join with ours by the case without its variant; of ours, the fastest variant that is no vendor's is taken. `ratio` is PyTorch's
time over ours: above one, ours is faster. Behind it, in parentheses, is that of the quartiles of PyTorch's samples. The cards' columns
have medians of SM clock and power during the samples of each side. `--device cpu` is there to try the script; its output is no measurement.
"""

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

import delta_rule
import dense
import experts
import state_space
import torch
from calls import WORKLOADS, calls
from recorded import conditions, read
from sensors import Sensors

LAYOUTS = ["nchw", "nhwc"]
SAMPLE = 5e-3  # Seconds of device work between two events.
MOST_LAUNCHES = 1000
VENDOR = {"vendor", "vendor_tuned"}


def named():
    """The cases that are measured where none are given."""
    both = ["bf16", "f32"]
    planes = ["n8,c64,h128,k3,p1", "n8,c256,h56,k3,p1", "n32,c3,m64,h224,k7,s2,p3"]
    for shape in (f"{shape},{layout}" for shape in planes for layout in LAYOUTS):
        yield from (f"conv2d/{direction}/{shape}/{dtype}" for direction in ("fwd", "bwd") for dtype in both)
    planes = ["n8,c8,h128,k3,p1", "n8,c32,h256,k3,p1", "n8,c64,h512,k3,p1", "n8,c96,h56,k7,p3"]
    for shape in (f"{shape},{layout}" for shape in planes for layout in LAYOUTS):
        yield from (f"depthwise_conv2d/{direction}/{shape}/{dtype}" for direction in ("fwd", "bwd") for dtype in both)
    for workload, shape in [("conv3d", "n2,c32,d32,h64,k3,p1"), ("depthwise_conv3d", "n2,c32,d32,h128,k3,p1")]:
        for layout in ("ncdhw", "ndhwc"):
            yield from (f"{workload}/{way}/{shape},{layout}/{dtype}" for way in ("fwd", "bwd") for dtype in both)
    for shape in ["n65536,v1000,d128", "n262144,v100000,d128", "n1048576,v1000000,d64"]:
        yield from (f"embedding/{direction}/{shape}/f32" for direction in ("fwd", "bwd"))
    for mode in ["sum", "max"]:
        shape = f"b16384,l20,v100000,d128,{mode}"
        yield from (f"embedding_bag/{direction}/{shape}/f32" for direction in ("fwd", "bwd"))
    for shape in ["r100000,g1000,d512,unsorted", "r1000000,g83333,d64,sorted"]:
        yield f"hash_embedding/fwd/{shape}/f32"
    yield from (f"transpose/fwd/{shape}/f32" for shape in ("r8192", "r65536,c1024"))
    yield from (f"reduce/fwd/{shape}/f32" for shape in ("n16777216,sum", "n67108864,sum", "n16777216,max"))
    yield from (f"scan/fwd/{shape}/f32" for shape in ("n8388608,inclusive", "n67108864,inclusive"))
    yield from (f"sort_by_key/fwd/{shape}/f32" for shape in ("n1048576", "n16777216"))
    for shape in ["r1,n262144,k64", "r64,n32000,k64", "r64,n128256,k1", "r64,n128256,k64", "r1024,n32000,k64"]:
        yield from (f"top_k/fwd/{shape}/{dtype}" for dtype in both)
    for shape in ["r1,n128256,k64,t0.8,p0.95", "r64,n128256,k64,t0.8,p0.95"]:
        yield from (f"sample/fwd/{shape}/{dtype}" for dtype in both)
    yield from (f"standard_scaler/fwd/{shape}/f32" for shape in ("n65536,f64", "n1000000,f64"))
    for shape in ["n8,c64,h112,k3,s2,p1,nchw,max", "n64,c64,h112,k3,s2,p1,nhwc,max", "n64,c256,h56,s2,nchw,average"]:
        yield from (f"pool/{direction}/{shape}/f32" for direction in ("fwd", "bwd"))
    for shape in ["nchw,bilinear", "nchw,nearest", "nhwc,nearest"]:
        yield from (f"resize/{direction}/n64,c64,h56,oh112,{shape}/f32" for direction in ("fwd", "bwd"))
    yield "resize/fwd/n128,c3,h512,oh224,nchw,bilinear/f32"
    for shape in ["n2,c256,h100,w136,r1000,p7", "n2,c256,h50,w68,r1000,p7", "n2,c256,h100,w136,r200,p14"]:
        yield from (f"roi_align/fwd/{shape}/{dtype}" for dtype in ("f32", "f16"))
    for shape in ["n1,c64,h64,p1", "n2,c128,h100,w136,p1", "n8,c256,h50,w68,p1", "n8,c512,h25,w34,p1"]:
        yield from (f"deform_conv2d/fwd/{shape}/{dtype}" for dtype in ("f32", "f16"))
    yield from (f"nms/fwd/{shape}/f32" for shape in ("n1000", "n4000", "n16384", "n4000,c80", "n4000,scored", "n16384,scored"))
    for shape in ["b256,h32,kv8,t256,d128,ragged", "b1,s8192,h32,kv8,d128"]:
        yield from (f"rope_append/fwd/{shape}{kind}/bf16" for kind in ("", ",e4m3", ",int8"))
    for shape in ["r131072,n1024", "r32768,n4096", "r8192,n16384", "r4096,n32768"]:
        yield from (f"hadamard/fwd/{shape}/{dtype}" for dtype in both)
    lengths = ["b65536,n1024,c2c", "b16384,n4096,c2c", "b16384,n4096,r2c", "b64,n1048576,c2c", "b1,n4096,m4096,c2c"]
    yield from (f"fft/fwd/{shape}/f32" for shape in lengths)
    for shape in (f"n32,c64,h112,{layout}" for layout in LAYOUTS):
        yield from (f"batch_norm/{direction}/{shape}/f32" for direction in ("fwd", "bwd"))
    for shape in ["r8192,c4096,e4m3", "r8192,c4096,g32,e4m3", "r8192,c4096,g4096,int8", "r16384,c8192,e5m2"]:
        yield f"quantize/fwd/{shape}/bf16"
    yield from dense.named()
    yield from state_space.named()
    yield from delta_rule.named()
    yield from experts.named()


class Way:
    """One way of PyTorch's to compute a problem, on one copy of its memory or on several."""

    def __init__(self, name, tries, copies, device):
        self.name, self.tries, self.copies, self.device = name, tries, copies, device
        self.note = ""
        with self.settings():
            for call in copies:  # The first call compiles, or tries algorithms.
                call()
            self.launches = self.graph = None
            took = self.plain(max(3, len(copies)))
            self.launches = min(MOST_LAUNCHES, max(len(copies), round(SAMPLE / took)))
            if device == "cuda":
                self.capture()

    def settings(self):
        return torch.backends.cudnn.flags(enabled=True, benchmark=self.tries, deterministic=False, allow_tf32=False)

    def row(self, launches):
        for i in range(launches):
            self.copies[i % len(self.copies)]()

    def capture(self):
        """All launches of a sample as one graph. A call that waits for the device cannot be in one."""
        try:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.row(len(self.copies))
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.row(self.launches)
            self.graph = graph
        except RuntimeError as error:
            torch.cuda.synchronize()
            self.note = f"launched one by one: {str(error).splitlines()[0]}"

    def plain(self, launches):
        """Seconds of one launch among several."""
        return self.timed(lambda: self.row(launches), launches)

    def timed(self, work, launches):
        if self.device != "cuda":
            begin = time.perf_counter()
            work()
            return (time.perf_counter() - begin) / launches
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.copies[0]()  # Keeps the device busy until the row is there.
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / launches

    def sample(self):
        with self.settings():
            return self.timed(self.graph.replay, self.launches) if self.graph else self.plain(self.launches)


def held(device):
    return torch.cuda.memory_allocated() if device == "cuda" else 0


def ways(problem, device, cold):
    """Every way to compute a problem. Cold, each goes around as many copies of the inputs as exceed the last cache twice."""
    before = held(device)
    sets = [list(calls(problem, device))]
    if cold and device == "cuda":
        one = max(1, held(device) - before)
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        sets += [list(calls(problem, device)) for _ in range(min(200, 2 * cache // one))]
    for same in zip(*sets):
        name, tries, _ = same[0]
        try:
            yield Way(name, tries, [call for *_, call in same], device)
        except Exception as error:  # Compilers have errors of many kinds, and a row that says so is a result.
            yield name, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def warm_up(way, seconds):
    """Keeps the device busy, so that clocks and power are those of a long run, as they are in ours."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        way.sample()


def measured(problem, device, cold, samples, rest, warm, order, sensors):
    """Result of each way to compute a problem: its median in milliseconds, or the reason of its absence."""
    found, able = [], []
    for way in ways(problem, device, cold):
        if isinstance(way, tuple):
            found.append({"case": problem, "peer": way[0], "failed": way[1]})
        else:
            able.append(way)
    times = {way.name: [] for way in able}
    for way in able:
        warm_up(way, warm)
    for _ in range(samples):
        for way in order.sample(able, len(able)):
            begin = time.perf_counter()
            sensors.current = (problem, way.name)
            times[way.name].append(way.sample())
            sensors.current = None
            time.sleep(rest * (time.perf_counter() - begin))
    for way in able:
        row = {"case": problem, "peer": way.name, "ms": statistics.median(times[way.name]) * 1e3}
        card = sensors.of((problem, way.name))
        row |= {"card": card} if card else {}
        row |= {"quartiles": [1e3 * q for q in statistics.quantiles(times[way.name], n=4)[::2]]} if samples > 1 else {}
        row |= {"least": min(times[way.name]) * 1e3, "most": max(times[way.name]) * 1e3}
        found.append(row | ({"note": way.note} if way.note else {}))
    return found


def fastest(medians):
    """Of our medians in nanoseconds by case: by case without its variant, the fastest one's milliseconds and variant, of the
    kernels that are ours and of the vendor's."""
    ours, vendors = {}, {}
    for case, median in medians.items():
        problem, variant = case.rsplit("/", 1)
        best = vendors if variant in VENDOR else ours
        if problem not in best or median / 1e6 < best[problem][0]:
            best[problem] = (median / 1e6, variant)
    return ours, vendors


def milliseconds(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def card_words(card):
    return f"{card['sm_clock_mhz']:.0f} MHz, {card['power_w']:.0f} W" if card else "—"


def ratio_words(row, own):
    """The ratio, with that of the quartiles of the peer's samples where there are any."""
    low, high = row.get("quartiles", (None, None))
    return f"{row['ms'] / own:.2f}" + (f" ({low / own:.2f} to {high / own:.2f})" if low else "")


def table(rows, medians, cards):
    """Rows beside ours, and the vendor's figures in our own run as peers like any other. `cards` has our sensors by case."""
    ours, vendors = fastest(medians)
    lines = ["| case | peer | ms | our ms | ratio | card | our card |", "| --- | --- | --: | --: | --: | --- | --- |"]
    # A library's case that PyTorch was not asked about says nothing here.
    asked = list(dict.fromkeys(row["case"] for row in rows))
    by_us = [
        {"case": case, "peer": f"our `{variant}`", "ms": ms, "card": cards.get(f"{case}/{variant}")}
        for case, (ms, variant) in vendors.items()
        if case in asked
    ]
    for row in sorted([*rows, *by_us], key=lambda row: asked.index(row["case"])):
        own = ours.get(row["case"])
        told = f"{milliseconds(own[0])} (`{own[1]}`)" if own else "—"
        our_card = card_words(cards.get(f"{row['case']}/{own[1]}") if own else None)
        if "ms" not in row:
            lines.append(f"| {row['case']} | {row['peer']} | — | {told} | {row['failed']} | — | {our_card} |")
            continue
        ratio = ratio_words(row, own[0]) if own else "—"
        cells = [row["case"], row["peer"], milliseconds(row["ms"]), told, ratio, card_words(row.get("card")), our_card]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def arguments():
    settings = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings.add_argument("--ours", type=Path, help="a run of Parallax to set beside it")
    settings.add_argument("--only", nargs="+", choices=WORKLOADS, metavar="WORKLOAD", help="of the named cases, these")
    settings.add_argument("--case", nargs="+", help="other cases, with or without a variant")
    settings.add_argument("--cache", choices=["hot", "cold"], default="hot")
    settings.add_argument("--samples", type=int, default=40)
    settings.add_argument("--rest", type=float, default=0.5, help="pause after a sample, over its time")
    settings.add_argument("--warm", type=float, default=0.5, help="seconds of calls before the samples of a way")
    settings.add_argument("--json", type=Path, help="file for the results")
    settings.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    return settings.parse_args()


def main():
    args = arguments()
    chosen = [case for case in named() if not args.only or case.split("/")[0] in args.only]
    problems = ["/".join(case.split("/")[:4]) for case in args.case] if args.case else chosen
    # A file that cannot be read is an error before anything is measured.
    medians, _, suite = read(args.ours) if args.ours else ({}, {}, "no run of ours")
    cards = conditions(args.ours) if args.ours else {}
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(42)
    order, rows, sensors = random.Random(42), [], Sensors()
    version = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {args.device}, {args.cache}"
    name = torch.cuda.get_device_name() if args.device == "cuda" else "a processor, to try the script"
    for number, problem in enumerate(dict.fromkeys(problems), 1):
        print(f"{number} of {len(problems)}: {problem}", file=sys.stderr)
        try:
            rows += measured(problem, args.device, args.cache == "cold", args.samples, args.rest, args.warm, order, sensors)
        except (RuntimeError, ValueError, KeyError) as error:
            rows.append({"case": problem, "peer": "—", "failed": str(error).splitlines()[0]})
        torch.compiler.reset()
        if args.device == "cuda":
            torch.cuda.empty_cache()
        if args.json:  # After each, so that an interrupted run leaves its results.
            args.json.write_text(json.dumps({"device": name, "version": version, "rows": rows}, indent=1))
    sensors.close()
    print(table(rows, medians, cards))
    print(f"\n{name}; {version}; {suite}")
    for row in (row for row in rows if "note" in row):
        print(f"- {row['case']}, {row['peer']}: {row['note']}")
    return 0 if any("ms" in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
