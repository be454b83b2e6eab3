"""convert: which tensors of an input are written, found by which names, and what several sources become together."""
import os

import h5py
import numpy as np
import pytest
from conftest import program, tools
from test_conversion import arrays, qkv

import annulus
from annulus import tensors
from annulus.errors import AnnulusError


def test_what_a_run_file_names_beside_q_k_v_is_kept(tmp_path):
    q = np.arange(2 * 6 * 4 * 3, dtype=np.float32).reshape(2, 6, 4, 3)
    beside = {"lengths": np.array([6, 4]), "coordinates": np.ones((6, 2)), "sink": np.arange(4, dtype=np.float32)}
    np.savez(tmp_path / "all.npz", x=q, **beside)
    written = annulus.convert(tmp_path / "all.npz", tmp_path / "all.h5", names=dict.fromkeys("qkv", "x"))
    assert written == ["q", "k", "v", "lengths", "coordinates", "sink"]
    with h5py.File(tmp_path / "all.h5") as file:
        for name, numbers in (beside | dict.fromkeys("qkv", q)).items():
            np.testing.assert_array_equal(file[name][...], numbers, err_msg=name)


def test_links_of_every_kind_are_followed(tmp_path):
    numbers = np.arange(24.0).reshape(1, 3, 2, 4)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["there/x"] = numbers
    with h5py.File(tmp_path / "links.h5", "w") as file:
        file["deep/q"] = numbers
        file["q"] = h5py.SoftLink("/deep/q")
        file["k"] = file["deep/q"]
        file["v"] = h5py.ExternalLink("other.h5", "/there/x")
        file["deep/circle"] = h5py.SoftLink("/")
        file["nothing"] = h5py.SoftLink("/nowhere")
        file["turn"], file["return"] = h5py.SoftLink("/return"), h5py.SoftLink("/turn")
        file["alias"] = h5py.SoftLink("/deep")  # does not take the name of the group away
    assert annulus.convert(tmp_path / "links.h5", tmp_path / "made.h5", names={"q": "deep/q"}) == ["q", "k", "v"]
    assert all((found == numbers).all() for found, _ in arrays(tmp_path / "made.h5").values())
    assert annulus.convert(tmp_path / "links.h5", tmp_path / "own.h5") == ["q", "k", "v"]


def named_axes(path, names):
    """Makes a file of q, k, v (B, H, S, D). names(file) writes names of axes into the open file."""
    with h5py.File(path, "w") as file:
        for name in "qkv":
            file[name] = np.arange(2 * 4 * 6 * 3, dtype="f4").reshape(2, 4, 6, 3)
        names(file)


def attribute(value):
    def write(file):
        for name in "qkv":
            file[name].attrs["axes"] = value
    return write


def label_of_k(file):
    file["k"].dims[1].label = "head"


def scale_of_q(file):
    file["names/heads"] = np.arange(4)
    file["names/heads"].make_scale("heads")
    file["q"].dims[1].attach_scale(file["names/heads"])


def labels_before_scales(file):
    file["heads"] = np.arange(6)
    file["heads"].make_scale("heads")
    file["q"].dims[2].attach_scale(file["heads"])
    file["q"].dims[2].label = "seq_len"


@pytest.mark.parametrize("names", [
    attribute(["batch", "head", "sequence", "dim"]), attribute(np.array(["batch", "head", "sequence", "dim"], "S12")),
    attribute(np.array([["batch", "head"], ["sequence", "dim"]], h5py.string_dtype())), label_of_k, scale_of_q,
    labels_before_scales], ids=["list", "fixed", "matrix", "label", "scale", "both"])
def test_axis_names_mean_what_they_mean_to_the_program(tmp_path, names):
    """The name of one axis may decide the order of all tensors, in each way of naming axes, as in the program."""
    named_axes(tmp_path / "in.h5", names)
    annulus.convert(tmp_path / "in.h5", tmp_path / "made.h5")
    assert [axes for _, axes in arrays(tmp_path / "made.h5").values()] == ["batch head sequence dim"] * 3
    tools("show", "in.h5", folder=tmp_path)
    for name in ("in", "made"):
        (tmp_path / f"{name}.yaml").write_text(f"input: {{file: {name}.h5}}\noutput: {{file: {name}_out.h5}}\n")
        program("run", f"{name}.yaml", folder=tmp_path)
    one, other = arrays(tmp_path / "in_out.h5"), arrays(tmp_path / "made_out.h5")
    np.testing.assert_array_equal(one["out"][0], other["out"][0])
    assert one["out"][0].shape == (2, 4, 6, 3)


