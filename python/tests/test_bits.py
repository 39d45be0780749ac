"""Rows of zeros and ones are no sets: the places of the ones are."""

from __future__ import annotations

from typing import Any

import pytest

import simjoin

numpy = pytest.importorskip("numpy")


def fingerprints(kind: str = "uint8", rows: int = 300) -> Any:
    """Gives random bits, in which row 1 is row 0 but for a bit."""
    bits = numpy.random.default_rng(1).integers(0, 2, (rows, 64)).astype(kind)
    bits[1] = bits[0]
    bits[1, 0] = 1 - bits[1, 0]
    return bits


@pytest.mark.parametrize("kind", ["uint8", "int64", "uint64"])
def test_a_matrix_of_bits_is_refused(kind: str) -> None:
    bits = fingerprints(kind)
    for call in (
        lambda: simjoin.near_duplicates({"f": bits}, "f", 0.7),
        lambda: simjoin.near_duplicates({"f": bits}, "f", measure="overlap", at_least=1),
        lambda: simjoin.clusters(bits, at_least=0.7),
        lambda: simjoin.deduplicate({"f": bits.tolist()}, "f", 0.7),
        lambda: simjoin.match({"f": bits}, {"f": [[1, 2, 3]]}, "f", 0.7),
        lambda: simjoin.join({"f": [[1, 2, 3]]}, {"f": bits}, "f", 0.7),
        lambda: simjoin.nearest({"f": bits}, on="f", k=2),
    ):
        with pytest.raises(simjoin.PlanError) as raised:
            call()
        assert "lists of 0 and 1 alone" in raised.value.message
        assert "np.flatnonzero" in str(raised.value.hint)


def test_frames_of_bits_are_refused(kind: str) -> None:
    from conftest import make, rows_of

    # Beyond a batch, where a last row may tell.
    columns = {"f": [[0, 1, 1]] * 20_000, "k": list(range(20_000))}
    with pytest.raises(simjoin.PlanError, match="lists of 0 and 1 alone"):
        simjoin.near_duplicates(make(kind, columns), "f", keys="k")
    columns["f"][-1] = [0, 1, 2]
    assert rows_of(simjoin.near_duplicates(make(kind, columns), "f", keys="k")) == []


def test_what_is_no_matrix_of_bits_goes_on() -> None:
    for rows, pairs in [
        ([[0, 1], [1, 0], [1]], 1),
        ([[0, 1, 2], [0, 1, 2]], 1),
        ([[1, None, 0, 2**63], [1, 0, 2**63]], 1),
        ([[0, 1, -1], [0, 1, -1]], 1),
        ([[], []], 0),
        ([[1, 1], None, [1]], 1),
    ]:
        assert len(simjoin.near_duplicates({"s": rows}, "s", 1.0)["left"]) == pairs
    vectors = {"v": [[0, 1, 1], [0, 1, 1]]}
    assert simjoin.near_duplicates(vectors, "v", measure="euclidean", at_most=0.5)["score"] == [0.0]


def test_places_of_ones_have_the_tanimoto_coefficient() -> None:
    bits = fingerprints()
    found = simjoin.near_duplicates({"f": [numpy.flatnonzero(row) for row in bits]}, "f", 0.9)
    both, either = (bits[0] & bits[1]).sum(), (bits[0] | bits[1]).sum()
    assert found == {"left": [0], "right": [1], "score": [both / either]}


def test_booleans_and_bytes_say_the_way() -> None:
    for wrong in (fingerprints("bool"), [[True, False, True]]):
        with pytest.raises(simjoin.PlanError, match="Boolean") as raised:
            simjoin.near_duplicates({"f": wrong}, "f")
        assert "np.flatnonzero(row)" in str(raised.value.hint)
    packed = [row.tobytes() for row in numpy.packbits(fingerprints(), axis=1)]
    with pytest.raises(simjoin.PlanError, match="Binary") as raised:
        simjoin.near_duplicates({"f": packed}, "f")
    assert "np.unpackbits" in str(raised.value.hint)
