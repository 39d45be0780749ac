"""Names and texts in statements."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Gives a name as SQL has it in quotes."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Gives a text as SQL has it in quotes."""
    return "'" + value.replace("'", "''") + "'"
