#!/usr/bin/env python3
"""Reads a run file of Parallax: the median of each case, and the kernel that its trace names.

    python tools/torch/recorded.py docs/results/2026-11-22-h200/cuda.json

prints them. `events.py` imports this; it stands alone so that it can be tried without a GPU and without PyTorch.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "src"))

from parallax_runs import objects  # noqa: E402
from sensors import of_record  # noqa: E402


def read(file):
    """Medians in nanoseconds by case, kernels by case where one was traced, and which Parallax it was."""
    found = json.loads(Path(file).read_text())
    medians, kernels = {}, {}
    for record in found["records"]:
        if not record.get("timing"):
            continue
        medians[record["case"]] = record["timing"]["summary"]["median"]
        spans = objects((record.get("trace") or {"spans": []})["spans"])
        named = [span.get("symbol") or span["name"] for span in spans if span["kind"] == "kernel"]
        kernels.update({record["case"]: name for name in named[:1]})
    return medians, kernels, "Parallax {version} ({commit})".format(**found["suite"])


def conditions(file):
    """Medians of the card's sensors by case, where the run has them."""
    records = [record for record in json.loads(Path(file).read_text())["records"] if record.get("timing")]
    found = {record["case"]: of_record(objects(record["timing"].get("conditions", []))) for record in records}
    return {case: card for case, card in found.items() if card}


if __name__ == "__main__":
    for file in sys.argv[1:]:
        medians, kernels, version = read(file)
        if not medians:
            sys.exit(f"{file}: no case has a time")
        print(f"{file}: {version}")
        for case, median in medians.items():
            print(f"  {case}: {median / 1e3:.3f} µs, {kernels.get(case, 'no kernel was traced')}")
