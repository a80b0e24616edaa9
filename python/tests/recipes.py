"""Runs the recipes of docs/guide/tables.md on the rows of a recorded session.

    python recipes.py PROGRAM      needs duckdb, pandas, polars and pyarrow
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/guide/tables.md"
SESSION = ROOT / "docs/results/2026-11-29-h200-tax"
RUNS = sorted(str(path) for path in SESSION.glob("*.json"))
# Runs with problems in common.
PAIR = [str(SESSION / name) for name in ("cuda.json", "browser.json")]


def blocks(language):
    """Code blocks of the document in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


def main(program):
    program = str(Path(program).resolve())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, more in [("runs", []), ("samples", ["--samples"])]:
            subprocess.run([program, "report", *RUNS, *more, "--format", "parquet", "--output", f"{name}.parquet"], check=True)
        found = []
        for text in blocks("sql"):
            found.append(("sql", len(duckdb.sql(text).fetchall())))
        for text in blocks("python"):
            names = {}
            exec(compile(text, str(DOCUMENT), "exec"), names)
            found.append(("python", len(names["table"])))
        # Two files of different runs, one of them without any row with a score or a verdict, are one table.
        subprocess.run([program, "report", RUNS[0], "--format", "parquet", "--output", "one.parquet"], check=True)
        subprocess.run([program, "compare", *PAIR, "--format", "parquet", "--output", "two.parquet"], check=True)
        together = duckdb.sql("SELECT count(*), count(ratio) FROM read_parquet(['one.parquet', 'two.parquet'])").fetchall()[0]
    print(f"{len(found)} recipes: {found}; two files: {together}")
    if len(found) < 3 or any(count < 10 for _, count in found) or together[1] < 10:
        sys.exit("a recipe found too few rows")


main(*sys.argv[1:])
