"""Tries the installed wheel: arrays against the definition, a converted file, a picture, the list of its parts."""
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import annulus


def softmax_attention(q, k, v):
    """Dense and causal, in float64; (B, S, H, D)."""
    scores = np.einsum("bxhd,byhd->bhxy", q, k) / np.sqrt(q.shape[-1])
    scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bhxy,byhd->bxhd", weights, v)


rng = np.random.default_rng(2)
q, k, v = (rng.standard_normal((2, 97, 3, 40)) for _ in range(3))
expected = softmax_attention(q, k, v)
for kind, most in ((np.float64, 1e-12), (np.float32, 1e-5)):
    out, _ = annulus.attention(q.astype(kind), k.astype(kind), v.astype(kind), causal=True)
    error = np.abs(out - expected).max()
    assert error <= most, (kind, error)

with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    np.savez(folder / "tokens.npz", q=q, k=k, v=v)
    tools = [str(Path(sys.executable).with_name("annulus-tools"))]
    subprocess.run([*tools, "convert", folder / "tokens.npz", folder / "tokens.h5", "--axes", "bshd"], check=True)
    opened = annulus.open_input(folder / "tokens.h5")
    assert opened["q"].shape == q.shape and np.array_equal(opened["q"].values, q)
    opened.close()
    figure = annulus.plots.pattern(annulus.Pattern(segments=(16, "all"), dilations=(1, 4)), rows=64)
    figure.savefig(folder / "pattern.png")
    assert (folder / "pattern.png").stat().st_size > 1000

listed = [file for file in importlib.metadata.files("annulus") if file.match("*.dist-info/sboms/annulus.cdx.json")]
assert len(listed) == 1, listed
parts = json.loads(listed[0].locate().read_text(encoding="utf-8"))["components"]
assert any("kokkos" in part["name"].lower() for part in parts) and any("gomp" in part["name"] for part in parts), parts
print("\n".join(f"{name}: {value}" for name, value in annulus.info().items()))
print("== arrays, a file and a picture: right")
