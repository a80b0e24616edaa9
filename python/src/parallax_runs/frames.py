"""Rows as tables of pandas and polars. Neither is needed until it is asked for."""

from .reading import load


def rows_of(files):
    """The rows of several run files, one after the other."""
    return [row for file in files for row in load(file).rows()]


def pandas(rows):
    """A pandas.DataFrame of rows. Raises ImportError where pandas is missing."""
    from pandas import DataFrame

    return DataFrame(rows)


def polars(rows):
    """A polars.DataFrame of rows. Raises ImportError where polars is missing."""
    from polars import DataFrame

    # Columns that begin with absent values have their type from later rows.
    return DataFrame(rows, infer_schema_length=None)
