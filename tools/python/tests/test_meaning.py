"""Numbers that do not mean what they seem to: masked, packed, missing, too large, in another order, or replaced."""
import os
import pickle
import shutil

import h5py
import numpy as np
import pytest
import statistics_example
import torch
import xarray
import zarr
from bfloat16 import bits
from conftest import tools

import annulus
from annulus import hdf5
from annulus.errors import AnnulusError

SHAPE = (2, 12, 2, 4)


def numbers(kind="f4", shape=SHAPE):
    return np.random.default_rng(1).standard_normal(shape).astype(kind)


def make(path, kind="f4", **attributes):
    """An input whose dataset k has these attributes."""
    with h5py.File(path, "w") as file:
        for name in "qkv":
            file[name] = numbers(kind)
            file[name].attrs["axes"] = "batch sequence head dim"
        file["k"].attrs.update(attributes)
    return path


def refusals(path):
    """Two error texts: of convert, and of open_input when k is read. Empty if there is no error."""
    for act in (lambda: annulus.convert(path, path.with_name("converted.h5"), overwrite=True),
                lambda: annulus.open_input(path).k.load()):
        try:
            act()
            yield ""
        except AnnulusError as mistake:
            yield str(mistake)


def test_masked_arrays_are_refused_where_something_is_masked():
    q = numbers()
    hidden = np.ma.masked_greater(q, 1.5)
    count = int((q > 1.5).sum())
    words = {"q": q, "k": q, "v": q}
    expected = annulus.attention(**words)
    for name in words:
        with pytest.raises(AnnulusError, match=f"^{name} has {count} masked entries of {q.size}, expected an array"):
            annulus.attention(**words | {name: hidden})
        assert np.array_equal(annulus.attention(**words | {name: np.ma.array(q, mask=False)})[0], expected[0])
    for name, found in (("out", expected[0]), ("lse", expected[1])):
        told = {"out": expected[0], "lse": expected[1]} | {name: np.ma.array(found, mask=found > 0)}
        with pytest.raises(AnnulusError, match=f"^{name} has .* masked entries"):
            annulus.verify(**words, **told)
    with pytest.raises(AnnulusError, match="^documents has 1 masked entries of 3"):
        annulus.attention(**words, documents=np.ma.array([0, 5, 12], mask=[0, 1, 0]))
    with pytest.raises(AnnulusError, match="^coords has 2 masked entries of 4"):
        annulus.grid.of(np.ma.array([[0, 0], [1, 0]], mask=[[0, 0], [1, 1]]))


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_masked_tensors_are_refused():
    q = torch.from_numpy(numbers())
    hidden = torch.masked.masked_tensor(q, q < 1.5)
    with pytest.raises(AnnulusError, match=f"^v has {int((q >= 1.5).sum())} masked entries of {q.numel()}"):
        annulus.attention(q, q, hidden)


@pytest.mark.parametrize("name, value, text", [("scale_factor", 0.5, "0.5"), ("add_offset", np.float32(2), "2.0"),
                                               ("scale_factor", [1.0, 2.0], "[1.0, 2.0]"),
                                               ("add_offset", "two", "two")])
def test_packed_numbers_are_refused(tmp_path, name, value, text):
    path = make(tmp_path / "in.h5", **{name: value})
    for said in refusals(path):
        assert said.startswith(f"{path}: dataset ") and f"k: attribute {name} is {text}, so that its numbers" in said
    with pytest.raises(AnnulusError, match=f"attribute {name}"):
        annulus.open_input(path)  # is refused before a number is read
    assert not (tmp_path / "converted.h5").exists()


def test_what_attributes_change_nothing_is_fine(tmp_path):
    path = make(tmp_path / "in.h5", scale_factor=1.0, add_offset=0, _FillValue=np.float32(1e36), missing_value="none")
    assert list(refusals(path)) == ["", ""]
    with h5py.File(path, "r+") as file:  # convert and k.load() do not read this dataset
        file["other"] = np.array([1, 2], "i2")
        file["other"].attrs["scale_factor"] = 0.1
    assert list(refusals(path)) == ["", ""]
    with pytest.raises(AnnulusError, match="dataset /other: attribute scale_factor is 0.1"):
        annulus.open_input(path).other.load()


@pytest.mark.parametrize("kind", ["f8", "f4", "f2"])
@pytest.mark.parametrize("name, fill, shown", [
    ("_FillValue", 9000.0, "9000.0"), ("missing_value", [-1.5, 9000.0], "9000.0"), ("_FillValue", np.nan, "nan"),
    ("missing_value", np.float32(0.1), "0.1"), ("missing_value", np.int64(-7), "-7")])
