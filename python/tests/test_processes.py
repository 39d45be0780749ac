"""Threads, forks, signals and memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time

import pytest

import simjoin

#: A join of many sets with many candidates, which takes minutes.
LONG = (
    "WITH t AS (SELECT value AS id, [value % 7, value % 11, value % 13, value % 5, value % 3] AS s "
    "FROM generate_series(1, 3000000)) "
    "SELECT count(*) FROM t a JOIN t b ON overlap(a.s, b.s) >= 2 AND a.id < b.id "
    "AND sin(a.id) > cos(b.id)"
)

#: A join of DataFusion's own, whose threads yield to nobody.
UNYIELDING = (
    "SELECT count(*) FROM generate_series(1, 30000) a, generate_series(1, 30000) b "
    "WHERE sin(a.value) > cos(b.value)"
)

TABLE = {"id": list(range(200)), "s": [[i // 2, i // 3, i // 5] for i in range(200)]}
QUERY = (
    "SELECT a.id, b.id AS other FROM t a SIMJOIN t b ON jaccard(a.s, b.s) >= 0.5 AND a.id < b.id "
    "ORDER BY 1, 2"
)


def context() -> simjoin.Context:
    opened = simjoin.connect()
    opened.register("t", TABLE)
    return opened


def test_threads_share_a_context() -> None:
    shared = context()
    expected = shared.sql(QUERY).to_pylist()
    results: list = [None] * 8

    def run(place: int) -> None:
        for _ in range(5):
            results[place] = shared.sql(QUERY).to_pylist()
            texts = [f"text {place} {n % 9}" for n in range(30)]
            assert len(simjoin.deduplicate(texts, at_least=0.99, context=shared)) == 9

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert expected and all(result == expected for result in results)


def test_other_threads_go_on() -> None:
    ticks, done = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    simjoin.connect().sql(
        "SELECT count(*) FROM generate_series(1, 3000000) WHERE sin(value) > 0"
    ).to_pylist()
    done.set()
    thread.join()
    assert ticks > 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_goes_on() -> None:
    parent = context()
    # Enough rows for the engine's threads to have work.
    large = {"s": [[i, i + 1, i + 2, i % 7] for i in range(60_000)]}
    parent.register("large", large)
    count = "SELECT count(*) AS n FROM large a SIMJOIN large b ON jaccard(a.s, b.s) >= 0.5"
    # What a lock of a thread that is not there does to a child, hangs on addresses: some tries.
    for _ in range(8):
        expected = (parent.sql(QUERY).to_pylist(), parent.sql(count).to_pylist())
        child = os.fork()
        if child == 0:
            status = 1
            try:
                same = (parent.sql(QUERY).to_pylist(), parent.sql(count).to_pylist()) == expected
                own = simjoin.deduplicate(["aaaa", "aaaa"]) == ["aaaa"]
                status = 0 if same and own else 2
            finally:
                os._exit(status)
        assert ended(child) == 0
    assert parent.sql(QUERY).to_pylist() == expected[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_statement_goes_on_beside_a_fork() -> None:
    parent = context()
    reader = parent.sql("SELECT value FROM generate_series(1, 1000000)").to_arrow_reader()
    first = next(reader)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert ended(child) == 0
    assert first.num_rows + sum(batch.num_rows for batch in reader) == 1_000_000


def ended(child: int) -> int:
    """The status of a child process, which is given a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def interrupt(run, after: float = 0.5) -> float:
    """Sends Ctrl-C while ``run`` runs; gives the seconds until it ended."""
    sent = 0.0

    def send() -> None:
        nonlocal sent
        time.sleep(after)
        sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        run()
        # A consumer may give its own error, and the signal right behind.
        time.sleep(5)
    ended = time.monotonic()
    sender.join()
    return ended - sent


