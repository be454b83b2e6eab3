"""Opens files of the program with xarray (h5netcdf), netCDF4, h5py and h5dump, and runs docs/results.md.

The program is $ANNULUS_PROGRAM, or without it build/test/annulus or build/release/annulus.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy
import pytest
import xarray
from conftest import LAUNCHES

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = next((path for path in (os.environ.get("ANNULUS_PROGRAM"), ROOT / "build/test/annulus", ROOT / "build/release/annulus")
                if path and Path(path).is_file()), None)
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_mpi_yield_when_idle": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader",
       "OMPI_MCA_orte_tmpdir_base": LAUNCHES.name, "OMPI_MCA_orte_allowed_exit_without_sync": "1",
       "OMP_NUM_THREADS": "1"}
SCALE = "This is a netCDF dimension but not a netCDF variable."


def environment(**more):
    path = os.pathsep.join([str(Path(PROGRAM).parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, **MPI, "PATH": path, **more}


def shell(folder, command, **more):
    return subprocess.run(["bash", "-ec", command], cwd=folder, env=environment(**more), text=True, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def must(folder, command, **more):
    done = shell(folder, command, **more)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def run(folder, text, ranks=2, sets=""):
    (folder / "run.yaml").write_text(text)
    return must(folder, f"mpirun -n {ranks} annulus run run.yaml {sets}")


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """A result with fewer key/value heads than heads, with gradients, in float16; and its input."""
    folder = tmp_path_factory.mktemp("grouped")
    must(folder, "annulus generate --output in.h5 --batch 2 --sequence 37 --heads 6 --kv-heads 2 --head-dim 8 --dout --dtype float16")
    run(folder, "input: {file: in.h5}\nattention: {segments: [8, all], dilations: [1, 2]}\ncompute: {backward: true}\n"
                "distribution: {strategy: ring}\noutput: {file: result.h5}\n", ranks=3)
    return folder


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    """A layer's result with all gradients, and a trained layer."""
    folder = tmp_path_factory.mktemp("layer")
    must(folder, "annulus generate --output in.h5 --sequence 20 --heads 4 --kv-heads 2 --head-dim 8 --layer 24 --biases")
    layer = "input: {file: in.h5}\nlayer: {heads: 4, kv_heads: 2, bq: /bq, bk: /bk, bv: /bv, bo: /bo}\n"
    run(folder, layer + "compute: {backward: true}\noutput: {file: result.h5}\n")
    (folder / "train.yaml").write_text(layer + "train: {steps: 3, rate: 0.1, checkpoint: c.h5}\noutput: {file: trained.h5}\n")
    must(folder, "mpirun -n 2 annulus train train.yaml")
    return folder


def axes(dataset):
    """{name: (dims, shape)} of an xarray dataset."""
    return {name: (variable.dims, variable.shape) for name, variable in dataset.variables.items()}


TENSORS = {
    "out": (("batch", "sequence", "head", "dim"), (2, 37, 6, 8)),
    "lse": (("batch", "sequence", "head"), (2, 37, 6)),
    "dq": (("batch", "sequence", "head", "dim"), (2, 37, 6, 8)),
    "dk": (("batch", "sequence", "kv_head", "dim"), (2, 37, 2, 8)),
    "dv": (("batch", "sequence", "kv_head", "dim"), (2, 37, 2, 8)),
}


def test_xarray_sees_tensors_by_the_names_of_their_axes(grouped):
    with xarray.open_dataset(grouped / "result.h5", engine="h5netcdf") as result:
        assert axes(result) == TENSORS  # dimension scales become axes, not variables
        assert dict(result.sizes) == {"batch": 2, "sequence": 37, "head": 6, "kv_head": 2, "dim": 8}
        assert result["out"].dtype == numpy.float16
        assert result["out"].attrs["units"] == "1"
        assert result.attrs["software"] == "annulus"
        assert re.fullmatch(r"\d+\.\d+\.\d+.*", result.attrs["version"])
        assert "6 heads of 8 (2 key/value heads), float16: longnet" in result.attrs["title"]
        with h5py.File(grouped / "result.h5") as f:
            assert (result["dk"].isel(batch=1, kv_head=0).values == f["dk"][1, :, 0]).all()
    with xarray.open_dataset(grouped / "in.h5", engine="h5netcdf") as given:
        assert given["q"].dims == given["dout"].dims == ("batch", "sequence", "head", "dim")
        assert given["k"].dims == ("batch", "sequence", "kv_head", "dim")


@pytest.mark.parametrize("group", ["run", "run/backward"])
def test_xarray_sees_what_ranks_did(grouped, group):
    with xarray.open_dataset(grouped / "result.h5", engine="h5netcdf", group=group) as ran:
        kept, hops = ran["kept"], ran["hop_kept"]
        assert kept.dims == ("rank",) and kept.shape == (3,)
        assert hops.dims == ("rank", "hop") and hops.shape[0] == 3
        assert (hops.sum("hop") == kept).all()
        for name, units in (("compute_seconds", "s"), ("wait_seconds", "s"), ("bytes_sent", "bytes"), ("kept", "1"),
                            ("hop_rows_received", "1"), ("peak_bytes", "bytes")):
            assert ran[name].attrs["units"] == units
            assert ran[name].attrs["long_name"]
        assert {variable.attrs["units"] for name, variable in ran.variables.items() if name != "settings"} == {"s", "bytes", "1"}


