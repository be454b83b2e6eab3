"""Entries of packages.lock, as pip reads them: NAME==VERSION with the hashes of its files, then who needs it.

    python3 locked.py NAME...     prints entries of NAME and all that it needs: pip --no-deps --require-hashes -r FILE

NAME is a package, a file of needs/ without its .in, or annulus: what pyproject.toml names.
"""
import re
import sys
from pathlib import Path

LOCK = Path(__file__).with_name("packages.lock")
# Packages that PyTorch requires but that a CPU does not use.
GPU_ONLY = ("nvidia", "cuda", "triton")
# torch.compile needs setuptools; environments of an older Python have it.
NOT_NEEDED = GPU_ONLY + (("setuptools",) if sys.version_info < (3, 12) else ())


class Entry:
    def __init__(self, text):
        """For example: six==1.17.0 \\ --hash=sha256:47 # via python-dateutil; # via -r tools/venv/needs/tests.in"""
        self.text = text
        self.name, self.version = re.match(r"([\w.-]+)==(\S+)", text).groups()
        needed_by = re.findall(r"^ +# +(?:via )?(?:-r \S*/)?([\w-]+)", text, re.MULTILINE)
        self.needed_by = {name for name in needed_by if name != "via"}


def entries():
    return [Entry(text) for text in re.split(r"^(?=\w)", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE) if text]


def needed(*names):
    """Entries of `names` and of all that they need on a CPU, in the order of the file."""
    known, reached = entries(), set(names)
    unknown = reached - {entry.name for entry in known} - {name for entry in known for name in entry.needed_by}
    if unknown:
        raise KeyError(f"{LOCK}: has no {', '.join(sorted(unknown))}")
    while True:
        more = {entry.name for entry in known
                if entry.needed_by & reached and not entry.name.startswith(NOT_NEEDED)} - reached
        if not more:
            return [entry for entry in known if entry.name in reached]
        reached |= more


if __name__ == "__main__":
    print("".join(entry.text for entry in needed(*sys.argv[1:])), end="")
