"""The README's way from own tensors to a picture: its commands, one after another, in a folder like a clone."""
import re
import shutil

import h5py
import numpy as np
from conftest import PROGRAM, ROOT
from test_docs import shell

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_from_tensors_to_a_picture(tmp_path):
    block, = re.findall(r"^```sh\n(\./tools/quickstart\n.*?)^```$", README, re.MULTILINE | re.DOTALL)
    commands = block.splitlines()
    assert len(commands) <= 5
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "tokens.npz", **{n: generator.standard_normal((1, 4, 4096, 16)).astype("f4") for n in "qkv"})
    shutil.copytree(ROOT / "input/bench", tmp_path / "input/bench")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    (tmp_path / "build/release").mkdir(parents=True)
    (tmp_path / "build/release/annulus").symlink_to(PROGRAM)  # what quickstart builds
    shell("\n".join(commands[1:]), tmp_path)
    with h5py.File(tmp_path / "build/own_tensors.h5") as file:
        cases = file["cases"]
        assert set(cases["status"].asstr()) == {"ok"}
        assert len(cases["status"]) == 10 and np.all(cases["attention_seconds_median"][:] > 0)
        assert np.all(cases["error_out"][:] < 1e-5)
    assert (tmp_path / "strategies.png").stat().st_size > 10000
