"""The notebooks run, and their outputs are those in the files."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 6


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("numpy", "pandas", "polars", "pyarrow"):
        pytest.importorskip(library)
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(EXAMPLES)
    cells = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]
    names: dict = {"__name__": "__main__"}
    compared = 0
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), names)
        value = eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None
        shown = [output["data"]["text/plain"] for output in cell["outputs"] if "data" in output]
        # Frames are shown in the width of a terminal.
        if shown and isinstance(value, int | tuple | dict):
            assert repr(value) == "".join(shown[0])
            compared += 1
    assert compared > 0 or name.startswith(("02", "06"))
