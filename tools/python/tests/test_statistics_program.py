"""The program's statistics are those of the definition, and the commands of docs/statistics.md work as written."""
import contextlib
import re
import shlex
import warnings

import h5py
import numpy as np
import pytest
import statistics_example as by_definition
from conftest import program, tools
from matplotlib.image import imread
from pages import blocks, clone, shell

import annulus
from annulus.pattern import Pattern

TOLERANCE = {"f4": 1e-5, "f8": 1e-12}


def check_against_the_definition(tokens, output, axes="bshd"):
    """Checks all four datasets of the result `output`, made from the file `tokens`; returns the expected numbers."""
    result = annulus.open_result(output)
    told = annulus.settings(result)
    documents = told["input"].get("documents", "none")
    with h5py.File(tokens) as file:
        tensors = [file[name][...].astype("f8") for name in "qkv"]
        boundaries = None if documents == "none" else file[documents][...].tolist()
    if axes == "bhsd":
        tensors = [tensor.swapaxes(1, 2) for tensor in tensors]
    top_keys = result.top_rows.shape[3]
    expected = by_definition.statistics(*tensors, Pattern.of_settings(told), tensors[0].shape[1], boundaries)
    tolerance = TOLERANCE[result.lse.dtype.str[1:]]
    rows = ("batch", "sequence", "head")
    for name in ("entropy", "received"):
        assert sorted(result[name].dims) == sorted(rows)
        found = result[name].transpose(*rows).values
        assert np.abs(found - expected[name]).max() <= tolerance * max(1, np.abs(expected[name]).max()), name
    assert result.entropy.dtype == result.top_weights.dtype == result.lse.dtype
    assert result.received.dtype == np.float64 and result.top_rows.dtype == np.int64
    assert result.entropy.attrs["units"] == "nats"
    listed, weights = (result[name].transpose(*rows, ...).values for name in ("top_rows", "top_weights"))
    order, sorted_weights = expected["top_rows"], expected["top_weights"]  # lists of all keys
    # In float32 two keys with almost the same weight may swap. So the weights of the listed keys are compared.
    of_row = np.zeros((*order.shape[:3], order.shape[3] + 1))  # the last entry is the weight of row -1
    np.put_along_axis(of_row, order % of_row.shape[3], sorted_weights, axis=3)
    there = listed >= 0
    np.testing.assert_array_equal(there, sorted_weights[..., :top_keys] > 0)
    np.testing.assert_allclose(weights, sorted_weights[..., :top_keys], atol=tolerance)
    np.testing.assert_allclose(np.take_along_axis(of_row, listed % of_row.shape[3], 3), weights, atol=tolerance)
    assert (weights[~there] == 0).all() and (listed[~there] == -1).all() and (np.diff(weights, axis=3) <= 0).all()
    if tolerance < 1e-10:
        np.testing.assert_array_equal(listed, order[..., :top_keys])
    return expected


def play_here(name, folder):
    """pages.play() that runs Python commands in this process, because a new process needs seconds to load libraries."""
    printed = ""
    for language, text in blocks(name):
        if language == "yaml":
            (folder / re.match(r"# (\S+\.yaml)\n", text)[1]).write_text(text)
        if language == "python":
            with contextlib.chdir(folder), warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(compile(text, name, "exec"), {})
        for command in text.splitlines() if language == "sh" else ():
            if command.startswith("annulus-tools "):
                tools(*shlex.split(command, comments=True)[1:], folder=folder)
            else:
                printed += shell(command, folder)
    return printed


def test_the_page(tmp_path):
    """The page computes in float32, causal, with GQA and two pairs that share keys; then also with documents, the first
    of which has too few rows to fill the lists."""
    folder = clone(tmp_path)
    printed = play_here("statistics.md", folder)
    assert "within tolerance" in printed and "WRONG" not in printed
    whole = check_against_the_definition(folder / "tokens.h5", folder / "result.h5")
    packed = check_against_the_definition(folder / "tokens.h5", folder / "packed.h5")
    with h5py.File(folder / "packed.h5") as file:
        assert (file["top_rows"][...] == -1).any()
    assert np.abs(whole["received"] - packed["received"]).max() > 0.1
    for name in ("entropy", "received"):
        assert imread(folder / f"{name}.png")[..., :3].std() > 0.02
    page = (folder / "text.html").read_text(encoding="utf-8")
    assert page.count(">word299 <") == 2 and "What row 300 looks at most" in page


@pytest.mark.parametrize("semantics, ranks, more", [
    ("torchscale", 2, ()),                                    # keys filled in count in entropy, and are not listed
    ("paper", 3, ("--set", "distribution.strategy=rotation")),
])
def test_other_semantics_in_the_order_of_pytorch(tmp_path, semantics, ranks, more):
    """In float64 the lists have the same rows. torchscale fills up the last segment: 26 of 64 rows."""
    program("generate", "--output", "bshd.h5", "--sequence", "90", "--heads", "6", "--kv-heads", "3", "--head-dim", "8",
            "--batch", "2", "--dtype", "float64", folder=tmp_path)
    with h5py.File(tmp_path / "bshd.h5") as source, h5py.File(tmp_path / "tokens.h5", "w") as target:
        for name in "qkv":
            target[name] = source[name][...].swapaxes(1, 2)
    (tmp_path / "run.yaml").write_text(
        f"input: {{file: tokens.h5, axes: bhsd}}\n"
        f"attention: {{semantics: {semantics}, causal: false, segments: [64, all], dilations: [2, 3]}}\n"
        f"output: {{file: result.h5, statistics: [received, top, entropy], top_keys: 9}}\n")
    program("run", "run.yaml", *more, ranks=ranks, folder=tmp_path)
    expected = check_against_the_definition(tmp_path / "tokens.h5", tmp_path / "result.h5", axes="bhsd")
    with h5py.File(tmp_path / "result.h5") as file:
        assert file["entropy"].shape == (2, 6, 90) and file["top_rows"].shape == (2, 6, 90, 9)
    given = expected["received"].sum(axis=1)
    seen = np.isfinite(expected["lse"]).sum(axis=1)
    assert (given < seen - 1).any() if semantics == "torchscale" else np.allclose(given, seen)
