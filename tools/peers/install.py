"""Installs the peers from PyPI into the private virtual environment of tools/venv; quick if they are installed.

Every peer needs numpy and h5py. A peer that cannot be installed is left out, and the others run.
"""
import subprocess
import sys
from pathlib import Path

from program import say

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "venv"))
import environment as venv  # noqa: E402: tools/venv/environment.py

NUMBERS_WORK = "import numpy, h5py; print(numpy.__version__, h5py.__version__)"
ONNX_WORKS = "import onnx, onnxruntime; print(onnxruntime.__version__)"
JAX_WORKS = "import jax; jax.numpy.ones(2).block_until_ready(); print(jax.__version__)"


def install_jax(environment):
    if not environment.works(JAX_WORKS):
        say("installing JAX: about 150 MB, 520 MB unpacked")
        environment.install("jax", *venv.NUMBERS)
    return environment.command(environment.python, "-c", JAX_WORKS)


def install_onnxruntime(environment):
    if not environment.works(ONNX_WORKS):
        say("installing ONNX Runtime: about 40 MB")
        environment.install("onnxruntime", "onnx", *venv.NUMBERS)
    return environment.command(environment.python, "-c", ONNX_WORKS)


# The codes of --field in the versions that were measured, and what they import beside PyTorch. Each is installed
# without its requirements, which are other versions of PyTorch, or GPU packages (standins.py).
FIELD = {"ring-attention-pytorch": "0.5.20", "yunchang": "0.6.4", "ring-flash-attn": "0.1.8", "deepspeed": "0.19.8",
         "para-attn": "0.3.38", "dilated-attention-pytorch": "0.2.0"}
FIELD_NEEDS = ["einops==0.8.2", "beartype<0.24", "jaxtyping<0.4", "wadler-lindig<0.2", "hjson<4", "msgpack<2",
               "py-cpuinfo<10", "ninja<2"]


def install_field(folder):
    """{package: version} of those codes of the field that are in `folder`, apart from every other package; installs
    what is missing there, and prints what could not be installed."""
    environment, versions = venv.Environment(say), {}
    with environment.locked():
        for name in ["needs", *FIELD]:
            needs = [f"{name}=={FIELD[name]}"] if name in FIELD else FIELD_NEEDS
            done = folder / f"installed-{name}.txt"
            try:
                if not done.exists() or done.read_text(encoding="utf-8") != " ".join(needs):
                    say(f"installing {name if name in FIELD else 'what they import'}")
                    environment.pip("--no-deps", "--upgrade", "--target", str(folder), *needs)
                    done.write_text(" ".join(needs), encoding="utf-8")
                versions |= {name: FIELD[name]} if name in FIELD else {}
            except (venv.Failed, OSError) as problem:
                say(f"{name} is left out: {problem}")
    return versions


def install(wanted):
    """(the environment's python or None, {peer: version} of what works); says what is missing and why."""
    environment = venv.Environment(say)
    with environment.locked():
        try:
            environment.install(*venv.NUMBERS)
        except venv.Failed as failure:
            say(f"no peer can be measured: {failure}")
            return None, {}
        versions = {"numpy, h5py": environment.works(NUMBERS_WORK)}
        for peer, put_in in (("torch", venv.Environment.install_torch), ("jax", install_jax),
                             ("onnxruntime", install_onnxruntime)):
            if peer not in wanted:
                continue
            try:
                versions[peer] = put_in(environment)
            except (venv.Failed, OSError, subprocess.CalledProcessError) as problem:
                say(f"{peer} is left out: {problem}")
        return environment.python, versions
