#!/usr/bin/env bash
# Installs a wheel that tools/wheel made in a fresh tree of a Debian release that has Python and no compiler, as a new user
# would, and tries what the package does. Needs root, debootstrap, a network, and some 4 GiB.
#
#   tests/wheel/run.sh RELEASE WHEEL
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
release=$1
wheel=$(realpath "$2")
tree=build/$release-without-compiler

enter() { DEBIAN_TREE=$tree tools/debian_tree "$release" "$@"; }
rm -rf "$tree"
enter true  # makes the tree
cp "$wheel" "$tree/root/"
enter tests/wheel/in_tree.sh install "/root/$(basename "$wheel")"
enter tests/wheel/in_tree.sh torch
# PyTorch's wheel needs GPU libraries of 2.5 GB, which a CPU never calls (tools/venv/stubs.py). Their stand-ins are
# compiled outside the tree, where there is a compiler.
python3 - "$tree" <<'PYTHON'
import sys
from pathlib import Path

sys.path.insert(0, "tools/venv")
import stubs

for folder in Path(sys.argv[1]).glob("root/environment/lib/python*/site-packages/torch/lib"):
    print(f"wheel: {len(stubs.provide(folder))} stand-ins for GPU libraries")
PYTHON
enter tests/wheel/in_tree.sh try_torch
printf '\n== %s works on %s without a compiler\n' "$(basename "$wheel")" "$release"
