"""The examples of the manual run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


JOBS = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "docs/jobs").glob("*.md")
    if "```python" in page.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("page", ["docs/python.md", "python/README.md", *JOBS])
def test_examples_of_pages(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("numpy", "pandas", "polars", "pyarrow", "adbc_driver_manager", "datafusion"):
        pytest.importorskip(library)
    monkeypatch.chdir(ROOT)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks, page
    names: dict = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
