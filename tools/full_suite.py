#!/usr/bin/env python3
"""The parts of ./tools/test --full: what each part covers, and its last result, which is in docs/full-suite.md.

    full_suite.py list                          each part and what it covers
    full_suite.py stale                         parts that have not passed since their files last changed
    full_suite.py record PART SECONDS STATUS    writes a result of this commit
"""
import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/full-suite.md"
BUILD = ["CMakeLists.txt", "CMakePresets.json", "tools/cmake", "tools/full.sh", "tests/CMakeLists.txt", "tests/support"]
KERNELS = ["src/annulus/core", "src/annulus/kernels"]
STRATEGIES = [*KERNELS, "src/annulus/comm", "src/annulus/pattern", "src/annulus/strategies", "src/annulus/planner",
              "src/annulus/library"]
# Group of rooms: (folders whose files decide its tests, the rooms). rooms_of() in tools/full.sh has the same groups.
GROUPS = {
    "rooms": (["src/annulus", "tests"], "other rooms"),
    "kernels": ([*KERNELS, "tests/kernels"], "kernels"),
    "strategies": ([*STRATEGIES, "tests/strategies", "tests/library"], "strategies, library"),
    "program": (["src/annulus", "tests/app", "tests/end_to_end"], "app, program"),
}
# Part: (folders and files whose change makes its result old, what it covers).
PARTS = {
    "soak": ([*STRATEGIES, "tests/strategies"], "random problems, two minutes, 1 to 6 ranks"),
    "tidy-rooms": (["src/annulus", ".clang-tidy"], "clang-tidy: rooms but kernels, strategies"),
    "tidy-kernels": ([*STRATEGIES, ".clang-tidy"], "clang-tidy: kernels, strategies"),
    "tidy-tests": (["src/annulus", "tests", ".clang-tidy"], "clang-tidy: tests, but of strategies"),
    "tidy-strategies": ([*STRATEGIES, "tests/strategies", ".clang-tidy"], "clang-tidy: tests of strategies"),
    "without-mpi": ([*STRATEGIES, "tools/python", "pyproject.toml"], "library and Python package without MPI"),
    "slow-ranks": (["src/annulus", "tests/app", "tests/report", "tests/store"],
                   "tests of files, with one rank always late"),
    "faults": (["src/annulus", "tests/faults"], "kills, full disks, cut networks, bits; needs root"),
    "caches": (["src/annulus/store", "tests/shared_cache"], "a file by two mounts with own caches; needs root"),
    "mutations": (["src/annulus", "tests"], "mistakes that are made on purpose: tests notice each"),
    "peers": (["src/annulus", "tools/peers"], "the tables beside PyTorch and others, small"),
    "memcheck": (["src/annulus", "tests/memcheck"], "Valgrind: each strategy, 2 ranks, gradients, AVX2"),
    "tsan": (["src/annulus/core", "src/annulus/comm", "tests/comm", "tests/core"],
             "thread sanitizer (clang): watchdog, messages, core"),
    "asan-O0": (["src/annulus", "tests"], "as asan-rooms, nothing inlined; the program, too"),
    "aarch64": ([*STRATEGIES, "tests/core", "tests/kernels", "tests/strategies", "tests/library"],
                "64-bit Arm, emulated: the library, one process"),
    "mpich": (["src/annulus", "tests", "job_scripts"], "all on 1 and 2 ranks of MPICH; two job scripts"),
}
for group, (folders, rooms) in GROUPS.items():
    PARTS[f"debug-{group}"] = (folders, f"asserts, checked containers: {rooms}")
    PARTS[f"asan-{group}"] = (folders, f"address, undefined behaviour: {rooms}")
ROW = re.compile(r"^\| `(?P<part>[\w-]+)` \|.*\| (?P<result>(?P<status>passed|FAILED) .* at (?P<commit>[0-9a-f]+)\b.*?) \|$",
                 re.MULTILINE)


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


def results(text):
    """{part: match of its row}, of the page's rows that have a result."""
    return {row["part"]: row for row in ROW.finditer(text)}


def table(written):
    rows = [f"| `{part}` | {covers} | {written.get(part, 'not run yet')} |" for part, (_, covers) in sorted(PARTS.items())]
    return "\n".join(["| part | covers | last result |", "|---|---|---|", *rows, ""])


def with_table(text, written):
    start = text.index("| part | covers |")
    end = re.compile(r"^(?!\|)", re.MULTILINE).search(text, start).start()
    return text[:start] + table(written) + text[end:]


def is_stale(part, known):
    """Whether the part did not pass last time, or one of its files, or a file of BUILD, has changed since then."""
    if part not in known or known[part]["status"] != "passed":
        return True
    try:
        changed = git("diff", "--name-only", known[part]["commit"], "--", *PARTS[part][0], *BUILD)
    except subprocess.CalledProcessError:
        return True  # a commit that this clone does not have
    return bool(changed)


def main(words):
    text = PAGE.read_text(encoding="utf-8")
    known = results(text)
    if words == ["list"]:
        for part, (_, covers) in sorted(PARTS.items()):
            print(f"{part:17} {covers}")
    elif words == ["stale"]:
        for part in sorted(PARTS):
            if is_stale(part, known):
                print(part)
    elif len(words) == 4 and words[0] == "record" and words[1] in PARTS:
        dirty = " (files changed)" if git("status", "--porcelain", "--untracked-files=no", "--", ":!docs") else ""
        written = {part: row["result"] for part, row in known.items()}
        written[words[1]] = (f"{'passed' if words[3] == '0' else 'FAILED'} {datetime.date.today()} at "
                             f"{git('rev-parse', '--short', 'HEAD')}{dirty}, {-(-int(words[2]) // 60)} min")
        PAGE.write_text(with_table(text, written), encoding="utf-8")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