def test_missing_numbers_are_refused_where_they_occur(tmp_path, kind, name, fill, shown):
    path = make(tmp_path / "in.h5", kind, **{name: fill})
    assert list(refusals(path)) == ["", ""]
    with h5py.File(path, "r+") as file:
        file["k"][1, 3:6, 1, 2] = np.ravel(fill)[-1]
    for said in refusals(path):
        assert said.startswith(f"{path}: dataset ") and "k: 3 of the 192 entries read are" in said, said
        assert f"are {shown}" in said and f"which attribute {name} calls missing" in said, said
    assert annulus.open_input(path).k[:, 6:].shape == (2, 6, 2, 4)
    annulus.open_input(path).k[:, 6:].load()  # no missing numbers here


def test_missing_numbers_in_bfloat16(tmp_path):
    path = tmp_path / "in.h5"
    annulus.convert(make(tmp_path / "wide.h5"), path, type="bfloat16")
    with h5py.File(path, "r+") as file:
        file["k"].attrs["_FillValue"] = 3.0e38  # between two numbers of bfloat16
        assert list(refusals(path)) == ["", ""]
        stored = bits(file["k"])
    near = torch.tensor(3.0e38).to(torch.bfloat16).view(torch.int16).item()
    stored[0, 0, 0, 0] = near
    with h5py.File(path, "r+") as file:
        hdf5.write(file["k"], tuple(slice(0, extent) for extent in SHAPE), stored)
    assert all("k: 1 of the 192 entries read are 3e+38" in said for said in refusals(path))


def test_what_xarray_writes_of_missing_numbers(tmp_path):
    """What to_netcdf and to_zarr write is refused if numbers are packed or missing."""
    dims = ("batch", "sequence", "head", "dim")
    whole = xarray.Dataset({name: (dims, numbers()) for name in "qkv"})
    gaps = whole.assign(k=whole.k.where(whole.k < 1.5))
    count = int((whole.k >= 1.5).sum())
    packed = whole.copy()
    packed.k.encoding = {"dtype": "int16", "scale_factor": 0.001, "_FillValue": -32768}
    for suffix, write in ((".nc", lambda data, *more: data.to_netcdf(*more, engine="h5netcdf")),
                          (".zarr", lambda data, *more: data.to_zarr(*more, zarr_format=3, consolidated=False))):
        for what, data, expected in (("whole", whole, None), ("gaps", gaps, f"k: {count} of the 192 entries"),
                                     ("packed", packed, "k: ")):
            path = tmp_path / f"{what}{suffix}"
            write(data, path)
            if expected is None:
                annulus.convert(path, tmp_path / f"{suffix[1:]}.h5")
                np.testing.assert_array_equal(annulus.open_input(tmp_path / f"{suffix[1:]}.h5").k, whole.k)
                continue
            with pytest.raises(AnnulusError, match=expected):
                annulus.convert(path, tmp_path / "no.h5")
    zarr.open(str(tmp_path / "whole.zarr"), mode="r+")["k"].attrs["add_offset"] = 1.5
    with pytest.raises(AnnulusError, match="k: attribute add_offset is 1.5"):
        annulus.convert(tmp_path / "whole.zarr", tmp_path / "no.h5")
    assert not (tmp_path / "no.h5").exists()


def test_a_result_that_another_run_has_replaced(tmp_path):
    path, other = tmp_path / "r.h5", tmp_path / "other.h5"
    for what in ("replaced", "another shape", "overwritten", "a pickle"):
        statistics_example.example(path, causal=False)
        statistics_example.example(other, causal=True, rows=24 if what == "another shape" else 40)
        opened = annulus.open_result(path)
        before = opened.lse.values
        again = pickle.loads(pickle.dumps(opened)) if what == "a pickle" else annulus.open_result(path)
        assert np.array_equal(again.lse, before)
        again = pickle.loads(pickle.dumps(opened))
        if what == "overwritten":  # in place: the file keeps its inode
            shutil.copyfile(other, path)
        else:
            os.replace(other, path)
        assert again.attrs["settings"]
        with pytest.raises(AnnulusError, match=f"^{path}: has changed since it was opened"):
            again.out.mean().load()
        assert not np.array_equal(annulus.open_result(path).lse, before)


