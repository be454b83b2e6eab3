#!/usr/bin/env bash
# The steps of run.sh inside the tree.
#
#   in_tree.sh install WHEEL | torch | try_torch
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python=/root/environment/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1 MPLBACKEND=Agg

install() {
  local began
  apt-get -q update >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends python3 python3-venv >/dev/null
  for compiler in cc c++ gcc g++ clang cmake mpirun; do
    if command -v "$compiler"; then echo "this tree has $compiler: it proves nothing" >&2; exit 1; fi
  done
  began=$SECONDS
  python3 -m venv /root/environment
  "$python" -m pip install --quiet "$1"
  (cd / && "$python" - <"$OLDPWD/first_example.py")
  printf '== installed, and the first example ran, in %d s\n' $((SECONDS - began))
  "$python" try_arrays.py
}

# Installs PyTorch's wheel alone, then what it needs except the GPU libraries (GPU_ONLY in tools/venv/locked.py).
torch() {
  "$python" -m pip install --quiet --no-deps --no-compile 'torch>=2.8,<2.16'
  "$python" - <<'PYTHON' | xargs "$python" -m pip install --quiet
import importlib.metadata as metadata

for need in metadata.requires("torch") or []:
    need = need.split(";")[0].strip() if "extra ==" not in need else ""
    if need and not need.startswith(("nvidia", "cuda", "triton", "setuptools")):
        print(f"'{need}'")
PYTHON
}

try_torch() { "$python" try_torch.py; }

"$@"
