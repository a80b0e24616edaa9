"""Reader of the run files of Parallax."""

from .columns import objects
from .frames import pandas, polars, rows_of
from .reading import RunError, load
from .run import Run

__all__ = ["Run", "RunError", "load", "objects", "pandas", "polars", "rows_of"]
