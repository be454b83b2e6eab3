"""convert: numbers, names and positions stay the same in any chain of formats. Files that are no input are refused."""
import json
import signal
import subprocess
import sys
import time

import h5py
import bfloat16 as bf
import numpy as np
import pytest
import zarr
from conftest import ROOT, program, tools
from safetensors import safe_open
from safetensors.numpy import save_file

import annulus
from annulus import tensors
from annulus.errors import AnnulusError

FORMATS = (".npz", ".safetensors", ".pt", ".zarr", ".h5")


def arrays(path):
    """{name: (numbers, axes)} of an HDF5 file, read with h5py alone; numbers of bfloat16 as their bits."""
    with h5py.File(path) as file:
        return {name: (bf.bits(tensor) if bf.is_bfloat16(tensor) else tensor[...],
                       tensor.attrs["axes"].replace("kv_head", "head")) for name, tensor in file.items()
                if isinstance(tensor, h5py.Dataset) and "CLASS" not in tensor.attrs}


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name][0].dtype == other[name][0].dtype and one[name][1] == other[name][1], name
        np.testing.assert_array_equal(one[name][0], other[name][0])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("suffix", FORMATS)
def test_there_and_back(inputs, tmp_path, dtype, suffix):
    tokens = inputs(dtype, "--dout")
    annulus.convert(tokens, tmp_path / f"there{suffix}")
    keeps = dtype != "bfloat16" or suffix in (".safetensors", ".pt", ".h5")
    annulus.convert(tmp_path / f"there{suffix}", tmp_path / "back.h5", type=None if keeps else "bfloat16")
    same(arrays(tmp_path / "back.h5"), arrays(tokens))


@pytest.mark.parametrize("suffix, dtype", [(".pt", "bfloat16"), (".zarr", "float32")])
def test_the_program_computes_the_same_from_it(inputs, tmp_path, suffix, dtype):
    annulus.convert(inputs(dtype, "--dout"), tmp_path / f"there{suffix}")
    annulus.convert(tmp_path / f"there{suffix}", tmp_path / "back.h5")
    (tmp_path / "run.yaml").write_text(
        "input: {file: tokens.h5}\ncompute: {backward: true}\noutput: {file: out.h5, overwrite: true}\n")
    program("run", "run.yaml", folder=tmp_path)
    expected = arrays(tmp_path / "out.h5")
    program("run", "run.yaml", "--set", "input.file=back.h5", folder=tmp_path)
    same(arrays(tmp_path / "out.h5"), expected)


def test_random_chains(tmp_path, monkeypatch):
    """Random shapes and types go through three formats and orders of axes, in small pieces. No bit changes."""
    generator = np.random.default_rng(np.random.SeedSequence(20261122))
    for round_number in range(40):
        monkeypatch.setattr(tensors, "PIECE_BYTES", int(generator.integers(1, 4000)))
        batch, rows, groups, kv_heads, dim = (int(generator.integers(1, most)) for most in (4, 40, 4, 4, 20))
        heads = groups * kv_heads
        dtype = generator.choice(["float64", "float32", "float16"])
        start = {name: generator.standard_normal((batch, rows, heads if name in ("q", "dout") else kv_heads, dim)).astype(dtype)
                 for name in ("q", "k", "v", "dout")}
        path = tmp_path / f"{round_number}.npz"
        (np.savez if generator.integers(2) else np.savez_compressed)(path, **start)
        order = "bshd"
        for step in range(3):
            after = str(generator.choice(["bshd", "bhsd"]))
            target = tmp_path / f"{round_number}-{step}{generator.choice([f for f in FORMATS if f != '.h5'])}"
            annulus.convert(path, target, axes=order, to_axes=after)
            path, order = target, after
        annulus.convert(path, tmp_path / f"{round_number}.h5", axes=order, to_axes="bshd")
        found = arrays(tmp_path / f"{round_number}.h5")
        for name in start:
            np.testing.assert_array_equal(found[name][0], start[name], err_msg=f"round {round_number}, {name}")


