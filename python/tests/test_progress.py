"""Lines of progress in terminals and notebooks."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import simjoin
from simjoin import _progress

LINE = "joining: " + "258,515 candidates, " * 8


class Shown:
    """The output of a cell, which is shown in the place of the one before."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        self.texts.append(data["text/plain"])
        return SimpleNamespace(update=self.update)

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.texts.append(data["text/plain"])


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """A process that looks like the kernel of a notebook."""
    shown, module = Shown(), ModuleType("IPython.display")
    module.display = shown.display  # type: ignore[attr-defined]
    for name in ("ipykernel", "IPython"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    return shown


def test_a_notebook_keeps_no_lines(notebook: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    assert _progress.is_wanted()
    with _progress.Progress() as progress:
        assert progress.columns >= 100
        for step in range(3):
            progress(f"{step} {LINE}"[: progress.columns])
    assert len(notebook.texts) == 4 and notebook.texts[-1] == ""
    assert all("258,515 candidates" in text for text in notebook.texts[:3])
    # Standard error would stay, in red.
    assert capsys.readouterr() == ("", "")


def test_a_short_query_shows_nothing(notebook: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "PATIENCE", 60.0)
    assert simjoin.connect().sql("SELECT 1 AS x").to_pylist() == [{"x": 1}]
    assert notebook.texts == []


def test_a_terminal_has_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    monkeypatch.setenv("COLUMNS", "50")
    with _progress.Progress() as progress:
        assert progress.columns == 39
        progress(LINE)
    shown = capsys.readouterr().err
    first, blank, end = shown.split("\r")[1:]
    assert len(first) == 49 and blank == " " * 49 and end == ""
