"""Compares open_result with h5py on files of the program, and tries files that are not results."""
import pickle
import re

import h5py
import numpy as np
import pytest
import xarray as xr
from conftest import tools

import annulus
from annulus.errors import AnnulusError


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_numbers_are_those_of_the_file(results, dtype):
    result = annulus.open_result(results[dtype])
    with h5py.File(results[dtype]) as file:
        for name in ("out", "lse", "dq", "dk", "dv"):
            np.testing.assert_array_equal(result[name].values, file[name][...])
        # parts of `out`, selected in xarray's different ways
        out = file["out"][...]
    np.testing.assert_array_equal(result.out[0, 5:60:7, ::-1, 3].values, out[0, 5:60:7, ::-1, 3])
    np.testing.assert_array_equal(result.out.isel(sequence=[7, 3, 3], head=2).values, out[:, [7, 3, 3], 2])
    assert result.out[1, 2, 3, 4].values == out[1, 2, 3, 4]
    expected = {"bfloat16": "float32"}.get(dtype, dtype)
    assert result.out.dtype == expected
    assert result.out.attrs.get("stored_as") == ("bfloat16" if dtype == "bfloat16" else None)


def test_axes_units_and_metadata(results):
    result = annulus.open_result(results["float32"])
    assert result.out.dims == ("batch", "sequence", "head", "dim")
    assert result.lse.dims == ("batch", "sequence", "head")
    assert result.dk.dims == ("batch", "sequence", "kv_head", "dim")
    assert dict(result.sizes) | {"batch": 2, "sequence": 96, "head": 4, "kv_head": 2, "dim": 16, "rank": 3, "hop": 3} \
        == dict(result.sizes)
    assert result.rows.dims == ("rank",) and result.rows.values.sum() == 96
    assert result.hop_wait_seconds.dims == ("rank", "hop")
    assert result.hop_wait_seconds.attrs["units"] == "s"
    assert result.backward_hop_kept.dims[0] == "rank" and result.backward_hop_kept.dims[1] == "backward_hop"
    assert list(result["rank"].values) == [0, 1, 2]
    assert result.attrs["software"] == "annulus" and re.fullmatch(r"\d+\.\d+\.\d+", result.attrs["version"])
    told = annulus.settings(result)
    assert told["attention"]["segments"] == [32, "all"] and told["distribution"]["strategy"] == "ring"


def test_settings_are_read_as_the_program_reads_them():
    """YAML 1.1, which PyYAML reads, has other words for true, and takes 1e-05 for a text."""
    found = annulus.settings("train:\n  rate: 1e-05\n  steps: 3\n  checkpoint: on\ninput:\n  q: 2026-11-28\n  k: 12:30\n  sink: 010\n  v: \"7\"\n"
                             "attention:\n  segments: [2, all]\n  causal: true\n  scale: -.5\n  sink: ~\n")
    assert found == {"train": {"rate": 1e-5, "steps": 3, "checkpoint": "on"}, "input": {"q": "2026-11-28", "k": "12:30", "sink": "010", "v": "7"},
                     "attention": {"segments": [2, "all"], "causal": True, "scale": -0.5, "sink": None}}
    assert type(found["train"]["steps"]) is int and type(found["train"]["rate"]) is float


def test_is_lazy_and_keeps_no_file_open(results, tmp_path):
    copy = tmp_path / "copy.h5"
    copy.write_bytes(results["float32"].read_bytes())
    result = annulus.open_result(copy)
    first = result.out[0, 0, 0, 0].values
    assert first == pickle.loads(pickle.dumps(result)).out[0, 0, 0, 0]
    with h5py.File(copy, "r+") as file:  # fails if open_result keeps the file open
        assert file["out"][0, 0, 0, 0] == first
        file["out"][0, 0, 0, 0] = 1234.5
    for opened in (result, pickle.loads(pickle.dumps(result))):
        with pytest.raises(AnnulusError, match="has changed since it was opened"):  # load() reads the changed file
            opened.out[0, 0, 0, 0].load()


def test_engine_of_xarray(results):
    result = xr.open_dataset(results["float16"], engine=annulus.results.backend.AnnulusBackend, drop_variables="out")
    assert "out" not in result and "lse" in result


def test_of_a_layer(results):
    result = annulus.open_result(results["layer"])
    assert result.y.dims == ("batch", "sequence", "width")
    with h5py.File(results["layer"]) as file:
        for name in ("y", "dwq", "dwk", "dwo"):
            assert result[name].shape == file[name].shape
            np.testing.assert_array_equal(result[name].values, file[name][...])


def without_scales(path):
    """Removes the dimension scales, which older versions of annulus did not write; the attribute axes names the axes."""
    with h5py.File(path, "r+") as file:
        for group in (file, file["run"]):
            datasets = [member for member in group.values() if isinstance(member, h5py.Dataset)]
            for one in datasets:
                if "DIMENSION_LIST" in one.attrs:
                    del one.attrs["DIMENSION_LIST"]
            scales = [one.name for one in datasets if one.is_scale]
            assert scales
            for name in scales:
                del file[name]


