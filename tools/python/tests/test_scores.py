"""annulus.attention with a softcap, ALiBi and large scores, by the definition; and what is refused."""
import numpy as np
import pytest
import torch
from test_attention import TOLERANCE, WORDS, arrays, by_composition, error

import annulus
from annulus.torch import dilated_attention
from annulus.errors import AnnulusError

PLACES = np.stack(np.divmod(np.arange(37), 6), axis=1) * 0.5
SCORES = [
    {"softcap": 0.5}, {"softcap": 30.0}, {"bias": {"alibi": "auto"}}, {"bias": {"alibi": [0, 0.5, 1, 0.125], "exempt": 5}},
    {"bias": {"alibi": "auto"}, "coordinates": PLACES},
    {"softcap": 2, "bias": {"alibi": "auto", "exempt": 1}, "coordinates": PLACES.astype("f4")},
    {"bias": {"alibi": "auto", "exempt": 1}, "coordinates": np.concatenate([[[-1e7, 1e9]], PLACES[1:] * 0.74])},  # exempt, far
]


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("kind", TOLERANCE)
def test_softcap_and_alibi(kind, scores):
    q, k, v = arrays(kind)
    out, lse = annulus.attention(q, k, v, **WORDS, **scores)
    expected = by_composition(q, k, v, **scores)
    assert error(out, expected[0]) <= TOLERANCE[kind]
    assert error(lse, expected[1]) <= {"float64": 1e-12, "bfloat16": TOLERANCE["bfloat16"]}.get(kind, 1e-5)
    assert annulus.verify(q, k, v, out, lse, **WORDS, **scores)
    if kind in ("float64", "float32"):  # in 16 bits a large cap makes no visible difference
        assert not annulus.verify(q, k, v, *annulus.attention(q, k, v, **WORDS), **WORDS, **scores)


@pytest.mark.parametrize("axes", ["bshd", "bhsd"])
def test_verify_knows_how_large_scores_are_rounded(axes):
    def allowed(lse):
        return pytest.approx(2 * (abs(lse).max() - np.log(2)) * 2**-24)

    q, k, v = arrays(shape=(64, 2, 4, 8))
    k[:, 1] = k[:, 0] + k[:, 1] / 100  # scores are large, their differences are not
    given = [x.swapaxes(1, 2) if axes == "bhsd" else x for x in (100 * q, k, np.sign(v))]
    out, lse = annulus.attention(*given, axes=axes)
    found = annulus.verify(*given, out, lse, axes=axes)
    assert found and found.error_out > 1.5 * found.tolerance and found.tolerance == TOLERANCE["float32"]
    assert 300 < abs(lse).max() < 400 and found.tolerance_out == allowed(lse)
    wrong = out.copy()
    wrong[3, 1, 1, 2] += 1e-4
    assert not annulus.verify(*given, wrong, lse, axes=axes)
    assert not annulus.verify(*given, out, lse * np.float32(1 + 2e-5), axes=axes)
    sink = np.array([-np.inf, 1e3, 1e3, 1e3])  # in all heads but the first, keys have no weight
    found = annulus.verify(*given, out, lse, axes=axes, sink=sink)
    assert found.tolerance_out == allowed(lse[:, 0] if axes == "bhsd" else lse[..., 0])


@pytest.mark.parametrize("heads", [1, 3, 6, 8, 12])
def test_slopes_of_alibi(heads):
    q, k, v = arrays("float64", (1, 20, heads, 4), 1)
    words = {"segments": ["all"], "dilations": [1], "causal": False, "bias": {"alibi": "auto"}}
    assert error(annulus.attention(q, k, v, **words)[0], by_composition(q, k, v, **words)[0]) <= 1e-12


