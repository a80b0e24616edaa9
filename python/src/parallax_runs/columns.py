"""Lists of objects that a run file stores by column."""

from itertools import accumulate

# Rows of the longest list; a list of the program has fewer.
MOST_ROWS = 10_000_000


def values(column, rows):
    """The values of one column, one for each row, from any form of a column."""
    [(form, content)] = column.items()
    if form == "all":
        return [content] * rows
    if form == "each":
        return content
    if form == "runs":
        if sum(count for _, count in content) != rows:
            raise ValueError(f"repeated values are not {rows} in all")
        return [value for value, count in content for _ in range(count)]
    if form == "steps":
        return list(accumulate(content))
    if form == "words":
        words, at = content
        return [words[i] for i in at]
    raise ValueError(f"no such form of a column: {form}")


def objects(stored):
    """A list of objects that is stored by column, or as it is in files of older versions. Null values are left out."""
    if isinstance(stored, list):
        return stored
    count = stored["rows"]
    if not 0 <= count <= MOST_ROWS:
        raise ValueError(f"{count} rows; a list has 0 to {MOST_ROWS}")
    columns = {name: values(column, count) for name, column in stored["columns"].items()}
    broken = [name for name, column in columns.items() if len(column) != count]
    if broken:
        raise ValueError(f"not {count} rows: {', '.join(broken)}")
    return [{name: column[row] for name, column in columns.items() if column[row] is not None} for row in range(count)]
