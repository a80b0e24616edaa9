"""Tests of the reader: `python -m unittest discover python/tests`. They need nothing but Python."""

import gzip
import json
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "src"))

from parallax_runs import RunError, load, objects, rows_of  # noqa: E402

RECORDED = HERE.parents[2] / "docs" / "results"
CASE = "copy/fwd/n64/f32/vec4"


def record(case=CASE, **more):
    timing = {"samples": [10.0, 12.0], "summary": {"median": 11.0, "low": 10.0, "high": 12.0, "n": 2}}
    cost = {"flops": 0, "read": 55, "written": 55}
    return {"case": case, "outcome": "pass", "cost": cost, "timing": timing, **more}


def run(*records, **more):
    return {
        "schema": "parallax.run", "version": 3, "suite": {"version": "0.1.0", "commit": "abc"}, "target": "cuda", "started": 1,
        "devices": [{"name": "X <b>"}], "planned": [CASE], "records": list(records), "interrupted": None, **more,
    }


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def written(self, contents, name="run.json"):
        path = self.folder / name
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return path


class Columns(unittest.TestCase):
    def test_every_form_has_a_value_for_each_row(self):
        for form, want in [
            ({"all": 7}, [7, 7, 7]),
            ({"each": [1, 2, 3]}, [1, 2, 3]),
            ({"runs": [["a", 2], ["b", 1]]}, ["a", "a", "b"]),
            ({"steps": [10, 1, -2]}, [10, 11, 9]),
            ({"words": [["x", "y"], [0, 1, 0]]}, ["x", "y", "x"]),
        ]:
            self.assertEqual(objects({"rows": 3, "columns": {"a": form}}), [{"a": value} for value in want])
        self.assertEqual(objects({"rows": 1, "columns": {"a": {"all": None}}}), [{}])
        self.assertEqual(objects([{"a": 1}]), [{"a": 1}])

    def test_promised_rows_must_be_there(self):
        for stored in [
            {"rows": 3, "columns": {"a": {"each": [1]}}},
            {"rows": 1, "columns": {"a": {"runs": [["x", 1_000_000_000]]}}},
            {"rows": 1_000_000_000, "columns": {"a": {"all": 1}}},
            {"rows": -1, "columns": {}},
            {"rows": 1, "columns": {"a": {"other": 1}}},
        ]:
            with self.assertRaises(ValueError):
                objects(stored)


class Runs(Folder):
    def test_a_record_is_a_row(self):
        text = json.dumps(run(record(check={"worst_ratio": 0.5, "errors": {"rms_ulps": 0.25}}), record("a/b/c/d/e", timing=None, outcome="skipped", reason="why")))
        for contents, name in [(text, "run.json"), (gzip.compress(text.encode()), "run.json.gz"), ("\ufeff" + text, "bom.json")]:
            found = load(self.written(contents, name))
            first, second = found.rows()
            self.assertEqual((first["case"], first["problem"], first["median_ns"], first["samples"]), (CASE, "copy/fwd/n64/f32", 11.0, 2))
            self.assertEqual((first["bytes_per_s"], first["rms_ulps"], first["worst_of_bound"]), (110 / 11e-9, 0.25, 0.5))
            self.assertEqual((second["outcome"], second["reason"], second["median_ns"]), ("skipped", "why", None))
            self.assertTrue(found.finished)
            self.assertEqual([sample["time_ns"] for sample in found.samples()], [10.0, 12.0])
            self.assertNotIn("<b>", found._repr_html_())

    def test_an_unclosed_file_counts_up_to_its_last_whole_line(self):
        begin = {"event": "begin", "run": run()}
        sampling, ended = {"event": "sampling", "record": record()}, {"event": "record", "record": record(outcome="fail")}
        drift = {"event": "drift", "drift": {}}
        for events, want in [([], []), ([sampling], ["pass"]), ([sampling, drift, ended], ["fail"])]:
            lines = [json.dumps(event) for event in [begin, *events]]
            found = load(self.written("\n".join([*lines, '{"event":"rec'])))
            self.assertEqual([row["outcome"] for row in found.rows()], want)
            self.assertFalse(found.finished)

    def test_every_recorded_run_is_read(self):
        files = sorted(path for path in RECORDED.glob("*/*.json") if '"parallax.run"' in path.read_text()[:40])
        self.assertGreater(len(files), 50)
        rows = rows_of(files)
        self.assertGreater(sum(row["median_ns"] is not None for row in rows), 5000)
        for file in files[-3:]:
            self.assertTrue(load(file).samples(), file)

    def test_other_files_are_refused_with_their_name(self):
        deep = "[" * 100_000 + "]" * 100_000
        broken = run(record())
        del broken["target"]
        for contents, name, said in [
            ("", "empty.json", "no JSON"),
            ("{", "cut.json", "no JSON"),
            (json.dumps(run(record()))[:-20], "cut.json", "no JSON"),
            (b"\xff\xfe", "bytes.json", "UTF-8"),
            ("3", "number.json", "no `schema`"),
            (deep, "deep.json", "not a valid run"),
            ('{"traceEvents": []}', "trace.json", "without `.trace`"),
            ('{"schema": "other"}', "other.json", "'other'"),
            (json.dumps(run(version=4)), "newer.json", "update"),
            (json.dumps(run(record(timing={"summary": {"median": "fast"}}))), "word.json", "not a valid run"),
            (json.dumps(run(record(timing={"summary": {"median": float("nan")}}))), "nan.json", "NaN"),
            (json.dumps(broken), "field.json", "target"),
            (json.dumps(run(devices=[])), "devices.json", "not a valid run"),
            (b"no archive", "run.json.gz", ".gz"),
            (gzip.compress(json.dumps(run()).encode())[:-9], "cut.json.gz", "fetch"),
        ]:
            path = self.written(contents, name)
            with self.assertRaises(RunError, msg=name) as caught:
                load(path)
            self.assertIn(said, str(caught.exception))
            self.assertIn(name, str(caught.exception))
        with self.assertRaises(OSError):
            load(self.folder / "absent.json")


if __name__ == "__main__":
    unittest.main()