@pytest.mark.parametrize("words, message", [
    ({"softcap": 0}, "softcap is 0.0, expected a number above 0"),
    ({"softcap": "5"}, "softcap is '5', expected a finite number"),
    ({"softcap": 1e40}, "plan: softcap: 1e.40, expected 1e-30 to 1e30"),
    ({"bias": "alibi"}, "bias is 'alibi', expected {'alibi': 'auto' or one slope per head, 'exempt': rows}"),
    ({"bias": {"alibi": "auto", "exemt": 1}}, "bias is .*, expected {'alibi'"),
    ({"bias": {"alibi": [0.5]}}, "plan: bias: 1 slopes, expected one for each of the 4 query heads"),
    ({"bias": {"alibi": [0.5, -1, 0, 0]}}, "plan: bias: a slope of -1 at distances up to 37, expected 0 or more"),
    ({"bias": {"alibi": "auto", "exempt": -1}}, "bias: exempt is -1, expected a whole number, 0 or more"),
    ({"coordinates": PLACES}, "coordinates: without bias nothing reads them"),
    ({"bias": {"alibi": "auto"}, "coordinates": PLACES.T}, r"coordinates is \(2, 37\), expected \(S, 2\)"),
    ({"bias": {"alibi": "auto"}, "coordinates": PLACES[:0]}, r"coordinates is \(0, 2\), expected \(S, 2\)"),
    ({"bias": {"alibi": "auto"}, "coordinates": np.ma.masked_less(PLACES, 2)}, "coordinates has [0-9]+ masked entries"),
    ({"bias": {"alibi": "auto"}, "coordinates": PLACES * 1j}, "coordinates is of complex128, expected an array"),
    ({"bias": {"alibi": "auto"}, "coordinates": PLACES.astype("U9")}, "coordinates is of <U9, expected an array"),
    ({"bias": {"alibi": "auto"}, "coordinates": PLACES[:36]}, "plan: coordinates are 72 numbers, expected two for each of 37"),
    ({"bias": {"alibi": "auto"}, "coordinates": PLACES * np.nan}, r"plan: coordinates\[0\]\[0\] is nan, expected finite"),
    ({"bias": {"alibi": "auto"}, "semantics": "torchscale"}, "plan: bias: keys that torchscale fills in"),
])
def test_scores_that_are_refused(words, message):
    with pytest.raises(AnnulusError, match=message):
        annulus.attention(*arrays(), **words)


@pytest.mark.parametrize("words, message", [
    ({"scale": 0.5}, "scale requires gradients, which it does not have here; expected a number, or .item()"),
    ({"softcap": 2.0}, "softcap requires gradients, which it does not have here; expected a number, or .item()"),
    ({"bias": {"alibi": [0.5] * 4}}, "bias: alibi requires gradients, which it does not have here; expected numbers, or .tolist()"),
    ({"bias": {"alibi": "auto"}, "coordinates": PLACES}, "coordinates requires gradients, which it does not have here; "
                                                         "expected numbers, or .detach()"),
])
def test_gradients_that_would_be_lost_are_refused(words, message):
    def learned(value):
        if isinstance(value, dict):
            return {key: learned(one) for key, one in value.items()}
        return value if isinstance(value, str) else torch.nn.Parameter(torch.as_tensor(value))
    given = [torch.from_numpy(x) for x in arrays("float64")]
    with pytest.raises(AnnulusError) as raised:
        dilated_attention(*given, **learned(words))
    assert str(raised.value) == message
    with torch.no_grad():
        assert torch.equal(dilated_attention(*given, **learned(words)), dilated_attention(*given, **words))


def test_coordinates_that_numpy_does_not_read():
    places = torch.from_numpy(PLACES).bfloat16()
    expected = annulus.attention(*arrays(), bias={"alibi": "auto"}, coordinates=places.tolist())
    for same in (places, torch._neg_view(-places), torch._neg_view(-places.float())):
        found = annulus.attention(*arrays(), bias={"alibi": "auto"}, coordinates=same)
        assert all(map(np.array_equal, found, expected))
        assert np.array_equal(annulus.grid.of(same, 1).column, annulus.grid.of(places.tolist(), 1).column)
    with pytest.raises(AnnulusError, match="^coords requires gradients, which it does not have here; expected numbers"):
        annulus.grid.of(torch.nn.Parameter(places), 1)