def test_orders_that_contradict_each_other_are_refused(tmp_path):
    def both(file):
        file["q"].dims[1].label, file["k"].dims[1].label = "head", "seq"

    def neither(file):
        file["q"].dims[0].label = "seq"

    named_axes(tmp_path / "both.h5", both)
    named_axes(tmp_path / "neither.h5", neither)
    with pytest.raises(AnnulusError, match="dataset k: names its axes .*seq.*, but .*dataset q .*expected one order"):
        annulus.convert(tmp_path / "both.h5", tmp_path / "no.h5")
    with pytest.raises(AnnulusError, match=r"dataset q: names its axes .*; expected \(batch, sequence, head, dim\) or"):
        annulus.convert(tmp_path / "neither.h5", tmp_path / "no.h5")

    def all_named(file):
        both(file)
        file["v"].dims[1].label = "seq"

    with h5py.File(tmp_path / "square.h5", "w") as file:
        for name in "qkv":
            file[name] = np.ones((1, 4, 4, 3), "f4")
        all_named(file)
    with pytest.raises(AnnulusError, match="expected the order of q.*--to-axes"):
        annulus.convert(tmp_path / "square.h5", tmp_path / "no.h5")
    annulus.convert(tmp_path / "square.h5", tmp_path / "made.h5", to_axes="bshd")


@pytest.mark.parametrize("names", ["dim sequence head batch", "x y z batch", "head_dim y z x"])
def test_the_batch_is_first_and_the_head_size_last(tmp_path, names):
    named_axes(tmp_path / "fortran.h5", attribute(names))
    with pytest.raises(AnnulusError, match=rf"names its axes \({', '.join(names.split())}\); expected \(batch, seq"):
        annulus.convert(tmp_path / "fortran.h5", tmp_path / "no.h5")


def virtual(file, source, rows=6, name="v", **more):
    """Makes a virtual dataset v whose first rows are in a dataset of another file."""
    layout = h5py.VirtualLayout((1, 6, 2, 4), "f4")
    layout[:, :rows] = h5py.VirtualSource(source, name, shape=(1, rows, 2, 4))
    file.create_virtual_dataset("v", layout, **more)


def partly(file, rows=4, name="v", **more):
    """Makes a tensor of 6 chunks, and writes some of them."""
    file.create_dataset(name, (1, 6, 2, 4), "f4", chunks=(1, 1, 2, 4), **more)[:, :rows] = 1


def raw(file):
    file.create_dataset("v", (1, 6, 2, 4), "f4", external=[(f"{file.filename}.raw", 0, 192)])[:] = 1
    os.truncate(f"{file.filename}.raw", 191)


def netcdf(file):
    file.create_dataset("v", (1, 6, 2, 4), "f4", fillvalue=np.float32(2.0**123 * 0.9375))[:, :4] = 1


READ_AS = [  # how v is made, and the end of the message; it is a warning if it ends with a number
    (partly, " lacks 2 of its 6 chunks (never written); they are read as 0"),
    (lambda file: virtual(file, "part.h5"),
     " is made of dataset v of part.h5, which lacks 2 of its 6 chunks (never written); they are read as 0"),
    (lambda file: virtual(file, "odd.h5"),
     " is made of dataset v of odd.h5, which lacks 2 of its 6 chunks (never written); they are read as -999.0"),
    (lambda file: virtual(file, "whole.h5", 4), " has no source for 16 of its 48 numbers; they are read as 0"),
    (lambda file: virtual(file, "whole.h5", fillvalue=7), ""),
    (lambda file: partly(file, fillvalue=-999), " lacks 2 of its 6 chunks (never written); they are read as -999.0; "),
    (lambda file: partly(file, fill_time="never"), " (never written); they are read as whatever is in memory; "),
    (lambda file: virtual(file, "whole.h5", 4, fillvalue=7), " numbers; they are read as 7.0; "),
    (lambda file: virtual(file, "part.h5", name="of"), " is made of dataset of of part.h5, which does not exist; "),
    (lambda file: virtual(file, "gone.h5"), " is made of dataset v of gone.h5, which does not exist; "),
    (lambda file: file.create_dataset("v", (1, 6, 2, 4), "f4"), " was never written; "),
    (raw, "bad.h5.raw, which has 191 bytes; expected at least 192"),
    (netcdf, "8 of the 8 entries read are 9.969209968386869e+36, which netCDF returns for numbers that were never written"),
]


