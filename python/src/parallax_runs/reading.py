"""Reading of run files: one JSON value, or lines of events while a run continues or after it was killed."""

import gzip
import json
from pathlib import Path

from .run import Run

SCHEMA = "parallax.run"
# Newest version of the schema that this reader knows.
VERSION = 3
# Bytes of the largest file, unpacked.
MOST_BYTES = 256 << 20


class RunError(ValueError):
    """A file that is no readable run. The message has the file, the fault and the next step."""


def load(file):
    """Returns the run of a file, `.json` or `.json.gz`.

    Of an unclosed file, everything up to the last whole line counts, and `Run.finished` is false.

    Raises RunError for a file that is no run or of a newer version, and OSError for one that cannot be read.
    """
    text = _text(file)
    try:
        found = _value(text)
        _check(found)
        return Run(str(file), found)
    except RunError as error:
        raise RunError(f"{file}: {error}") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunError(f"{file}: not a valid run ({type(error).__name__}: {error}); measure again, or correct the file") from None


def _text(file):
    path = Path(file)
    opened = gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    try:
        with opened as stream:
            contents = stream.read(MOST_BYTES + 1)
    except EOFError as error:
        raise RunError(f"{file}: {error}; fetch the file again") from None
    except gzip.BadGzipFile as error:
        raise RunError(f"{file}: {error}; its name ends in .gz") from None
    if len(contents) > MOST_BYTES:
        raise RunError(f"{file}: more than {MOST_BYTES >> 20} MiB; this is no run file")
    try:
        return contents.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RunError(f"{file}: no text in UTF-8; this is no run file") from None


def _number(name):
    raise RunError(f"{name} is no number of JSON; measure again, or correct the file")


def _parsed(text):
    return json.loads(text, parse_constant=_number)


def _value(text):
    """The run as one object. Events of an unclosed file are folded into it."""
    lines = text.splitlines()
    try:
        first = _parsed(lines[0] if lines else "")
    except json.JSONDecodeError:
        # A finished file may have any line breaks.
        try:
            return _parsed(text)
        except json.JSONDecodeError as error:
            raise RunError(f"no JSON ({error}); this is no run file") from None
    if not (isinstance(first, dict) and first.get("event") == "begin"):
        return first
    run = first["run"]
    records = {}
    for line in lines[1:]:
        try:
            event = _parsed(line)
        except json.JSONDecodeError:
            break
        if event["event"] in ("sampling", "record"):
            records[event["record"]["case"]] = event["record"]
    return {**run, "records": list(records.values()), "interrupted": "the file is not closed"}


def _check(found):
    if isinstance(found, dict) and "traceEvents" in found:
        raise RunError("a trace, for viewers; the run is in the file beside it, without `.trace` in its name")
    if not isinstance(found, dict) or "schema" not in found:
        raise RunError("no `schema` field; this is no run file")
    if found["schema"] != SCHEMA:
        raise RunError(f"its schema is {str(found['schema'])[:80]!r}, not {SCHEMA!r}; this is no run file")
    if not isinstance(found["version"], int) or found["version"] > VERSION:
        raise RunError(f"schema version {str(found['version'])[:20]}, this reader knows up to {VERSION}; update parallax-runs")
