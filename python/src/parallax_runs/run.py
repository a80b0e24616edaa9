"""A run: its device, and a row for each case or sample."""

from html import escape

from .columns import objects


def _figure(value):
    """A number of a file, or None where it has none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is no number")
    return float(value)


# Outcomes by their names in older versions.
OLDER = {"ok": "pass", "wrong": "fail", "failed": "error"}


def _rate(amount, median):
    return amount / (median * 1e-9) if amount and median else None


class Run:
    """A run file. `contents` is the whole JSON, for fields that have no attribute here."""

    def __init__(self, file, contents):
        self.file = file
        self.contents = contents
        self.target = contents["target"]
        # Browser mode: stock, developer or unsafe; None elsewhere.
        self.mode = contents.get("reach")
        # Files of older versions have one device.
        devices = contents.get("devices") or [contents["device"]]
        self.device = devices[0]["name"]
        self.commit = contents["suite"]["commit"]
        # Seconds since 1970.
        self.started = contents["started"]
        self.planned = contents.get("planned", [])
        self.records = contents["records"]
        self.finished = contents.get("interrupted") is None
        # A fault in a record shows while the file is read.
        self._rows = [self._row(record) for record in self.records]

    def rows(self):
        """A dictionary per case, in the order of the file."""
        return [dict(row) for row in self._rows]

    def samples(self):
        """A dictionary per sample: case, position, time of one execution in nanoseconds, and the readings of sensors beside it."""
        found = []
        for record in self.records:
            timing = record.get("timing") or {}
            conditions = objects(timing.get("conditions") or [])
            for i, time in enumerate(timing.get("samples", [])):
                sensors = conditions[i] if i < len(conditions) else {}
                found.append({**sensors, "file": self.file, "case": record["case"], "sample": i, "time_ns": _figure(time)})
        return found

    def _row(self, record):
        case, parts = record["case"], record.get("parts") or {}
        summary = (record.get("timing") or {}).get("summary") or {}
        check, cost = record.get("check") or {}, record.get("cost") or {}
        median = _figure(summary.get("median"))
        return {
            "file": self.file,
            "target": self.target,
            "mode": self.mode,
            "device": self.device,
            "commit": self.commit,
            "started": self.started,
            "case": case,
            "problem": case.rpartition("/")[0],
            **{name: parts.get(name) for name in ("workload", "direction", "dtype", "variant")},
            "outcome": OLDER.get(record["outcome"], record["outcome"]),
            "reason": record.get("reason"),
            "median_ns": median,
            "low_ns": _figure(summary.get("low")),
            "high_ns": _figure(summary.get("high")),
            "samples": summary.get("n"),
            "flops_per_s": _rate(cost.get("flops"), median),
            "bytes_per_s": _rate((cost.get("read") or 0) + (cost.get("written") or 0), median),
            "rms_ulps": _figure((check.get("errors") or {}).get("rms_ulps")),
            "worst_of_bound": _figure(check.get("worst_ratio")),
        }

    def __repr__(self):
        timed = sum(row["median_ns"] is not None for row in self._rows)
        state = "" if self.finished else ", ended early"
        return f"<Run {self.file}: {self.target} on {self.device}, {timed} of {len(self.planned)} cases have a time{state}>"

    def _repr_html_(self):
        def cells(tag, texts):
            return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"

        def line(row):
            low, median, high = row["low_ns"], row["median_ns"], row["high_ns"]
            times = ["", ""] if None in (low, median, high) else [_time(median), f"{_time(low)} to {_time(high)}"]
            return cells("td", [row["case"], *times, row["outcome"], row["reason"] or ""])

        head = cells("th", ["case", "median", "95 %", "outcome", "reason"])
        return f"<p>{escape(repr(self))}</p><table>{head}{''.join(map(line, self._rows))}</table>"


def _time(nanoseconds):
    """A time with its unit, to four digits."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.4g} {unit}"
    return f"{nanoseconds:.4g} ns"
