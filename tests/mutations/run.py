#!/usr/bin/env python3
"""Puts faults into the source, one after the other, and shows that tests notice each of them.

    run.py [--folder FOLDER] [--page FILE | NAME...]   NAME: a mutation, or a room; FOLDER (default build/mutations):
                                                       where a copy of the source is changed, built and tested
                                                       --page: also writes FILE, a page with the table, if each mutation
                                                       was noticed
    run.py --check BUILD                               checks only that the text which each mutation replaces occurs
                                                       once in the source, and that the mutation's tests exist in BUILD,
                                                       a CMake build with tests

The mutations are in the files named in FILES. First the tests that the mutations name must pass on the unchanged
source. Then each mutation is applied, the programs that its tests need are built, and all its tests must fail. Exit
status 0 if each mutation was noticed.
"""
import argparse
import dataclasses
import datetime
import importlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from case import MUTATIONS

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
FILES = ("arithmetic", "messages", "files", "words")
LEFT_OUT = shutil.ignore_patterns("build", ".git", ".cache", "__pycache__")
HEADING = ["| what is wrong then | room | noticed by | seconds |", "|---|---|---|---|"]
PAGE = """\
# Which mistakes the tests notice

`tests/mutations/run.py` makes a mistake in a copy of the source, builds the tests that should notice this mistake, and
runs them; then it does the same with the next mistake. It fails if one of these tests passes in spite of the mistake,
or fails without the mistake. A test that runs into its time-out, or ends early, has noticed the mistake; a test that
cannot be built has not. `./tools/test --full` runs this script. In every build, a test checks that each mistake can
still be made: that the text which it replaces occurs once in the source.

The last run printed this table, with commit {commit} on {date}. The first column says what is wrong when the
mistake is made. The seconds are those of building and testing, on two cores that other processes used, too.

{table}
"""


class Wrong(Exception):
    """A mutation does not apply, does not compile, or is not noticed."""


@dataclasses.dataclass
class Outcome:
    """What one test did."""
    test: str
    failed: bool
    how: str  # the first test case that failed, or how the process ended


def applied(mutation, root):
    """The text of the mutation's file below `root`, with the mutation."""
    text = (root / mutation.file).read_text(encoding="utf-8")
    found = text.count(mutation.find)
    if found != 1 or mutation.find == mutation.put:
        raise Wrong(f"{mutation.file} has the text to be replaced {found} times, expected once: {mutation.find!r}")
    return text.replace(mutation.find, mutation.put)


def check(build):
    """Prints the mutations that no longer fit the source; quick, because nothing is built. Returns the exit status."""
    listed = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"Test +#\d+: (\S+)", listed))
    wrong = [f"{mutation.name}: there is no test {test}" for mutation in MUTATIONS for test in mutation.tests
             if not (has_python_test(test) if is_python(test) else test.partition(":")[0] in known)]
    for mutation in MUTATIONS:
        try:
            applied(mutation, SOURCE)
        except (OSError, Wrong) as error:
            wrong.append(f"{mutation.name}: {error}")
    print("\n".join([*wrong, f"{len(MUTATIONS)} mutations, {len(wrong)} findings"]))
    return 1 if wrong else 0


def is_python(test):
    return "::" in test


def has_python_test(test):
    """Whether a test of pytest exists. Example: "tests/test_masks.py::test_x"."""
    name, _, function = test.partition("::")
    path = SOURCE / "tools/python" / name
    return path.exists() and f"def {function.split('::')[-1]}(" in path.read_text(encoding="utf-8")


def copy_changed(source, target):
    """Copies a file if it differs. The copy gets a new time, so that everything that depends on it is built again."""
    if not os.path.exists(target) or Path(source).read_bytes() != Path(target).read_bytes():
        shutil.copyfile(source, target)
        shutil.copymode(source, target)