def test_xarray_sees_the_cases_of_a_sweep(tmp_path):
    (tmp_path / "bench.yaml").write_text(
        "input: {generate: {sequence: 64, heads: 2}}\noutput: {file: none}\n"
        "bench: {file: sweep.h5, repeats: 1, sweep: [{attention.causal: [true, false]}]}\n")
    must(tmp_path, "annulus bench bench.yaml")
    with xarray.open_dataset(tmp_path / "sweep.h5", engine="h5netcdf", group="cases") as cases:
        assert dict(cases.sizes) == {"case": 2}
        assert {variable.dims for variable in cases.variables.values()} == {("case",)}
        assert list(cases["number"].values) == [0, 1] and list(cases["status"].values) == ["ok", "ok"]
        assert (cases["attention_seconds_median"].values > 0).all()
    with xarray.open_dataset(tmp_path / "sweep.h5", engine="h5netcdf") as sweep:
        assert sweep.attrs["title"] == "annulus bench: a sweep of 2 cases"
        assert sweep.attrs["software"] == "annulus" and sweep.attrs["version"]


def test_xarray_sees_layers_and_trainings(layer):
    with xarray.open_dataset(layer / "result.h5", engine="h5netcdf") as result:
        found = {name: dims for name, (dims, _) in axes(result).items()}
        assert found == {
            "y": ("batch", "sequence", "width"), "dx": ("batch", "sequence", "width"),
            "dwq": ("width", "q_width"), "dwk": ("width", "kv_width"), "dwv": ("width", "kv_width"), "dwo": ("q_width", "width"),
            "dbq": ("q_width",), "dbk": ("kv_width",), "dbv": ("kv_width",), "dbo": ("width",)}
        assert dict(result.sizes) == {"batch": 1, "sequence": 20, "width": 24, "q_width": 32, "kv_width": 16}
    with xarray.open_dataset(layer / "trained.h5", engine="h5netcdf") as trained:
        assert trained["loss"].dims == ("step",) and trained["loss"].shape == (4,)
        assert trained["wo"].dims == ("q_width", "width")
        assert "after 3 steps" in trained.attrs["title"] and "fingerprint_x" in trained.attrs
    with xarray.open_dataset(layer / "in.h5", engine="h5netcdf") as given:
        assert given["target"].dims == ("batch", "sequence", "width")


def test_netcdf4_reads_float32(grouped, layer):
    # netCDF4 runs in its own process, because the library ends the process if it does not understand a file.
    must(grouped, "annulus run run.yaml --set output.type=float32 --set output.file=float32.h5")
    script = """
import sys, netCDF4, numpy
with netCDF4.Dataset(sys.argv[1]) as f:
    f.set_auto_mask(False)
    print({name: (v.dimensions, v.shape, str(v.dtype), v.units) for name, v in f.variables.items()})
    print({name: d.size for name, d in f.dimensions.items()})
    print([g for g in f.groups], f.title != "")
    numpy.save("found.npy", f[sys.argv[2]][:])
    run = f["run"]
    print({name: v.dimensions for name, v in run.variables.items() if name.startswith("hop_") or name == "kept"})
"""
    tensors, sizes, groups, columns = must(grouped, f"python3 -c '{script}' float32.h5 dk").splitlines()
    assert eval(tensors) == {name: (*found, "float32", "1") for name, found in TENSORS.items()}
    assert eval(sizes) == {"batch": 2, "sequence": 37, "head": 6, "kv_head": 2, "dim": 8}
    assert groups == "['provenance', 'run'] True"
    assert eval(columns)["hop_wait_seconds"] == ("rank", "hop") and eval(columns)["kept"] == ("rank",)
    with h5py.File(grouped / "float32.h5") as f:
        assert (numpy.load(grouped / "found.npy") == f["dk"][...]).all()
    lines = must(layer, f"python3 -c '{script}' result.h5 dwo").splitlines()
    assert eval(lines[0])["dwo"] == (("q_width", "width"), (32, 24), "float32", "1")


def test_without_an_engine_xarray_reads_float32_too(grouped):
    must(grouped, "annulus run run.yaml --set output.type=float32 --set output.file=default.h5")
    script = 'import xarray; print(xarray.open_dataset("default.h5")["out"].dims)'
    assert must(grouped, f"python3 -c '{script}'") == "('batch', 'sequence', 'head', 'dim')\n"


