"""Common mistakes: each gives one line that names the file and what was expected."""
import os
import pickle
import random
import re
import tempfile
import warnings

import h5py
import numpy as np
import pytest
import torch
from conftest import program, tools

import annulus
from annulus import files
from annulus.__main__ import OF_THE_PROGRAM
from annulus.errors import AnnulusError

Q = np.zeros((1, 16, 2, 4), "f4")


def refused(folder, *words):
    """The one line that a command prints."""
    output, message = tools(*words, folder=folder, status=2)
    assert output == "" and message.startswith("annulus-tools: error: ") and message.count("\n") == 1, message
    return message.removeprefix("annulus-tools: error: ").strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A sweep of two cases, a trained layer, and an input."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "sweep.yaml").write_text(
        "input: {generate: {sequence: 64, heads: 4, head_dim: 8}}\n"
        "bench:\n  sweep: [{distribution.strategy: [ring, rotation]}]\n  repeats: 1\n  file: sweep.h5\n")
    program("bench", "sweep.yaml", folder=folder)
    program("generate", "--output", "tokens.h5", "--sequence", "64", "--heads", "4", "--head-dim", "8", folder=folder)
    program("generate", "--output", "x.h5", "--layer", "16", "--sequence", "32", "--heads", "2", "--head-dim", "8",
            folder=folder)
    (folder / "train.yaml").write_text("input: {file: x.h5}\nlayer: {heads: 2}\n"
                                       "train: {steps: 3, rate: 0.1, checkpoint: c.h5}\noutput: {file: trained.h5}\n")
    program("train", "train.yaml", folder=folder)
    return folder


OF_RESULTS = (("report",), ("plot", "lse"), ("plot", "timeline"), ("plot", "traffic"), ("plot", "loss"))


def test_verbs_of_the_program_are_named():
    listed = program("--help")[0].partition("Subcommands:")[2].partition("Example:")[0]
    assert sorted(re.findall(r"^  (\w+)  ", listed, re.MULTILINE)) == sorted(OF_THE_PROGRAM)
    said = refused(None, "run", "my run.yaml")
    assert said == "run is a verb of the program annulus, expected: annulus run 'my run.yaml'"


def test_a_file_of_another_kind_is_named_as_what_it_is(made, results, tmp_path):
    for verb in OF_RESULTS:
        target = "o.html" if verb == ("report",) else "o.png"
        for name, what in (("sweep.h5", "is a sweep of `annulus bench`; expected a result of `annulus run`"),
                           ("tokens.h5", "is an input; expected a result of `annulus run`")):
            assert refused(tmp_path, *verb, made / name, target).startswith(f"{made / name}: {what}"), verb
    assert "is an input; expected a sweep of `annulus bench`: a group cases, or a result" in refused(
        tmp_path, "plot", "strategies", made / "tokens.h5", "o.png")
    for opening, name, what in (
            (annulus.open_sweep, results["ring1"], "is a result of `annulus run` or `annulus train`; expected a sweep"),
            (annulus.open_input, results["ring1"], "is a result of .*; expected an input: datasets q, k, v"),
            (annulus.open_result, made / "tokens.h5", "is an input; expected a result")):
        with pytest.raises(AnnulusError, match=what):
            opening(name)
    assert not list(tmp_path.iterdir())


def test_trainings_are_results(made, tmp_path):
    result = annulus.open_result(made / "trained.h5")
    line, = annulus.plots.loss(result).axes[0].get_lines()
    np.testing.assert_array_equal(line.get_ydata(), result.loss)
    assert len(line.get_xdata()) == 4
    tools("report", made / "trained.h5", "trained.html", folder=tmp_path)
    page = (tmp_path / "trained.html").read_text()
    assert "Loss of every step" in page and "nan" not in page.split("<h2>Pictures</h2>")[0].rpartition("What was measured")[2]
    tools("plot", "pattern", "--result", made / "trained.h5", "pattern.png", folder=tmp_path)
    message = refused(tmp_path, "plot", "lse", made / "trained.h5", "o.png")
    assert message.startswith(f"{made / 'trained.h5'}: result has no lse; expected")
    assert "has no loss; expected the result of annulus train" in refused(
        tmp_path, "plot", "loss", program_result(made), "o.png")


