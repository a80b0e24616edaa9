"""Writes figures of other libraries in the form that `parallax report` and the site read, from runs of ours and results of `peers.py`.

    python tools/torch/figures.py --ours cuda.json --peers results.json --source docs/results/SESSION > peers.json

`--ours` and `--peers` may name several files of one machine each. A figure needs a time of both sides. The interval of the ratio is that of
the quartiles of both.
"""

import argparse
import json
import sys
from pathlib import Path

from peers import fastest
from recorded import conditions, read


def quartiles(file):
    """First and third quartile of our samples in milliseconds, by case."""
    records = [record for record in json.loads(Path(file).read_text())["records"] if record.get("timing")]
    summaries = {record["case"]: record["timing"]["summary"] for record in records}
    return {case: (summary["q1"] / 1e6, summary["q3"] / 1e6) for case, summary in summaries.items()}


def figure(row, version, own, ours, card, source):
    ms, variant = own
    found = {"problem": row["case"], "peer": f"{version}, {row['peer']}", "target": "cuda"}
    found |= {"nanoseconds": row["ms"] * 1e6, "ours": ms * 1e6, "variant": variant, "source": source}
    if "quartiles" in row:
        found["interval"] = [row["quartiles"][0] / ours[1], row["quartiles"][1] / ours[0]]
    found |= {"card": row["card"]} if row.get("card") else {}
    return found | ({"our_card": card} if card else {})


def figures(runs, results, source):
    medians, spreads, cards = {}, {}, {}
    for run in runs:
        medians |= read(run)[0]
        spreads |= quartiles(run)
        cards |= conditions(run)
    ours, _ = fastest(medians)
    for result in results:
        found = json.loads(Path(result).read_text())
        version = found["version"].split(",")[0]
        for row in (row for row in found["rows"] if "ms" in row and row["case"] in ours):
            own = ours[row["case"]]
            case = f"{row['case']}/{own[1]}"
            yield figure(row, version, own, spreads[case], cards.get(case), source)


def main():
    settings = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings.add_argument("--ours", nargs="+", required=True)
    settings.add_argument("--peers", nargs="+", required=True)
    settings.add_argument("--source", required=True, help="folder of the session, as it is named in the repository")
    args = settings.parse_args()
    device = json.loads(Path(args.peers[0]).read_text())["device"]
    lines = [json.dumps(figure) for figure in figures(args.ours, args.peers, args.source)]
    if not lines:
        sys.exit("no case has a time of both sides")
    print(f'{{"schema":"parallax-peers","device":{json.dumps(device)},"figures":[\n' + ",\n".join(lines) + "\n]}")


if __name__ == "__main__":
    main()