@pytest.mark.parametrize("make, says", READ_AS)
def test_numbers_that_were_never_written(tmp_path, monkeypatch, make, says):
    monkeypatch.chdir(tmp_path)
    for name, rows, fill in (("part", 4, 0), ("whole", 6, 0), ("odd", 4, -999)):
        with h5py.File(f"{name}.h5", "w") as file:
            partly(file, rows, fillvalue=fill)
            file.create_group("of")
    with h5py.File("bad.h5", "w") as file:
        file["q"] = file["k"] = np.ones((1, 6, 2, 4), "f4")
        make(file)
    monkeypatch.setattr(tensors, "PIECE_BYTES", 32)  # several pieces, one warning
    refused = says and not says.endswith((" 0", "-999.0"))
    _, message = tools("convert", "bad.h5", "made.h5", status=2 if refused else 0)
    start = f"annulus-tools: {'error' if refused else 'warning'}: bad.h5: dataset "
    assert message.count(start) == bool(says) and says in message and message.count("\n") == bool(says), message


@pytest.mark.parametrize("fill", [0, -999])
@pytest.mark.parametrize("more, chunks, lacks", [({}, 6, 2), ({"zarr_format": 2}, 6, 2), ({"shards": (1, 4, 2, 4)}, 2, 1)])
def test_chunks_of_zarr_that_were_never_written(tmp_path, fill, more, chunks, lacks):
    import zarr
    group = zarr.create_group(str(tmp_path / "t.zarr"), zarr_format=more.pop("zarr_format", 3))
    for name, rows in (("q", 6), ("k", 6), ("v", 4)):
        array = group.create_array(name, shape=(1, 6, 2, 4), chunks=(1, 1, 2, 4), dtype="f4", fill_value=fill, **more)
        array[:, :rows] = 1
    _, message = tools("convert", "t.zarr", "made.h5", folder=tmp_path, status=2 if fill else 0)
    assert message.startswith(f"annulus-tools: {'error' if fill else 'warning'}: t.zarr: v lacks {lacks} of its {chunks} "
                              f"chunks (never written, or only fill values); they are read as {fill}"), message
    assert message.count("\n") == 1, message


def test_tensors_of_pytorch_whose_sign_is_turned(tmp_path):
    import torch
    plain = torch.ones(1, 6, 2, 4)
    torch.save({"q": plain._neg_view(), "k": plain, "v": plain}, tmp_path / "t.pt")
    annulus.convert(tmp_path / "t.pt", tmp_path / "made.h5")
    assert (arrays(tmp_path / "made.h5")["q"][0] == -1).all()


def test_axes_of_other_tensors_are_named_all_or_not_at_all(tmp_path):
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["image"] = np.ones((2, 3))
        file["image"].dims[1].label = "width"
    assert "(?, width)" in tools("show", "in.h5", folder=tmp_path)[0]
    annulus.convert(tmp_path / "in.h5", tmp_path / "made.h5", only=["image"])
    with h5py.File(tmp_path / "made.h5") as file:
        assert "axes" not in file["image"].attrs


@pytest.mark.parametrize("wanted, there", [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"),
                                           ("float64", "float64")])
def test_dlse_has_the_type_of_the_lse(inputs, tmp_path, wanted, there):
    annulus.convert(inputs("float32", "--dout", "--dlse"), tmp_path / "made.h5", type=wanted)
    with h5py.File(tmp_path / "made.h5") as file:
        assert file["dlse"].dtype == there
    (tmp_path / "run.yaml").write_text(
        "input: {file: made.h5, dlse: /dlse}\ncompute: {backward: true}\noutput: {file: out.h5}\n")
    program("run", "run.yaml", folder=tmp_path)
    np.savez(tmp_path / "t.npz", **qkv((1, 8, 2, 4)), dlse=np.ones((1, 8, 2)))
    with pytest.raises(AnnulusError, match="dlse: has type float64; expected float32 as the lse of float32 tensors"):
        annulus.convert(tmp_path / "t.npz", tmp_path / "no.h5")


def test_documents_of_one_text_do_not_cut_others(tmp_path):
    np.savez(tmp_path / "a.npz", **qkv((1, 16, 2, 8)))
    np.savez(tmp_path / "b.npz", **qkv((1, 16, 2, 8)), documents=np.array([0, 5, 16]))
    with pytest.raises(AnnulusError, match="documents of one of them would count for all"):
        annulus.convert([tmp_path / "a.npz", tmp_path / "b.npz"], tmp_path / "no.h5")
    np.save(tmp_path / "documents.npy", np.array([0, 5, 16]))
    annulus.convert([tmp_path / "a.npz", tmp_path / "documents.npy"], tmp_path / "one.h5")
    with h5py.File(tmp_path / "one.h5") as file:
        assert list(file["documents"]) == [0, 5, 16]