def program_result(folder):
    (folder / "run.yaml").write_text("input: {file: tokens.h5}\noutput: {file: run.h5, overwrite: true}\n")
    program("run", "run.yaml", folder=folder)
    return folder / "run.h5"


def foreign_results(folder):
    """{file that looks like a result: (command, a part of its error text or, if it succeeds, None)}"""
    def make(name, **datasets):
        with h5py.File(folder / name, "w") as file:
            for place, numbers in ({"out": np.zeros((1, 8, 2, 4)), "lse": np.zeros((1, 8, 2))} | datasets).items():
                file[place.replace("__", "/")] = numbers
            for tensor, axes in (("out", "batch sequence head dim"), ("lse", "batch sequence head")):
                if file[tensor].ndim == len(axes.split()):
                    file[tensor].attrs["axes"] = axes
    ranks = {"run__rows": [4, 4], "run__hop_compute_seconds": np.ones((2, 2)), "run__hop_wait_seconds": np.ones((2, 2))}
    make("flat.h5", out=np.zeros(9), **ranks)
    make("run.h5", run=[1, 2])
    make("ranks.h5", **ranks, run__kept=[1.0, 2.0, 3.0])
    make("deep.h5", **ranks, run__hop_kept=np.zeros((2, 2, 2)))
    make("hops.h5", **ranks | {"run__hop_wait_seconds": np.ones((2, 3))})
    make("matrix.h5", **ranks, run__bytes_from=np.zeros((2, 3)))
    make("words.h5", **ranks, run__settings="input: [")
    make("list.h5", **ranks, run__settings="- 1\n- 2\n")
    make("none.h5", **ranks)
    return {"flat.h5": (("show",), "dataset out has shape (9,) and axes"),
            "run.h5": (("show",), None),  # no group /run: `show` prints the tensors of any such file
            "ranks.h5": (("show",), "dataset /run/kept has shape (3,); expected an entry for each of 2 ranks"),
            "deep.h5": (("show",), "dataset /run/hop_kept has shape (2, 2, 2); expected an entry for each of 2 ranks"),
            "hops.h5": (("plot", "timeline"), "hop_compute_seconds of shape (2, 2) and hop_wait_seconds of (2, 3)"),
            "matrix.h5": (("plot", "traffic"), "bytes_from has shape (2, 3); expected (ranks, ranks)"),
            "words.h5": (("plot", "strategies"), "dataset /run/settings is no run file; expected its sections"),
            "list.h5": (("report",), "dataset /run/settings is no run file; expected its sections"),
            "none.h5": (("report",), "has no /run/settings; expected a result of annulus")}


def test_results_of_other_programs(tmp_path):
    for name, (verb, expected) in foreign_results(tmp_path).items():
        target = {"show": (), "plot": ("o.png",), "report": ("o.html",)}[verb[0]]
        if expected is None:
            assert "(1, 8, 2, 4)" in tools(*verb, name, *target, folder=tmp_path)[0]
            continue
        message = refused(tmp_path, *verb, name, *target)
        assert expected in message and name in message, message


