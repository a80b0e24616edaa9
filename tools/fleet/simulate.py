"""Simulated fleets: copies of a recorded run with the noise of cards and runs, and planted faults.

    python simulate.py make docs/results/2026-11-29-h200-tax/cuda.json FOLDER
    parallax fleet FOLDER --format json --output fleet.json
    python simulate.py judge FOLDER fleet.json

`make` writes a run file per card and run, and `planted.txt` with the faults. `judge` prints the faults that were found, and the false
alarms; it exits with code 1 if a fault is missing or more than 1 % of the cards have a false alarm.

Cards differ by 0.5 %, runs of a card by 0.3 % and cases of a run by 0.2 % (standard deviations of log times); one run of fifty stands
beside other load, which slows it by 3 % on average.
"""

import argparse
import copy
import gzip
import json
import math
import pathlib
import random
import sys

KINDS = ["slow", "slow memory", "slow at times", "wrong"]
OF_HOST = 8


def chosen(run, count):
    """Returns a run with `count` of its cases that have a time and a ceiling: half of them bound by memory, each half evenly spread."""
    records = [r for r in run["records"] if r["outcome"] == "pass" and r.get("timing") and r.get("analysis")]
    halves = [[r for r in records if (r["analysis"]["bound"] == "memory") == memory] for memory in [True, False]]
    run["records"] = [r for half in halves for r in half[:: max(1, 2 * len(half) // count)][: count // 2]]
    run["planned"] = [r["case"] for r in run["records"]]
    for record in run["records"]:
        record["trace"], record["phases"], record["call"] = None, [], None
        record["timing"]["conditions"] = {"rows": 0, "columns": {}}
        record["timing"]["discarded"] = {"rows": 0, "columns": {}}
    return run


def scale(timing, factor):
    """Multiplies the times of a case by a factor, in place."""
    timing["samples"] = [float(f"{t * factor:.7g}") for t in timing["samples"]]
    timing["host_samples"] = [float(f"{t * factor:.7g}") for t in timing["host_samples"]]
    summary = timing["summary"]
    for name in ["median", "low", "high", "q1", "q3", "min", "max"]:
        summary[name] *= factor
    if timing.get("slope"):
        for name in ["execution", "low", "high"]:
            timing["slope"][name] *= factor


def make(args):
    draw = random.Random(args.seed)
    base = chosen(json.loads(pathlib.Path(args.run).read_text()), args.cases)
    folder = pathlib.Path(args.folder)
    faulty = draw.sample(range(args.cards), 12)
    planted = {card: KINDS[i % len(KINDS)] for i, card in enumerate(faulty)}
    for card in range(args.cards):
        own = draw.gauss(0, 0.005)
        fault = planted.get(card)
        host = folder / f"node{card // OF_HOST:04}"
        host.mkdir(parents=True, exist_ok=True)
        for number in range(args.runs):
            run = copy.deepcopy(base)
            run["started"] = base["started"] + 86_400 * number + card
            run["environment"]["host"] = host.name
            run["devices"][0]["identity"] = {"pci": f"0000:{16 * (card % OF_HOST) + 5:02x}:00.0", "uuid": f"GPU-{card:05}"}
            load = -0.03 * math.log(1 - draw.random()) if draw.random() < 0.02 else 0
            speed = own + draw.gauss(0, 0.003) + load
            speed += 0.05 if fault == "slow" else 0
            speed += 0.15 if fault == "slow at times" and number % 3 == 1 else 0
            for at, record in enumerate(run["records"]):
                memory = 0.08 if fault == "slow memory" and record["analysis"]["bound"] == "memory" else 0
                scale(record["timing"], math.exp(speed + memory + draw.gauss(0, 0.002)))
                if fault == "wrong" and at == card % len(run["records"]) and number % 2 == 0:
                    record["outcome"], record["timing"], record["analysis"] = "fail", None, None
                    record["check"]["passed"] = False
            text = json.dumps(run, separators=(",", ":")).encode()
            (host / f"{card:05}-{number:02}.json.gz").write_bytes(gzip.compress(text, 1))
    lines = [f"GPU-{card:05}\t{kind}\n" for card, kind in sorted(planted.items())]
    (folder / "planted.txt").write_text("".join(lines))
    print(f"{args.cards * args.runs} run files of {args.cards} cards, {len(base['records'])} cases each")


def judge(args):
    planted = dict(line.split("\t") for line in (pathlib.Path(args.folder) / "planted.txt").read_text().splitlines())
    fleet = json.loads(pathlib.Path(args.fleet).read_text())
    found = {}
    for alarm in fleet["alarms"]:
        if alarm["fault"] != "fast":
            group = alarm.get("group", "")
            found.setdefault(fleet["cards"][alarm["card"]]["uuid"], []).append(f"{alarm['fault']} {group}".strip())
    for card, kind in planted.items():
        print(f"{card}  planted {kind:14} found {', '.join(found.get(card, ['nothing']))}")
    missed = [card for card in planted if card not in found]
    false = {card: faults for card, faults in found.items() if card not in planted}
    for card, faults in false.items():
        print(f"{card}  planted nothing        found {', '.join(faults)}")
    healthy = len(fleet["cards"]) - len(planted)
    share = 100 * len(false) / healthy
    print(f"found {len(planted) - len(missed)} of {len(planted)}; false alarms on {len(false)} of {healthy} cards ({share:.2f} %)")
    return 1 if missed or share > 1 else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make", help="write the run files")
    making.add_argument("run", help="recorded run, as a .json file")
    making.add_argument("folder")
    making.add_argument("--cards", type=int, default=1250)
    making.add_argument("--runs", type=int, default=8)
    making.add_argument("--cases", type=int, default=24)
    making.add_argument("--seed", type=int, default=1)
    making.set_defaults(command=make)
    judging = commands.add_parser("judge", help="compare the alarms with the planted faults")
    judging.add_argument("folder")
    judging.add_argument("fleet", help="output of `parallax fleet --format json`")
    judging.set_defaults(command=judge)
    args = parser.parse_args()
    return args.command(args)


if __name__ == "__main__":
    sys.exit(main())