@pytest.mark.skipif(os.name == "nt", reason="there are no signals")
def test_ctrl_c_cancels() -> None:
    opened = simjoin.connect()
    for run in (
        opened.sql(LONG).to_pylist,
        opened.sql(UNYIELDING).to_pylist,
        opened.sql(LONG).count,
        opened.sql(LONG).cache,
        lambda: opened.sql(LONG).explain(analyze=True),
        lambda: opened.sql(f"CREATE TABLE never AS {LONG}"),
    ):
        # 100 ms on a machine that is not busy.
        assert interrupt(run) < 2
    assert opened.sql("SELECT 1 AS x").to_pylist() == [{"x": 1}]


@pytest.mark.skipif(os.name == "nt", reason="there are no signals")
def test_ctrl_c_cancels_readers_of_other_libraries() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    opened = simjoin.connect()

    def read() -> None:
        try:
            pyarrow.table(opened.sql(LONG))
        except pyarrow.ArrowException:
            time.sleep(0.5)

    assert interrupt(read) < 2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_handlers_of_signals_may_raise() -> None:
    class Late(Exception):
        pass

    def raise_late(*_: object) -> None:
        raise Late

    former = signal.signal(signal.SIGALRM, raise_late)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Late):
            simjoin.connect().sql(LONG).to_pylist()
    finally:
        signal.signal(signal.SIGALRM, former)


def memory_of_1000_queries() -> None:
    """Fails where the memory of this process grows from query to query."""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    opened = context()
    texts = [f"some text {n % 50}" for n in range(100)]

    def run() -> None:
        opened.sql(QUERY).to_pylist()
        opened.register("again", TABLE)
        simjoin.deduplicate(texts, at_least=0.9, context=opened)

    # Two queries a round: 1,000 after those that fill the pools of threads and memory.
    for _ in range(50):
        run()
    before = resident()
    for _ in range(500):
        run()
    assert resident() - before < 16 << 20
    assert sorted(opened._session.tables()) == ["again", "t"]


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_memory_stays_flat_over_1000_queries() -> None:
    # A process of its own: the heap of the other tests has gaps that fill at random.
    folder = os.path.dirname(__file__)
    program = "import test_processes; test_processes.memory_of_1000_queries()"
    subprocess.run([sys.executable, "-B", "-c", program], cwd=folder, check=True, timeout=600)


def test_the_command_line() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "simjoin", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    done = run("-q", "--format", "csv", "-c", "SELECT jaccard([1, 2], [1]) AS j")
    assert (done.returncode, done.stdout) == (0, "j\n0.5\n")
    failed = run("-c", "SELECT jacard([1], [1])")
    assert failed.returncode == 1 and "jaccard" in failed.stderr
    assert run("--version").stdout.strip() == f"simjoin {simjoin.__version__}"
    assert run("--nonsense").returncode == 2


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has its lock built in"
)
def test_the_lock_stays_off() -> None:
    # An extension that does not declare it would have switched the lock on when it was imported.
    assert not sys._is_gil_enabled()


def test_nothing_else_is_imported() -> None:
    script = (
        "import sys, simjoin; simjoin.deduplicate(['aaaa', 'aaaa']);"
        "print([m for m in ('pandas', 'polars', 'pyarrow', 'numpy', 'duckdb') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_buffers_are_not_copied() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    numpy = pytest.importorskip("numpy")
    opened = simjoin.connect()
    numbers = numpy.arange(1000, dtype="int64")
    opened.register("n", {"v": numbers})
    out = opened.table("n").to_arrow_table()["v"].chunk(0)
    assert out.buffers()[1].address == numbers.ctypes.data
    table = pyarrow.table({"s": pyarrow.array(["abc", "d"]), "i": pyarrow.array([1, 2])})
    opened.register("t", table)
    out = opened.table("t").to_arrow_table()
    for column, buffer in (("s", 2), ("i", 1)):
        before = table[column].chunk(0).buffers()[buffer].address
        assert out[column].chunk(0).buffers()[buffer].address == before
    # The engine keeps the memory alive.
    del table, numbers
    assert opened.table("n").count() == 1000