def test_without_dimension_scales(results, tmp_path):
    copy = tmp_path / "plain.h5"
    copy.write_bytes(results["float32"].read_bytes())
    without_scales(copy)
    plain, scaled = annulus.open_result(copy).load(), annulus.open_result(results["float32"]).load()
    assert plain.sizes == scaled.sizes
    xr.testing.assert_equal(plain, scaled)


def test_open_input(inputs):
    tokens = annulus.open_input(inputs("bfloat16", "--dout"))
    assert tokens.q.dims == tokens.dout.dims == ("batch", "sequence", "head", "dim")
    assert tokens.k.shape == (2, 40, 2, 8)


def foreign(tmp_path):
    (tmp_path / "text.h5").write_text("no HDF5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["temperature"] = [1.0]
    with h5py.File(tmp_path / "big.h5", "w") as file:
        file["out"] = np.zeros(1000)
    (tmp_path / "cut.h5").write_bytes((tmp_path / "big.h5").read_bytes()[:3000])
    (tmp_path / "folder.h5").mkdir()
    return {"text.h5": "is no complete HDF5 file", "other.h5": "holds temperature; expected", "cut.h5": "no complete HDF5",
            "folder.h5": "is a folder", "none.h5": "there is no such file"}


def test_foreign_files_are_refused_in_one_line(tmp_path):
    for name, expected in foreign(tmp_path).items():
        with pytest.raises(AnnulusError, match=expected) as refusal:
            annulus.open_result(tmp_path / name)
        assert str(refusal.value).startswith(str(tmp_path / name)) and "\n" not in str(refusal.value)
        for verb in (("report", name), ("plot", "lse", name, "x.png"), ("plot", "memory", name, "x.png"),
                     ("convert", name, "x.h5")):
            output, message = tools(*verb, folder=tmp_path, status=2)
            assert output == "" and message.startswith(f"annulus-tools: error: {name}: ") and message.count("\n") == 1
    assert not list(tmp_path.glob("x*")) and not list(tmp_path.glob("*.html"))


def test_open_sweep(tmp_path):
    with h5py.File(tmp_path / "sweep.h5", "w") as file:
        file["cases/ranks"] = [1, 2]
        file["cases/distribution.strategy"] = ["ring", "rotation"]
        file["cases/attention_seconds_median"] = [1.0, 0.5]
        file["cases/attention_seconds_median"].attrs["units"] = "s"
    sweep = annulus.open_sweep(tmp_path / "sweep.h5")
    assert list(sweep["distribution.strategy"].values) == ["ring", "rotation"]
    assert sweep.attention_seconds_median.attrs["units"] == "s" and sweep.sizes["case"] == 2
    with pytest.raises(AnnulusError, match="expected a sweep of `annulus bench`: a group cases"):
        with h5py.File(tmp_path / "none.h5", "w"):
            pass
        annulus.open_sweep(tmp_path / "none.h5")


def test_an_input_whose_axes_have_one_name_opens(tmp_path):
    with h5py.File(tmp_path / "n.h5", "w") as file:
        for name in "qk":
            file[name] = np.ones((2, 3, 4, 5))
            file[name].attrs["axes"] = "n n n n"
    opened = annulus.open_input(tmp_path / "n.h5")
    assert opened["q"].dims == ("n", "q_n", "q_n_2", "q_n_3") and opened["k"].shape == (2, 3, 4, 5)


@pytest.mark.parametrize("name", ["case.", "case"])
def test_a_scale_that_names_the_axis_is_no_column(tmp_path, name):
    """The program writes such scales. A scale with numbers, from other writers, is a column."""
    with h5py.File(tmp_path / "sweep.h5", "w") as file:
        file.attrs.update({"title": "annulus bench: 2 cases", "software": "annulus", "version": "0.1.0"})
        cases = file.create_group("cases")
        scale = cases.create_dataset(name, (2,), "i1")
        scale.make_scale(f"This is a netCDF dimension but not a netCDF variable.{2:10}")
        for column, values in (("strategy", ["ring", "rotation"]), ("status", ["ok", "ok"]), ("ranks", [2, 2]),
                               ("sequence", [64, 64]), ("attention_seconds_median", [1.0, 0.5]), ("number", [0, 1])):
            cases[column] = values
        cases["number"].make_scale("number")
        for column in ("strategy", "status", "ranks", "sequence", "attention_seconds_median"):
            cases[column].dims[0].attach_scale(scale)
    sweep = annulus.open_sweep(tmp_path / "sweep.h5")
    assert set(sweep.variables) == {"strategy", "status", "ranks", "sequence", "attention_seconds_median", "number"}
    assert sweep.sizes == {"case": 2} and sweep.attrs["version"] == "0.1.0" and sweep.attrs["software"] == "annulus"
    table = annulus.cases(tmp_path / "sweep.h5")
    assert table["strategy"].tolist() == ["ring", "rotation"] and name not in table