def test_other_libraries_agree(results, tmp_path):
    """numpy, safetensors, Zarr and PyTorch read what convert writes, and convert reads what they write."""
    import torch
    source = results["bfloat16"]
    for suffix in (".npz", ".safetensors", ".pt", ".zarr"):
        annulus.convert(source, tmp_path / f"r{suffix}")
    with h5py.File(source) as file:
        out, lse = file["out"][...], file["lse"][...]  # h5py widens bfloat16
    np.testing.assert_array_equal(np.load(tmp_path / "r.npz")["out"], out)
    np.testing.assert_array_equal(zarr.open(str(tmp_path / "r.zarr"))["out"][...], out)
    assert zarr.open(str(tmp_path / "r.zarr"))["lse"].metadata.dimension_names == ("batch", "sequence", "head")
    with safe_open(str(tmp_path / "r.safetensors"), "pt") as file:
        assert file.get_tensor("out").dtype == torch.bfloat16
        np.testing.assert_array_equal(file.get_tensor("out").float().numpy(), out)
        np.testing.assert_array_equal(file.get_tensor("lse").numpy(), lse)
    content = torch.load(tmp_path / "r.pt", weights_only=True)
    assert content["dk"].dtype == torch.bfloat16
    np.testing.assert_array_equal(content["out"].float().numpy(), out)
    # convert reads what the other libraries write
    q = np.arange(2 * 6 * 4 * 8, dtype=np.float32).reshape(2, 6, 4, 8)
    save_file({"q": q, "k": q, "v": q}, tmp_path / "own.safetensors")
    zarr.save_group(str(tmp_path / "own.zarr"), q=q, k=q, v=q)
    torch.save({"q": torch.from_numpy(q), "k": torch.from_numpy(q), "v": torch.from_numpy(q).clone()}, tmp_path / "own.pt")
    torch.save({"model": {"q": torch.from_numpy(q), "steps": 5}, "k": torch.from_numpy(q), "v": torch.from_numpy(q)},
               tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name, names in (("own.safetensors", {}), ("own.zarr", {}), ("own.pt", {}), ("old.pt", {"q": "model/q"})):
        annulus.convert(tmp_path / name, tmp_path / "own.h5", names=names, overwrite=True)
        np.testing.assert_array_equal(arrays(tmp_path / "own.h5")["q"][0], q)


def qkv(shape, kv_shape=None, seed=0, dtype=np.float32):
    generator = np.random.default_rng(seed)
    return {name: generator.standard_normal(shape if name == "q" else kv_shape or shape).astype(dtype) for name in "qkv"}


def test_npy_files_and_a_batch_of_three_axes(tmp_path):
    entries = [qkv((10, 4, 8), (10, 2, 8), seed) for seed in range(3)]
    for number, entry in enumerate(entries):
        np.savez(tmp_path / f"{number}.npz", **entry)
    annulus.convert([tmp_path / f"{number}.npz" for number in range(3)], tmp_path / "batch.h5")
    found = arrays(tmp_path / "batch.h5")
    np.testing.assert_array_equal(found["k"][0], np.stack([entry["k"] for entry in entries]))
    assert found["q"][1] == "batch sequence head dim"
    with h5py.File(tmp_path / "batch.h5") as file:
        assert file["k"].attrs["axes"] == "batch sequence kv_head dim"
    assert annulus.open_input(tmp_path / "batch.h5").k.dims == ("batch", "sequence", "kv_head", "dim")
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", np.asfortranarray(entries[1][name]))
    annulus.convert([tmp_path / f"{name}.npy" for name in "qkv"], tmp_path / "one.h5")
    np.testing.assert_array_equal(arrays(tmp_path / "one.h5")["q"][0][0], entries[1]["q"])
    annulus.convert(tmp_path / "batch.h5", tmp_path / "alone.npy", only=["k"])
    np.testing.assert_array_equal(np.load(tmp_path / "alone.npy"), found["k"][0])
    with pytest.raises(AnnulusError, match=r"1.npz: q: has shape \(1, 9, 4, 8\).*expected \(1, 10, 4, 8\)"):
        np.savez(tmp_path / "1.npz", **qkv((9, 4, 8)))
        annulus.convert([tmp_path / "0.npz", tmp_path / "1.npz"], tmp_path / "no.h5")


def test_other_tensors_of_four_axes_are_reordered_by_their_names(tmp_path):
    numbers = np.arange(2 * 6 * 4 * 3).reshape(2, 6, 4, 3)
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file["top_rows"] = numbers
        file["top_rows"].attrs["axes"] = "batch query head rank"
        file["images"] = numbers
        file["images"].attrs["axes"] = "n h w c"
        file["named/top_weights"] = numbers.astype("f4")  # without names of its axes
    annulus.convert(tmp_path / "r.h5", tmp_path / "r.npz", to_axes="bhsd")
    made = np.load(tmp_path / "r.npz")
    np.testing.assert_array_equal(made["top_rows"], numbers.swapaxes(1, 2))
    np.testing.assert_array_equal(made["named/top_weights"], numbers.swapaxes(1, 2))
    np.testing.assert_array_equal(made["images"], numbers)


@pytest.mark.parametrize("suffix", [one for one in FORMATS if one != ".h5"])
def test_tensors_without_numbers_are_kept(tmp_path, suffix):
    np.savez(tmp_path / "none.npz", first=np.empty((0, 3)), second=np.ones(2), third=np.empty((2, 0), np.int32))
    annulus.convert(tmp_path / "none.npz", tmp_path / f"there{suffix}")
    annulus.convert(tmp_path / f"there{suffix}", tmp_path / "back.npz")
    assert {name: (array.shape, array.dtype) for name, array in np.load(tmp_path / "back.npz").items()} == {
        "first": ((0, 3), np.float64), "second": ((2,), np.float64), "third": ((2, 0), np.int32)}


def test_three_axes_with_names(tmp_path):
    entry = qkv((4, 10, 8))
    with h5py.File(tmp_path / "named.h5", "w") as file:
        for name, array in entry.items():
            file[name] = array
            file[name].attrs["axes"] = "head sequence dim"
    annulus.convert(tmp_path / "named.h5", tmp_path / "batch.h5")
    found, axes = arrays(tmp_path / "batch.h5")["q"]
    assert axes == "batch head sequence dim"
    np.testing.assert_array_equal(found[0], entry["q"])
    with pytest.raises(AnnulusError, match="which is bhsd; --axes says bshd"):
        annulus.convert(tmp_path / "named.h5", tmp_path / "no.h5", axes="bshd")


@pytest.mark.parametrize("piece_bytes", [tensors.PIECE_BYTES, 100])
def test_heads(tmp_path, monkeypatch, piece_bytes):
    """Projections are split, heads are picked, and interleaved heads are put into annulus' order; in pieces of any
    size."""
    monkeypatch.setattr(tensors, "PIECE_BYTES", piece_bytes)
    found = qkv((2, 20, 6, 8), (2, 20, 3, 8))
    flat = {name: array.reshape(2, 20, -1) for name, array in found.items()}
    np.savez(tmp_path / "flat.npz", **flat)
    annulus.convert(tmp_path / "flat.npz", tmp_path / "split.h5", split_heads=(6, 3))
    for name in "qkv":
        np.testing.assert_array_equal(arrays(tmp_path / "split.h5")[name][0], found[name])
    # query heads 0 1 | 2 3 | 4 5 read K/V heads 0 | 1 | 2
    annulus.convert(tmp_path / "split.h5", tmp_path / "some.h5", heads=[4, 5, 0, 1])
    some = arrays(tmp_path / "some.h5")
    np.testing.assert_array_equal(some["q"][0], found["q"][:, :, [4, 5, 0, 1]])
    np.testing.assert_array_equal(some["v"][0], found["v"][:, :, [2, 0]])
    # interleaved: query heads 0 3 | 1 4 | 2 5 read K/V heads 0 | 1 | 2
    annulus.convert(tmp_path / "split.h5", tmp_path / "inter.h5", interleaved=True, to_axes="bhsd")
    inter = arrays(tmp_path / "inter.h5")
    np.testing.assert_array_equal(inter["q"][0].transpose(0, 2, 1, 3), found["q"][:, :, [0, 3, 1, 4, 2, 5]])
    np.testing.assert_array_equal(inter["k"][0].transpose(0, 2, 1, 3), found["k"])
    np.savez(tmp_path / "sink.npz", sink=np.arange(6.0), **found)
    annulus.convert(tmp_path / "sink.npz", tmp_path / "sink.h5", interleaved=True, only=["q", "k", "v", "sink"])
    with h5py.File(tmp_path / "sink.h5") as file:
        assert list(file["sink"]) == [0, 3, 1, 4, 2, 5]
    with pytest.raises(AnnulusError, match="expected as many of each"):
        annulus.convert(tmp_path / "split.h5", tmp_path / "no.h5", heads=[0, 1, 2])
    with pytest.raises(AnnulusError, match="has heads 0 to 5; found"):
        annulus.convert(tmp_path / "split.h5", tmp_path / "no.h5", heads=[6])


def test_heads_of_layers(tmp_path):
    """Tensors in groups, as capture() writes them, have the heads and axis names of their role, too."""
    generator = np.random.default_rng(3)
    heads = {"q": 4, "k": 2, "v": 2}
    found = {f"layer_{layer}/{name}": generator.random((1, 5, count, 3)) for layer in (0, 1) for name, count in heads.items()}
    with h5py.File(tmp_path / "captured.h5", "w") as file:
        for name, array in found.items():
            file[name] = array
        file["other/k"] = generator.random((1, 5, 1, 3))
    names = {name: f"layer_0/{name}" for name in "qkv"}
    only = [*"qkv", *(f"layer_1/{name}" for name in "qkv")]
    annulus.convert(tmp_path / "captured.h5", tmp_path / "some.h5", names=names, only=only, heads=[2, 3])
    with h5py.File(tmp_path / "some.h5") as file:
        np.testing.assert_array_equal(file["layer_1/q"], found["layer_1/q"][:, :, 2:])
        np.testing.assert_array_equal(file["layer_1/k"], found["layer_1/k"][:, :, 1:])
    annulus.convert(tmp_path / "captured.h5", tmp_path / "all.h5", names=names, only=only)
    with h5py.File(tmp_path / "all.h5") as file:
        for name in ("k", "layer_1/k"):
            assert file[name].attrs["axes"] == "batch sequence kv_head dim"
    with pytest.raises(AnnulusError, match="other/k: has 1 heads; expected 2, as k has"):
        annulus.convert(tmp_path / "captured.h5", tmp_path / "no.h5", names=names, only=[*only, "other/k"], heads=[2, 3])


def test_heads_of_lists(tmp_path):
    """Lists of the most important keys (batch, sequence, head, list) lose heads as the tensors beside them do."""
    found = qkv((1, 9, 4, 8), (1, 9, 2, 8))
    found["top_rows"] = np.arange(9 * 4 * 3).reshape(1, 9, 4, 3)
    np.savez(tmp_path / "lists.npz", **found)
    annulus.convert(tmp_path / "lists.npz", tmp_path / "some.h5", only=["q", "k", "top_rows"], heads=[2, 3], to_axes="bhsd")
    with h5py.File(tmp_path / "some.h5") as file:
        np.testing.assert_array_equal(file["top_rows"], found["top_rows"][:, :, 2:].transpose(0, 2, 1, 3))
        assert file["top_rows"].attrs["axes"] == "batch head sequence top"


def test_types(inputs, tmp_path):
    """--type rounds each number once, to nearest, ties to even: as PyTorch does."""
    import torch
    special = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, 65504, 1e-8, 0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1e-40], np.float32)
    values = np.concatenate([special, np.random.default_rng(1).standard_normal(989).astype(np.float32)])
    values = values.reshape(1, 125, 1, 8)
    for name, there in (("bfloat16", torch.bfloat16), ("float16", torch.float16), ("float64", torch.float64)):
        values[0, 0, 0, 7] = 65519 if name == "float16" else 3.3895e38  # nearly too large for the 16-bit type
        np.savez(tmp_path / "v.npz", q=values, k=values, v=values)
        annulus.convert(tmp_path / "v.npz", tmp_path / "v.safetensors", type=name, overwrite=True)
        with safe_open(str(tmp_path / "v.safetensors"), "pt") as file:
            assert torch.equal(file.get_tensor("q"), torch.from_numpy(values).to(there))
    np.savez(tmp_path / "l.npz", wq=np.eye(4), heads=np.arange(3))
    annulus.convert(tmp_path / "l.npz", tmp_path / "l.safetensors", only=["wq", "heads"], type="float32")
    with safe_open(str(tmp_path / "l.safetensors"), "np") as file:
        assert file.get_tensor("wq").dtype == np.float32 and file.get_tensor("heads").dtype == np.int64
    nan = tmp_path / "nan.npz"
    np.savez(nan, q=np.full((1, 2, 1, 4), np.nan, np.float32), k=values[:, :2, :, :4], v=values[:, :2, :, :4])
    annulus.convert(nan, tmp_path / "nan.pt", type="bfloat16")
    assert torch.load(tmp_path / "nan.pt")["q"].isnan().all()


