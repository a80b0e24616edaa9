#!/usr/bin/env python3
"""Loads traces with HolisticTraceAnalysis and prints its breakdowns.

    python3 -m venv /tmp/hta && /tmp/hta/bin/pip install HolisticTraceAnalysis
    /tmp/hta/bin/python tests/trace/hta.py FILE...

FILE is a .trace.json or .trace.json.gz. Exit code 1: a breakdown is empty, or its shares do not add up.
"""

import math
import os
import sys

# The analysis rounds to whole microseconds, which makes slices shorter than that negative; ours need no rounding.
os.environ.setdefault("HTA_DISABLE_NS_ROUNDING", "1")
# Python looks for modules beside the script first, where `hta` is this file.
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]

from hta.trace_analysis import TraceAnalysis  # noqa: E402


def analysis(path):
    # A list, so that the rank is read from the file. The last step of a trace is left out by default, for a training
    # job may have been cut off in it; ours are whole.
    path = os.path.abspath(path)
    return TraceAnalysis(trace_files=[path], trace_dir=os.path.dirname(path), include_last_profiler_step=True)


def near(what, got, want, tolerance):
    if not math.isclose(got, want, abs_tol=tolerance):
        return [f"{what} add up to {got}, not to {want}"]
    return []


def faults(path):
    found = []
    loaded = analysis(path)
    kinds, kernels = loaded.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True, num_kernels=1000)
    print(kinds.to_string(index=False), "\n")
    print(kernels.to_string(index=False), "\n")
    if kernels.empty or not kernels["sum (us)"].sum() > 0:
        found.append("the kernel breakdown is empty")
    else:
        # Each share is rounded to a tenth.
        found += near("shares of kernel types", kinds["percentage"].sum(), 100, 0.05 * len(kinds) + 1e-9)
        events = loaded.t.get_trace(0)
        device = events[events["stream"].ne(-1)]
        found += near("kernels", kernels["sum (us)"].sum(), device["dur"].sum(), 0.01)
        if not device["index_correlation"].gt(0).all():
            found.append("device work without the call that launched it")
        # The sums of types are cut to whole microseconds, kernel by kernel. Where streams overlap, time that two types
        # share is counted once.
        if device["stream"].nunique() == 1:
            found += near("kernel types", kinds["sum"].sum(), device["dur"].sum(), len(device))

    idle = loaded.get_idle_time_breakdown(visualize=False)[0]
    print(idle.to_string(index=False), "\n")
    if idle.empty:
        found.append("the idle-time breakdown is empty")
    for stream, part in idle.groupby("stream"):
        if part["idle_time"].sum() > 0:
            found += near(f"idle shares of stream {stream}", part["idle_time_ratio"].sum(), 1, 0.005 * len(part) + 1e-9)

    temporal = loaded.get_temporal_breakdown(visualize=False)
    print(temporal.to_string(index=False), "\n")
    if temporal.empty or not temporal["kernel_time(us)"].sum() > 0:
        found.append("the temporal breakdown is empty")
    else:
        shares = ["idle_time_pctg", "compute_time_pctg", "non_compute_time_pctg"]
        found += near("idle, compute and other time", temporal[shares].sum(axis=1).iloc[0], 100, 0.02)
        # One stream runs one kernel at a time, so both breakdowns agree on idle time. With several, a
        # device is idle only when all of them are.
        if idle["stream"].nunique() == 1:
            found += near("idle time of both kinds", idle["idle_time"].sum(), temporal["idle_time(us)"].sum(), 0.1)
    return found


def main(paths):
    if not paths:
        sys.exit(__doc__)
    bad = False
    for path in paths:
        print(f"== {path}\n")
        for fault in faults(path):
            bad = True
            print(f"WRONG: {fault}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