def test_lengths_of_entries_become_those_of_the_batch(tmp_path):
    for name, more in (("a", {"lengths": [5]}), ("b", {"lengths": [7]}), ("c", {}), ("d", {"coordinates": np.ones((8, 2))})):
        np.savez(tmp_path / f"{name}.npz", **qkv((1, 8, 2, 8)), **more)
    annulus.convert([tmp_path / "a.npz", tmp_path / "b.npz"], tmp_path / "ab.h5", type="float64")
    with h5py.File(tmp_path / "ab.h5") as file:
        assert list(file["lengths"]) == [5, 7] and file["q"].shape[0] == 2
    for name, role in (("a", "lengths"), ("d", "coordinates")):
        with pytest.raises(AnnulusError, match=f"{role} of one of them would count for all entries"):
            annulus.convert([tmp_path / f"{name}.npz", tmp_path / "c.npz"], tmp_path / "no.h5")
    annulus.convert([tmp_path / "d.npz", tmp_path / "c.npz"], tmp_path / "dc.h5", only=list("qkv"))


def test_renamed_tensors_are_written_once(tmp_path):
    np.savez(tmp_path / "in.npz", **qkv((1, 4, 2, 8)))
    names = {"query": "q", "key": "k", "value": "v"}
    assert annulus.convert(tmp_path / "in.npz", tmp_path / "out.npz", names=names) == list(names)


def test_values_that_are_keys(tmp_path):
    q, k = (np.full((1, 5, 2, 4), number, np.float32) for number in (1, 2))
    np.savez(tmp_path / "latent.npz", q=q, k=k, coordinates=np.full((5, 2), 100001.0))
    assert annulus.convert(tmp_path / "latent.npz", tmp_path / "l.h5", names={"v": "k"}, type="float16") == [
        "q", "k", "v", "coordinates"]
    with h5py.File(tmp_path / "l.h5") as file:
        assert (file["v"][...] == 2).all() and (file["k"][...] == 2).all() and file["v"].dtype == np.float16
        assert (file["coordinates"][...] == 100001).all(), "places are not rounded to a type for numbers of tensors"


def test_what_is_no_tensor_of_numbers_is_left_out(tmp_path):
    """Masks of bool, which tokenizers return, are left out in every kind of file; texts are left out in HDF5 files."""
    import torch
    import zarr
    from safetensors.torch import save_file
    q, mask = np.ones((1, 6, 2, 4), np.float32), np.ones((1, 6), bool)
    held = {"q": q, "k": q, "v": q, "attention_mask": mask}
    np.savez(tmp_path / "t.npz", **held)
    torch.save({name: torch.from_numpy(array) for name, array in held.items()} | {"phases": torch.ones(2) * 1j},
               tmp_path / "t.pt")
    save_file({name: torch.from_numpy(array.copy()) for name, array in held.items()}, tmp_path / "t.safetensors")
    group = zarr.create_group(str(tmp_path / "t.zarr"))
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["text"] = "q, k and v"
        for name, array in held.items():
            file[name] = array
            group.create_array(name, data=array)
    for suffix in ("npz", "pt", "safetensors", "zarr", "h5"):
        source = tmp_path / f"t.{suffix}"
        assert annulus.convert(source, tmp_path / f"made_of_{suffix}.h5") == ["q", "k", "v"]
        assert sorted(annulus.convert(source, tmp_path / f"made_of_{suffix}.npz")) == ["k", "q", "v"]
        with pytest.raises(AnnulusError, match="has no tensor attention_mask; it has"):
            annulus.convert(source, tmp_path / "mask.npz", only=["attention_mask"])


def test_a_target_that_is_a_link_stays_one(tmp_path):
    """The file that the link names is made or replaced, as by the program: it may be on a disk with more space."""
    q = np.ones((1, 6, 2, 4), np.float32)
    np.savez(tmp_path / "t.npz", q=q, k=q, v=q)
    (tmp_path / "large_disk").mkdir()
    link, real = tmp_path / "made.h5", tmp_path / "large_disk/made.h5"
    link.symlink_to("large_disk/made.h5")
    for overwrite in (False, True):  # at first the link names no file
        annulus.convert(tmp_path / "t.npz", link, overwrite=overwrite)
        assert link.is_symlink() and not real.is_symlink()
        assert set(arrays(link)) == {"q", "k", "v"}
    with pytest.raises(AnnulusError, match="made.h5: exists already; say --overwrite"):
        annulus.convert(tmp_path / "t.npz", link)
    assert [path.name for path in (tmp_path / "large_disk").iterdir()] == ["made.h5"]