REFUSED = [
    (dict(q=(1, 8, 2, 4), k=(1, 8, 2, 4)), {}, "has no tensor v; it has q, k"),
    (dict(q=(1, 8, 3, 4), k=(1, 8, 2, 4), v=(1, 8, 2, 4)), {}, "k: has 2 heads; expected a divisor of the 3 of q"),
    (dict(q=(1, 8, 2, 4), k=(1, 9, 2, 4), v=(1, 8, 2, 4)), {}, r"v: has shape \(1, 8, 2, 4\); expected \(1, 9, 2, 4\)"),
    (dict(q=(1, 8, 2, 4), k=(1, 8, 2, 4), v=(1, 8, 1, 4)), {}, r"v: has shape \(1, 8, 1, 4\); expected \(1, 8, 2, 4\)"),
    (dict(q=(1, 2, 8, 4), k=(1, 2, 8, 4), v=(1, 2, 8, 4)), {}, "k has 8 key/value heads and 2 rows: are the axes in another order"),
    (dict(q=(1, 8, 2, 577), k=(1, 8, 2, 577), v=(1, 8, 2, 577)), {}, "head size 577; expected 1 to 576"),
    (dict(q=(8, 4), k=(8, 4), v=(8, 4)), {}, r"q: has shape \(8, 4\); expected \(batch, sequence, head, dim\)"),
    (dict(q=(1, 8, 2, 4), k=(1, 8, 2, 4), v=(1, 8, 2, 4)), {"names": {"q": "query"}}, "has no tensor query; it has k, q, v"),
    (dict(q=(1, 8, 7), k=(1, 8, 7), v=(1, 8, 7)), {"split_heads": (2,)}, "2 heads x dim"),
]


