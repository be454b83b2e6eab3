"""Compares the NumPy program in docs/semantics.md with annulus.attention."""
import numpy as np
import pytest
from pages import blocks

import annulus


@pytest.fixture(scope="module")
def program():
    """The page's function attention()."""
    text, = (text for language, text in blocks("semantics.md") if language == "python")
    names = {}
    exec(compile(text, "docs/semantics.md", "exec"), names)  # noqa: S102
    return names["attention"]


def tensors(rows=23, heads=4, kv_heads=2):
    generator = np.random.default_rng(2)
    return [generator.standard_normal((rows, h, 5)) for h in (heads, kv_heads, kv_heads)]


PATTERNS = {
    "dense": (["all"], [1]),
    "dilated": ([8, "all"], [1, 3]),
    "window": ([{"window": [3, 2]}], [1]),
    "dilated window": ([{"window": [2, 1]}, 8], [3, 1]),
    "window and first rows": ([{"window": [2, 1], "first": 4}, {"window": [1, 0]}], [1, 5]),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("documents", [None, [0, 9, 9, 23], [0, 9, 14]])
@pytest.mark.parametrize("semantics", ["longnet", "paper", "grouped"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_gives_what_the_library_gives(program, pattern, semantics, documents, causal):
    segments, dilations = PATTERNS[pattern]
    q, k, v = tensors()
    words = {"causal": causal, "semantics": semantics, "documents": documents}
    out, lse = program(q, k, v, segments, dilations, **words)
    found = annulus.attention(q[None], k[None], v[None], segments=segments, dilations=dilations, **words)
    assert np.abs(found[0][0] - out).max() <= 1e-12
    np.testing.assert_allclose(found[1][0], lse, rtol=0, atol=1e-12)


@pytest.mark.parametrize("documents", [None, [0, 9, 9, 23]])
@pytest.mark.parametrize("plane", [False, True])
def test_scores(program, plane, documents):
    q, k, v = tensors()
    slopes, places = [0.5, 0.25, 0, 2], np.random.default_rng(3).uniform(-4, 4, (23, 2)) if plane else None
    out, lse = program(q, k, v, [8, "all"], [1, 3], documents=documents, softcap=1.5, slopes=slopes, coordinates=places,
                       exempt=2)
    found = annulus.attention(q[None], k[None], v[None], segments=[8, "all"], dilations=[1, 3], causal=True, softcap=1.5,
                              documents=documents, bias={"alibi": slopes, "exempt": 2}, coordinates=places)
    assert np.abs(found[0][0] - out).max() <= 1e-12
    np.testing.assert_allclose(found[1][0], lse, rtol=0, atol=1e-12)


def test_worked_example_of_scores(program):
    """Row 7 sees row 4, whose score is 3 before softcap and bias, and itself, with score 0. The changed score of row 4
    follows from the LSE."""
    q, k = np.zeros((8, 1, 1)), np.zeros((8, 1, 1))
    q[7], k[4], places = 3, 1, np.zeros((8, 2))
    places[4] = 3, 4
    words = {"segments": [{"window": [1, 0]}], "dilations": [3], "softcap": 2, "slopes": [0.5]}
    for more, expected in ({}, 0.310), ({"coordinates": places}, -0.690), ({"exempt": 5}, 1.810):
        lse = program(q, k, k, **words, **more)[1][7, 0]
        of_key = np.log(np.exp(lse) - 1)  # takes away the key of score 0
        assert abs(of_key - expected) < 1e-3


def test_torchscale(program):
    q, k, v = tensors()
    out, lse = program(q, k, v, [8, "all"], [1, 4], causal=False, semantics="torchscale")
    found = annulus.attention(q[None], k[None], v[None], segments=[8, "all"], dilations=[1, 4], semantics="torchscale")
    assert np.abs(found[0][0] - out).max() <= 1e-12 and np.abs(found[1][0] - lse).max() <= 1e-12


def test_worked_example_of_rows_that_do_not_exist():
    nothing, number = np.zeros((1, 10, 1, 1)), np.arange(10.0).reshape(1, 10, 1, 1)
    out, lse = annulus.attention(nothing, nothing, number, segments=[4], dilations=[1], causal=True, lengths=[[3, 9]])
    for row, keys in ((6, [3, 4, 5, 6]), (8, [7, 8])):
        assert np.exp(lse[0, row, 0]) == pytest.approx(len(keys)) and out[0, row, 0, 0] == pytest.approx(np.mean(keys))
    assert np.isinf(lse[0, [0, 1, 2, 9]]).all()


def test_worked_examples(program):
    """The page's table of windows says which keys a row sees. All scores are equal, so the LSE is the logarithm of the
    number of these keys. Each key's value is its row number, so out is the mean of these numbers."""
    rows = 12
    nothing, number = np.zeros((rows, 1, 1)), np.arange(float(rows)).reshape(rows, 1, 1)
    for segments, dilations, row, keys in [
            ([{"window": [2, 0]}], [3], 10, [10, 7, 4]), ([{"window": [2, 0]}], [1], 10, [8, 9, 10]),
            ([{"window": [1, 0], "first": 2}], [1], 10, [0, 1, 9, 10]), ([{"window": [1, 0], "first": 2}], [1], 2, [0, 1, 2]),
            ([{"window": [2, 0]}, 4], [1, 1], 5, [3, 4, 5, 4, 5])]:
        for attention in (program, lambda q, k, v, *pattern: [x[0] for x in annulus.attention(
                q[None], k[None], v[None], segments=pattern[0], dilations=pattern[1], causal=True)]):
            out, lse = attention(nothing, nothing, number, segments, dilations)
            assert np.exp(lse[row, 0]) == pytest.approx(len(keys)) and out[row, 0, 0] == pytest.approx(np.mean(keys))
