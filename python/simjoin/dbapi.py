"""Python's DB-API, by the driver of ADBC in this package.

It needs ``adbc_driver_manager`` and ``pyarrow``:

    import simjoin.dbapi

    with simjoin.dbapi.connect(memory_limit="4g") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT jaccard([1, 2], [1]) >= $1", (0.5,))
        cursor.fetchone()

Other programs in the process of a Python load the driver by ``driver()`` and ``ENTRYPOINT``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _native
from ._context import setting
from ._frame import _library

#: The name of the driver's entry point.
ENTRYPOINT = "SimjoinDriverInit"

apilevel = "2.0"
threadsafety = 1
paramstyle = "numeric"


def driver() -> str:
    """Gives the path of the library that has the driver."""
    path: str = str(_native.__file__)
    return path


def connect(
    *,
    memory_limit: str | int | None = None,
    disk_limit: str | int | None = None,
    device: str | None = None,
    threads: int | None = None,
    batch_size: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Opens a session, and gives a connection of ``adbc_driver_manager.dbapi`` to it.

    The arguments are those of ``simjoin.connect``. Statements are transactions, each for itself.
    """
    given = {
        "simjoin.memory_limit": memory_limit,
        "simjoin.disk_limit": disk_limit,
        "simjoin.batch_size": batch_size,
        "simjoin.device": device,
        "datafusion.execution.target_partitions": threads,
        **(options or {}),
    }
    return _library("adbc_driver_manager.dbapi").connect(
        driver=driver(),
        entrypoint=ENTRYPOINT,
        db_kwargs={name: setting(value) for name, value in given.items() if value is not None},
        autocommit=True,
    )
