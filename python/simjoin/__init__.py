"""Exact similarity joins of data frames.

One call deduplicates, links or clusters a frame of pandas, polars, pyarrow, DuckDB or Ibis, a file,
a dictionary or a list, and gives back the kind that came in:

>>> import simjoin
>>> simjoin.deduplicate(["night watch", "night watch!", "day shift"], at_least=0.8)
['night watch', 'day shift']

``simjoin.connect()`` opens a session with SQL, in which ``SIMJOIN`` joins by similarity.
"""

from . import _native, plot
from ._context import Context, connect
from ._duplicates import clusters, deduplicate, near_duplicates
from ._errors import (
    Error,
    ExecutionError,
    FileError,
    InputError,
    InternalError,
    PlanError,
    ResourcesExhausted,
    SimjoinWarning,
    SQLError,
)
from ._extension import Extension
from ._frame import Explained, Frame, Schema
from ._links import join, link, match, nearest
from ._review import PairComparison, Report, compare, evaluate, missed, report, suggest, thresholds

__version__ = _native.__version__

__all__ = [
    "Context",
    "Error",
    "ExecutionError",
    "Explained",
    "Extension",
    "FileError",
    "Frame",
    "InputError",
    "InternalError",
    "PairComparison",
    "PlanError",
    "Report",
    "ResourcesExhausted",
    "SQLError",
    "Schema",
    "SimjoinWarning",
    "clusters",
    "compare",
    "connect",
    "deduplicate",
    "evaluate",
    "join",
    "link",
    "match",
    "missed",
    "near_duplicates",
    "nearest",
    "plot",
    "report",
    "suggest",
    "thresholds",
]
