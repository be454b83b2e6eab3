"""Runs the README's commands from one's own tensors to a picture, one after another, in a folder like a clone."""
import re
import shlex
import shutil

import h5py
import numpy as np
from conftest import PROGRAM, ROOT, tools
from matplotlib.image import imread
from test_docs import shell

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_from_tensors_to_a_picture(tmp_path):
    block, = re.findall(r"^```sh\n(\./tools/quickstart\n.*?)^```$", README, re.MULTILINE | re.DOTALL)
    commands = block.splitlines()
    assert len(commands) <= 5
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "tokens.npz", **{n: generator.standard_normal((1, 4, 4096, 16)).astype("f4") for n in "qkv"})
    shutil.copytree(ROOT / "input/bench", tmp_path / "input/bench")
    for name in ("tools", "src", "CMakeLists.txt", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "build/release").mkdir(parents=True)
    (tmp_path / "build/release/annulus").symlink_to(PROGRAM)  # what quickstart builds
    shell("\n".join(commands[1:]), tmp_path)
    with h5py.File(tmp_path / "build/own_tensors.h5") as file:
        cases = file["cases"]
        assert set(cases["status"].asstr()) == {"ok"}
        assert len(cases["status"]) == 10 and np.all(cases["attention_seconds_median"][:] > 0)
        assert np.all(cases["error_out"][:] < 1e-5)
    assert (tmp_path / "strategies.png").stat().st_size > 10000


def coarse(picture):
    """(n, m) mean brightness in [0, 1] of blocks of 16 x 16 dots, which small differences in letters hardly change."""
    dots = imread(picture)[..., :3].mean(axis=2)
    rows, columns = (16 * (extent // 16) for extent in dots.shape)
    return dots[:rows, :columns].reshape(rows // 16, 16, columns // 16, 16).mean(axis=(1, 3))


def test_the_picture_is_what_its_command_draws(tmp_path):
    shown, = re.findall(r'<img src="([^"]+)"', README)
    command, = re.findall(r"`annulus-tools (plot [^`]+)` drew the picture", README)
    tools(*shlex.split(command), folder=tmp_path)
    committed, drawn = coarse(ROOT / shown), coarse(tmp_path / "pattern.png")
    assert (tmp_path / "pattern.png").stat().st_size > 10_000 and drawn.std() > 0.05
    assert committed.shape == drawn.shape
    assert abs(committed - drawn).mean() < 0.005, "draw it again, into docs/pictures"
    tools(*shlex.split(command.replace("16,64,all", "32,64,all").replace("pattern.png", "other.png")), folder=tmp_path)
    assert abs(committed - coarse(tmp_path / "other.png")).mean() > 0.01  # another pattern would be noticed
    assert (imread(ROOT / shown)[:5, :, :3] == 1).all()  # the background is white, also for dark pages