def test_sweeps_that_are_not_whole(tmp_path, made):
    columns = {"ranks": [1, 2, 2], "sequence": [64] * 3, "strategy": ["ring"] * 3, "status": ["ok", "missing", "failed"],
               "attention_seconds_median": [1.0, np.nan, np.inf], "peak_bytes": [1e6, np.nan, np.nan]}

    def make(name, **changed):
        with h5py.File(tmp_path / name, "w") as file:
            for column, values in (columns | changed).items():
                file[f"cases/{column}"] = values
    make("some.h5")
    _, note = tools("plot", "strategies", "some.h5", "some.png", folder=tmp_path)
    assert note == "annulus-tools: of some.h5 only finished cases are drawn; there are also 1 missing, 1 failed\n"
    make("none.h5", status=["missing"] * 3)
    assert "none.h5: has no finished case (3 missing); expected some" in refused(tmp_path, "plot", "memory", "none.h5", "o.png")
    make("uneven.h5", ranks=[1])
    assert "columns of [1, 3] entries; expected one entry a case" in refused(tmp_path, "show", "uneven.h5")
    make("times.h5", status=["ok"] * 3, attention_seconds_median=[0.0, -1.0, np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "no case has attention_seconds_median" in refused(tmp_path, "plot", "strong", "times.h5", "o.png")
    with h5py.File(tmp_path / "flat.h5", "w") as file:
        file["cases"] = [1, 2]
    assert "flat.h5: holds cases; expected a sweep" in refused(tmp_path, "plot", "weak", "flat.h5", "o.png")


def test_files_that_are_still_to_come(tmp_path):
    (tmp_path / "sweep.h5.part").mkdir()
    (tmp_path / "result.h5.part").touch()
    assert "sweep.h5: there is no such file yet, but sweep.h5.part: `annulus bench` makes the table" in refused(
        tmp_path, "plot", "strategies", "sweep.h5", "o.png")
    for name in ("result.h5",):
        assert "the run that makes it has not ended, or was killed" in refused(tmp_path, "convert", name, "o.npz")
    assert refused(tmp_path, "show", "none.h5") == "none.h5: there is no such file"


def tensors_of_no_use(folder):
    """{file that convert refuses: a part of the error text}"""
    arrays = {"objects": {"q": np.array([{"a": 1}], dtype=object)}, "text": {"q": np.array(["a"])},
              "complex": {"q": Q.astype("c8")}, "without_k": {"q": Q, "v": Q}, "five_axes": {n: Q[None] for n in "qkv"},
              "no_rows": {n: Q[:, :0] for n in "qkv"}, "bhsd": {n: np.moveaxis(Q, 1, 2).copy() for n in "qkv"},
              "types": {"q": Q, "k": Q.astype("f2"), "v": Q}, "empty": {}}
    for name, content in arrays.items():
        np.savez(folder / f"{name}.npz", **content)
    np.save(folder / "objects.npy", arrays["objects"]["q"])
    np.savez_compressed(folder / "packed.npz", **{n: np.random.default_rng(0).random((1, 64, 4, 8)) for n in "qkv"})
    spoil(folder / "packed.npz", 3000, b"\xff" * 64)
    (folder / "header.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((\n")
    torch.save({"q": Code()}, folder / "code.pt")
    (folder / "pickle.pt").write_bytes(pickle.dumps({"q": Code()}))
    torch.save(torch.nn.Linear(2, 2), folder / "model.pt")
    torch.save({"q": torch.zeros(4, 4).to_sparse()}, folder / "sparse.pt")
    torch.save({"q": torch.zeros(4, 4, device="meta")}, folder / "meta.pt")
    for suffix in ("h5", "npz", "npy", "pt", "safetensors"):
        (folder / f"text.{suffix}").write_text("this is text\n" * 9)
        (folder / f"folder.{suffix}").mkdir()
    (folder / "folder.zarr").mkdir()
    np.savez(folder / "whole.npz", q=Q + 1, k=Q, v=Q)
    annulus.convert(folder / "whole.npz", folder / "chunk.zarr")
    spoil(folder / "chunk.zarr/q/c/0/0/0/0", 0, b"\xff" * 8)
    python_objects = "Python objects in it that are no tensors, and these are not loaded"
    return {
        "objects.npz": "Python objects, not numbers",
        "objects.npy": "Python objects",
        "text.npz": "expected what numpy.savez",
        "complex.npz": "has no tensor q; it has no tensors of numbers",
        "without_k.npz": "has no tensor k; it has q, v (--k NAME",
        "five_axes.npz": "expected (batch, sequence, head, dim)",
        "no_rows.npz": "none of them 0",
        "bhsd.npz": "k has 16 key/value heads and 2 rows: are the axes in another order? (--axes",
        "types.npz": "has type float16; expected float32 as q",
        "empty.npz": "has no tensor q",
        "packed.npz": "while decompressing data",
        "header.npy": "is no .npy file of numbers",
        "code.pt": python_objects,
        "pickle.pt": python_objects,
        "model.pt": python_objects,
        "sparse.pt": "q: is sparse; expected a dense tensor",
        "meta.pt": "q: is on device meta; expected",
        "text.h5": "is no complete HDF5 file",
        "text.npy": "expected what numpy.save writes",
        "text.pt": "is no PyTorch file of plain tensors",
        "text.safetensors": "no length of a header",
        "folder.h5": "is a folder; expected an HDF5 file",
        "folder.npz": "Is a directory",
        "folder.npy": "Is a directory",
        "folder.pt": "Is a directory",
        "folder.safetensors": "Is a directory",
        "folder.zarr": "is no readable Zarr group",
        "chunk.zarr": "q: cannot be read",
    }


class Code:
    """A pickle that runs code when it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("hacked",)


def spoil(path, offset, content):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(content)


def test_tensors_of_no_use(tmp_path):
    for name, expected in tensors_of_no_use(tmp_path).items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            message = refused(tmp_path, "convert", name, "o.h5")
        assert message.startswith(f"{name}: ") and expected in message, message
    assert not (tmp_path / "hacked").exists() and not list(tmp_path.glob("o.h5*"))


def test_targets_that_cannot_be_made(tmp_path, monkeypatch):
    np.savez(tmp_path / "t.npz", q=Q, k=Q, v=Q)
    (tmp_path / "there.h5").touch()
    (tmp_path / "a_file").touch()
    for target, expected in (("there.h5", "there.h5: exists already; say --overwrite"),
                             ("none/o.h5", "none: No such file or directory; "),
                             ("a_file/o.h5", "a_file: Not a directory; expected a folder"),
                             ("o.xyz", "o.xyz: the name ends in .xyz; expected"), ("t.npz", "t.npz: exists already")):
        assert refused(tmp_path, "convert", "t.npz", target).startswith(expected)

    def denied(**_):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(files.tempfile, "mkdtemp", denied)
    assert refused(tmp_path, "convert", "t.npz", "o.h5") == ".: Permission denied; expected a folder that can be written to"
    assert refused(tmp_path, "plot", "pattern", "o.png") == ".: Permission denied; expected a folder that can be written to"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_file", "t.npz", "there.h5"]


def test_files_that_may_not_be_read(tmp_path, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(h5py, "File", denied)
    assert refused(tmp_path, "show", "r.h5") == "r.h5: may not be read (permission denied)"


def test_damaged_files_are_refused_in_one_line(results, made, tmp_path):
    """Files are cut, or some bytes are changed. Every damage is reported, except changed numbers, which cannot be
    noticed."""
    generator = random.Random(14)
    refusals = 0
    for source, verbs in ((results["rotation4"], (("show",), ("report", "o.html"), ("plot", "traffic", "o.png"))),
                          (made / "sweep.h5", (("show",), ("plot", "strategies", "o.png"))),
                          (made / "tokens.h5", (("convert", "o.npz"),))):
        whole = source.read_bytes()
        for trial in range(16):
            content = bytearray(whole)
            if trial % 2:
                del content[generator.randrange(len(content)):]
            else:
                for _ in range(20):
                    content[generator.randrange(min(len(content), 6000))] = generator.randrange(256)
            (tmp_path / "damaged.h5").write_bytes(content)
            verb, *target = verbs[trial % len(verbs)]
            words = (verb, *target[:-1], "damaged.h5", *target[-1:], *(["--overwrite"] if target else []))
            status, message = outcome(words, tmp_path)
            assert status in (0, 2) and (status == 0 or message.count("\n") == 1), f"{source.name} {trial}: {message}"
            assert status == 0 or "damaged.h5: " in message
            refusals += status == 2
    assert refusals > 24


def outcome(words, folder):
    """(status, stderr) of a command."""
    for status in (2, 0):
        try:
            return status, tools(*words, folder=folder, status=status)[1]
        except AssertionError as other:
            last = other
    raise last


def test_nothing_is_left_aside(tmp_path):
    """A refusal leaves no unfinished file, in this folder or in the system's folder for temporary files."""
    before = set(os.listdir(tempfile.gettempdir()))
    np.savez_compressed(tmp_path / "t.npz", q=Q, k=Q, v=Q[:, :8])
    assert "expected (1, 16, 2, 4) to fit q" in refused(tmp_path, "convert", "t.npz", "o.h5")
    assert os.listdir(tmp_path) == ["t.npz"]
    assert not {name for name in set(os.listdir(tempfile.gettempdir())) - before if name.startswith("annulus-")}