def test_numbers_too_large_for_a_narrower_type(tmp_path):
    for wide, narrow, large, fits in (("f4", "float16", 1e9, 65504), ("f8", "float16", -7e4, -65504),
                                      ("f8", "float32", 1e39, 3.4e38), ("f8", "bfloat16", 3.4e38, 3.38e38),
                                      ("f4", "bfloat16", 3.4e38, -np.inf)):
        q, k = numbers(wide), numbers(wide)
        q[0, 0, 0, 0], k[0, 0, 0, 0] = fits, np.nan  # these are no mistakes: a number that fits, and NaN
        np.savez(tmp_path / "t.npz", q=q, k=k, v=q)
        tools("convert", "t.npz", "o.h5", "--type", narrow, "--overwrite", folder=tmp_path)
        q[1, 7, 1, 2] = large
        np.savez(tmp_path / "t.npz", q=k, k=q, v=k)
        for more in ((), ("--to-axes", "bhsd"), ("--heads", "1")):
            said = tools("convert", "t.npz", "no.h5", "--type", narrow, *more, folder=tmp_path, status=2)[1]
            assert said == (f"annulus-tools: error: t.npz: k: entry [1, 7, 1, 2] is {large:g}, which is too large for "
                            f"{narrow}; expected smaller numbers, or a wider type\n")
    assert not (tmp_path / "no.h5").exists()


def test_the_file_and_entry_among_several_sources(tmp_path):
    q = numbers("f8", (12, 2, 4))
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", q=q, k=q, v=q)
        q[3, 1, 0] = 1e200
    said = tools("convert", "a.npz", "b.npz", "no.h5", "--type", "float32", folder=tmp_path, status=2)[1]
    assert "b.npz: q: entry [3, 1, 0] is 1e+200, which is too large for float32" in said


def unnamed(heads, rows):
    return (f" has {heads} key/value heads and {rows} rows: are the axes in another order? (", " says which)")


def test_more_key_heads_than_rows_are_asked_about(tmp_path):
    """Every entry point refuses more key heads than rows. Many query heads on few rows are fine."""
    k = numbers(shape=(1, 8, 24, 4))
    text = "k" + "axes=".join(unnamed(24, 8))
    for act in (lambda: annulus.attention(k, k, k), lambda: annulus.reference(k, k, k),
                lambda: annulus.verify(k, k, k, k, k[..., 0]),
                lambda: annulus.torch.dilated_attention(*[torch.from_numpy(k)] * 3)):
        with pytest.raises(AnnulusError) as refusal:
            act()
        assert str(refusal.value) == text
    for axes in ("bshd", "bhsd"):
        out, lse = annulus.attention(k, k, k, axes=axes)
        assert annulus.verify(k, k, k, out, lse, axes=axes)
        tensor = torch.from_numpy(k)
        assert np.array_equal(annulus.torch.dilated_attention(tensor, tensor, tensor, axes=axes), out)
    few = k[:, :, :8]
    assert annulus.attention(k, few, few)[0].shape == k.shape  # 24 query heads, 8 key heads, 8 rows


def test_more_key_heads_than_rows_in_files(tmp_path):
    k = numbers(shape=(1, 8, 24, 4))
    np.savez(tmp_path / "t.npz", q=k, k=k, v=k)
    said = tools("convert", "t.npz", "o.h5", folder=tmp_path, status=2)[1]
    assert said == "annulus-tools: error: t.npz: k" + "--axes, or axes=,".join(unnamed(24, 8)) + "\n"
    for axes, named in (("bshd", "batch sequence head dim"), ("bhsd", "batch head sequence dim")):
        tools("convert", "t.npz", "o.h5", "--axes", axes, "--overwrite", folder=tmp_path)
        tools("convert", "o.h5", "again.h5", "--overwrite", folder=tmp_path)  # o.h5 says the order of its axes
        with h5py.File(tmp_path / "again.h5") as file:
            assert file["k"].attrs["axes"] == named
    np.savez(tmp_path / "t.npz", q=k, k=k[:, :, :8], v=k[:, :, :8])
    tools("convert", "t.npz", "o.h5", "--overwrite", folder=tmp_path)


def test_a_file_whose_writer_was_killed(tmp_path):
    path = tmp_path / "in.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["q"] = numbers()
        file.flush()
        content = path.read_bytes()
    path.write_bytes(content)  # as it was before the writer closed it: marked as open for writing
    for act in (lambda: annulus.open_input(path), lambda: annulus.convert(path, tmp_path / "o.npz"),
                lambda: annulus.cases(path)):
        with pytest.raises(AnnulusError, match=f"^{path}: another process has it open for writing, or ended without "
                                               r"closing it \(`h5clear -s` takes its mark off\); expected"):
            act()