class Copy:
    """A copy of the source with a build of its own. If an earlier run has left a copy, it is brought up to date."""

    def __init__(self, folder):
        self.root, self.build = folder, folder / "build" / "test"
        shutil.copytree(SOURCE, folder, ignore=LEFT_OUT, copy_function=copy_changed, dirs_exist_ok=True, symlinks=True)
        for path in [path for top in ("src", "tests", "tools") for path in (folder / top).rglob("*")]:
            if path.is_file() and not (SOURCE / path.relative_to(folder)).exists():
                path.unlink()
        if shutil.which("ccache"):
            os.environ.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")
        self.run("cmake", "-S", folder, "-B", self.build, "-G", "Ninja", "-DANNULUS_BUILD_TESTS=ON",
                 "-DANNULUS_WERROR=ON", "-DCMAKE_BUILD_TYPE=Release")
        os.environ.pop("CMAKE_CXX_COMPILER_LAUNCHER", None)  # tests that configure builds of their own do not expect it
        os.environ.pop("CMAKE_C_COMPILER_LAUNCHER", None)

    @staticmethod
    def run(*command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Wrong(f"{' '.join(map(str, command[:3]))} fails:\n{done.stdout[-3000:]}")

    def make(self, tests):
        """Builds what the tests run: program NAME for the test NAME.np3; the program annulus and the library for
        pytest."""
        targets = {re.match(r"\w+", test)[0] for test in tests if not is_python(test)}
        if any(map(is_python, tests)):
            targets |= {"annulus", "annulus_whole"}
        self.run("cmake", "--build", self.build, "--parallel", str(os.cpu_count()), "--target", *sorted(targets))

    def outcome(self, test):
        """Runs a test of ctest ("NAME"), some of its cases ("NAME:FILTER") or a test of pytest
        ("tests/FILE.py::NAME")."""
        name, _, cases = test.partition(":")
        if is_python(test):
            return self.outcome_of_python(test)
        done = subprocess.run(["ctest", "--test-dir", self.build, "--output-on-failure", "--no-tests=error", "-R",
                               f"^{re.escape(name)}$"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", env={**os.environ, "GTEST_FILTER": cases or "*"})
        end = re.search(r"Test +#\d+: \S+ \.*([^.]*?) +[\d.]+ sec", done.stdout)
        if end is None or "no test was selected" in done.stdout:  # printed by tests/support
            raise Wrong(f"{test} was not run:\n{done.stdout[-3000:]}")
        first = re.search(r"\[  FAILED  \] ([\w/]+\.[\w/]+)", done.stdout)
        word = {"Failed": "ends early", "Timeout": "time-out"}.get(end[1].strip(" *"), end[1].strip(" *").lower())
        return Outcome(name, done.returncode != 0, first[1] if first else word)

    def outcome_of_python(self, test):
        environment = {name: value for name, value in os.environ.items() if name != "ANNULUS_PROGRAM"}
        done = subprocess.run([self.root / "tools/python/test", test], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=environment)
        if done.returncode not in (0, 1):  # pytest: 0 all passed, 1 some failed
            raise Wrong(f"{test} was not run:\n{done.stdout[-3000:]}")
        first = re.search(r"^FAILED \S+?::([^\s\[]+)", done.stdout, re.MULTILINE)
        return Outcome(test.partition("::")[0], done.returncode == 1, first[1] if first else "passed")

    def try_mutation(self, mutation):
        """Returns the line of the table and the cases that failed; raises Wrong if a test does not fail."""
        begin, path = time.monotonic(), self.root / mutation.file
        before, after = path.read_text(encoding="utf-8"), applied(mutation, self.root)
        path.write_text(after, encoding="utf-8")
        try:
            self.make(mutation.tests)
            outcomes = [self.outcome(test) for test in mutation.tests]
        finally:
            path.write_text(before, encoding="utf-8")
        passed = [outcome.test for outcome in outcomes if not outcome.failed]
        if passed:
            raise Wrong(f"NOT NOTICED by {', '.join(passed)}")
        tests, cases = (", ".join(words) for words in zip(*((f"`{one.test}`", one.how) for one in outcomes)))
        return f"| {mutation.what} | {mutation.room} | {tests} | {time.monotonic() - begin:.0f} |", cases


def chosen(names):
    known = {word for mutation in MUTATIONS for word in (mutation.name, mutation.room)}
    for name in names:
        if name not in known:
            sys.exit(f"run.py: there is no mutation {name}; there are: {', '.join(one.name for one in MUTATIONS)}")
    return [one for one in MUTATIONS if not names or one.name in names or one.room in names]


def page_text(table):
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return PAGE.format(commit=commit.stdout.strip(), date=datetime.date.today().isoformat(), table=table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", type=Path, metavar="BUILD")
    parser.add_argument("--folder", type=Path, default=SOURCE / "build" / "mutations")
    parser.add_argument("--page", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.page and given.names:
        parser.error("--page is for the table of all mutations: it cannot be combined with NAME")
    for module in FILES:
        importlib.import_module(module)
    if given.check:
        return check(given.check)
    mutations, lines, begin = chosen(given.names), [*HEADING], time.monotonic()
    if sys.version_info < (3, 11):  # the Python package needs 3.11
        print("this Python is too old for the Python package: mistakes in it are left out")
        mutations = [one for one in mutations if one.room != "python"]
    try:
        copy = Copy(given.folder.resolve())
        tests = sorted({test for mutation in mutations for test in mutation.tests})
        copy.make(tests)
        before = [f"{one.test} ({one.how})" for one in map(copy.outcome, tests) if one.failed]
    except Wrong as error:
        sys.exit(f"run.py: without any mutation: {error}")
    if before:
        sys.exit(f"run.py: fail without any mutation: {', '.join(before)}")
    print("\n".join(lines), flush=True)
    for mutation in mutations:
        try:
            line, cases = copy.try_mutation(mutation)
            lines.append(line)
            print(f"{line} {cases}", flush=True)
        except Wrong as error:
            print(f"WRONG: {mutation.name}: {error}", flush=True)
    noticed = len(lines) - len(HEADING)
    print(f"{noticed} of {len(mutations)} mutations noticed, {time.monotonic() - begin:.0f} s")
    if given.page and noticed == len(mutations):
        given.page.write_text(page_text("\n".join(lines)), encoding="utf-8")
    return 0 if noticed == len(mutations) else 1


if __name__ == "__main__":
    sys.exit(main())