def test_h5py_sees_scales_without_numbers(grouped):
    with h5py.File(grouped / "result.h5") as f:
        assert [axis[0].name for axis in f["dk"].dims] == ["/batch", "/sequence", "/kv_head", "/dim"]
        assert [axis[0].name for axis in f["run/hop_kept"].dims] == ["/run/rank", "/run/hop"]
        for name, length in (("batch", 2), ("sequence", 37), ("head", 6), ("kv_head", 2), ("dim", 8), ("run/rank", 3)):
            scale = f[name]
            assert scale.is_scale and scale.shape == (length,) and scale.id.get_storage_size() == length
            assert scale.attrs["NAME"].decode() == f"{SCALE}{length:10}"
            assert not scale[...].any()
        # A scale lists the axes that it is attached to, so that it can be detached.
        assert {(f[reference].name, int(axis)) for reference, axis in f["kv_head"].attrs["REFERENCE_LIST"]} == {("/dk", 2), ("/dv", 2)}


def test_h5py_takes_scales_off_and_attaches_others(grouped):
    """HDF5's own functions understand the lists that the program wrote."""
    copy = grouped / "copy.h5"
    copy.write_bytes((grouped / "result.h5").read_bytes())
    with h5py.File(copy, "r+") as f:
        f["dk"].dims[2].detach_scale(f["kv_head"])
        f["rows"] = numpy.arange(37)
        f["rows"].make_scale("rows")
        f["out"].dims[1].attach_scale(f["rows"])
        assert [len(axis) for axis in f["dk"].dims] == [1, 1, 0, 1]
        assert [axis.name for axis in f["out"].dims[1].values()] == ["/sequence", "/rows"]
        assert len(f["kv_head"].attrs["REFERENCE_LIST"]) == 1


def test_h5dump_reads_all_of_it(grouped, layer):
    for folder, name in ((grouped, "result.h5"), (grouped, "in.h5"), (layer, "trained.h5"), (layer, "c.h5")):
        text = must(folder, f"h5dump {name}")
        assert SCALE in text and "DIMENSION_LIST" in text
        assert "unable" not in text


def test_an_input_of_xarray_is_read_by_the_names_of_its_axes(tmp_path):
    rng = numpy.random.default_rng(1)
    dims = ("batch", "head", "sequence", "dim")  # PyTorch's order
    tensors = {name: (dims, rng.standard_normal((1, 3, 20, 8)).astype("f4")) for name in "qkv"}
    xarray.Dataset(tensors).to_netcdf(tmp_path / "in.nc", engine="h5netcdf")
    run(tmp_path, "input: {file: in.nc}\noutput: {file: result.h5}\n")
    with xarray.open_dataset(tmp_path / "result.h5", engine="h5netcdf") as result:
        assert axes(result) == {"out": (dims, (1, 3, 20, 8)), "lse": (dims[:3], (1, 3, 20))}
        assert numpy.allclose(result["out"].isel(sequence=0), tensors["v"][1][:, :, 0])  # row 0 sees itself only


def test_a_missing_filter_is_named_and_found_by_its_path(tmp_path):
    plugins = must(tmp_path, "python3 -c 'import hdf5plugin; print(hdf5plugin.PLUGIN_PATH)'").strip()
    write = ("import h5py, hdf5plugin, numpy; f = h5py.File(\"in.h5\", \"w\"); "
             "[f.create_dataset(n, data=numpy.zeros((1, 64, 2, 8), \"f4\"), **hdf5plugin.Zstd()) for n in \"qkv\"]; f.close()")
    must(tmp_path, f"python3 -c '{write}'")
    (tmp_path / "run.yaml").write_text("input: {file: in.h5}\noutput: {file: result.h5}\n")
    refused = shell(tmp_path, "mpirun -n 2 annulus run run.yaml", HDF5_PLUGIN_PATH=str(tmp_path))
    assert refused.returncode == 1
    assert refused.stderr.count("annulus: error:") == 1
    assert "in.h5: dataset /q cannot be read; it is stored with HDF5 filter 32015 (" in refused.stderr
    assert f"HDF5_PLUGIN_PATH (searched now: {tmp_path})" in refused.stderr
    must(tmp_path, "mpirun -n 2 annulus run run.yaml", HDF5_PLUGIN_PATH=plugins)


def blocks(page):
    """(language, text) of the fenced blocks of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_everything_on_the_page_runs(tmp_path):
    printed = []
    for language, text in blocks(ROOT / "docs/results.md"):
        if language == "yaml":
            (tmp_path / "run.yaml").write_text(text)
        elif language == "sh":
            printed.append(must(tmp_path, text))
        else:
            assert language == "python"
            (tmp_path / "block.py").write_text(text)
            printed.append(must(tmp_path, "python3 -W error block.py"))
    text = "".join(printed)
    assert "['batch', 'sequence', 'head', 'dim']" in text.replace("/", "")
    assert "wall time waiting for messages" in text
    assert "kept (query, key, head) triples" in text
    assert "ring" in text or "single" in text  # the table of reports
    assert json.loads((tmp_path / "report.json").read_text())["settings"]["rows"] == 4096