@pytest.mark.parametrize("shapes, more, expected", REFUSED, ids=[case[2][:30] for case in REFUSED])
def test_what_is_no_input_is_refused(tmp_path, shapes, more, expected):
    np.savez(tmp_path / "t.npz", **{name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    with pytest.raises(AnnulusError, match=expected) as refusal:
        annulus.convert(tmp_path / "t.npz", tmp_path / "t.h5", **more)
    assert "\n" not in str(refusal.value) and str(tmp_path / "t.npz") in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["t.npz"]


def test_types_that_do_not_go_together(tmp_path):
    arrays_ = qkv((1, 8, 2, 4))
    np.savez(tmp_path / "t.npz", q=arrays_["q"], k=arrays_["k"].astype(np.float16), v=arrays_["v"])
    with pytest.raises(AnnulusError, match="k: has type float16; expected float32 as q"):
        annulus.convert(tmp_path / "t.npz", tmp_path / "t.h5")
    np.savez(tmp_path / "i.npz", **{name: array.astype(int) for name, array in arrays_.items()})
    with pytest.raises(AnnulusError, match="q: has type int64; expected float64, float32"):
        annulus.convert(tmp_path / "i.npz", tmp_path / "t.h5")


def foreign(folder):
    (folder / "text.npz").write_text("q, k, v")
    (folder / "text.npy").write_text("q, k, v")
    (folder / "text.pt").write_text("q, k, v")
    (folder / "text.safetensors").write_text("q, k, v, and more words than eight")
    (folder / "folder.zarr").mkdir()
    np.savez(folder / "objects.npz", q=np.array([{}], object))
    header = json.dumps({"q": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (folder / "short.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"1234")
    np.savez(folder / "cut.npz", q=np.zeros(1000))
    (folder / "cut.npz").write_bytes((folder / "cut.npz").read_bytes()[:2000])
    np.save(folder / "cut.npy", np.zeros(1000))
    (folder / "cut.npy").write_bytes((folder / "cut.npy").read_bytes()[:2000])
    return sorted(path.name for path in folder.iterdir())


def test_foreign_files_are_refused_in_one_line(tmp_path):
    names = foreign(tmp_path)
    for name in [*names, "none.npz", "tokens.yaml"]:
        output, message = tools("convert", name, "x.h5", folder=tmp_path, status=2)
        assert output == "" and message.startswith(f"annulus-tools: error: {name}") and message.count("\n") == 1, message
        assert "expected" in message or "there is no such file" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_existing_targets(inputs, tmp_path):
    tokens = inputs()
    for suffix in FORMATS:
        target = tmp_path / f"made{suffix}"
        tools("convert", tokens, target)
        before = target.stat()
        _, message = tools("convert", tokens, target, status=2)
        assert "exists already; say --overwrite" in message
        assert target.stat().st_mtime_ns == before.st_mtime_ns
        tools("convert", tokens, target, "--overwrite")
        assert target.stat().st_ino != before.st_ino
    assert not [path for path in tmp_path.iterdir() if ".tmp" in path.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_is_complete_or_not_there(inputs, tmp_path, monkeypatch, suffix):
    """If writing fails after some pieces, the folder has the files that it had before, and no others."""
    tokens = inputs()
    target = tmp_path / f"t{suffix}"
    annulus.convert(tokens, target)
    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.setattr(tensors, "PIECE_BYTES", 1000)
    pieces = tensors.pieces
    monkeypatch.setattr(tensors, "pieces", lambda *given: failing(pieces(*given)))
    with pytest.raises(OSError, match=f"/t{suffix}: is not made: no space"):
        annulus.convert(tokens, target, overwrite=True)
    with pytest.raises(OSError, match=f"/new{suffix}: is not made: no space"):
        annulus.convert(tokens, tmp_path / f"new{suffix}")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    monkeypatch.undo()
    annulus.convert(target, tmp_path / "back.h5", overwrite=True)
    same(arrays(tmp_path / "back.h5"), arrays(tokens))


def failing(pieces):
    for number, piece in enumerate(pieces):
        if number == 3:
            raise OSError("no space")
        yield piece


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ended_by_a_signal_leaves_nothing(tmp_path, number):
    source, target = tmp_path / "q.npy", tmp_path / "big.npz"
    np.lib.format.open_memmap(source, "w+", np.float32, (1, 1 << 21, 4, 64))  # 2 GiB, a sparse file
    process = subprocess.Popen([sys.executable, "-m", "annulus", "convert", source, target], cwd=ROOT / "tools/python",
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # nohup may run this test
    while not list(tmp_path.glob(".big.npz.tmp-*/big.npz")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(240) == 128 + number
    assert [path.name for path in tmp_path.iterdir()] == ["q.npy"]


def test_nohup_is_respected(tmp_path):
    np.savez(tmp_path / "t.npz", **dict.fromkeys("qkv", np.ones((1, 6, 2, 4))))
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); from annulus.__main__ import main; " \
             "status = main(['convert', 't.npz', 't.h5']); signal.raise_signal(signal.SIGHUP); print('done', status)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.stdout.endswith("done 0\n"), done


def test_memory_stays_small(tmp_path):
    """A process with at most 300 MiB of data converts and transposes a tensor of 512 MiB."""
    source = tmp_path / "q.npy"
    np.lib.format.open_memmap(source, "w+", np.float32, (1, 1 << 17, 16, 64))
    program_text = ("import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 300 << 20)); import annulus;"
                    "annulus.convert(sys.argv[1], sys.argv[2], axes='bshd', to_axes='bhsd')")
    for suffix in (".safetensors", ".npz", ".zarr"):
        done = subprocess.run([sys.executable, "-c", program_text, source, tmp_path / f"x{suffix}"], cwd=ROOT / "tools/python",
                              capture_output=True, text=True, check=False, timeout=900,
                              env={"PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})
        assert done.returncode == 0, done.stderr
