#!/usr/bin/env python3
"""Tests job_scripts/ and the program on a throw-away Slurm (Debian: slurm-wlm munge environment-modules shellcheck).

    run.py --build FOLDER [--limit SECONDS] [NAME...]   FOLDER: a CMake build with tests; NAME: module, module.Class or
                                                        module.Class.test; without it all, and every job script must
                                                        have been submitted

Exit status 0 when every test passed. Everything that was started is ended and removed: at the end, when interrupted,
and when the limit is over (default 1800 s; three times as long for the tests that compile).
"""
import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from case import ClusterTest
from cluster import Cluster

HERE = Path(__file__).resolve().parent
MODULES = ("test_scripts", "test_environment", "test_interruptions", "test_time_limit")
BESIDE = "test_without_root"  # compiles for minutes, so it runs while the others wait for jobs


def end(number, _):
    """Turns a signal into an exception, so that everything is cleaned up."""
    sys.exit(f"run.py: {'the time is over' if number == signal.SIGALRM else 'ended by a signal'}")


def cache_entry(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found[1]


class Beside:
    """Runs this script again for BESIDE, at the same time and with lower priority."""

    def __init__(self, options):
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(["nice", sys.executable, "-B", __file__, *options, BESIDE], stdout=self.log,
                                        stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def status(self):
        """Waits for its end and prints its output."""
        self.process.wait()
        self.log.seek(0)
        print(f"\nbeside: {BESIDE}\n{self.log.read()}", end="")
        return self.process.returncode

    def __exit__(self, *_):
        self.process.terminate()  # it cleans up, as this script does
        self.process.wait()
        self.log.close()


def untested():
    scripts = {f"{path.parent.name}/{path.name}" for path in (ClusterTest.source / "job_scripts").glob("*/*.sbatch")}
    return sorted(scripts - ClusterTest.submitted)


class Result(unittest.TextTestResult):
    """Says how long each test took."""

    def startTest(self, test):
        self.begin = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        unittest.TestResult.addSuccess(self, test)
        self.stream.writeln(f"ok ({time.monotonic() - self.begin:.1f} s)")


def run_tests(names, build):
    """Runs the tests on a cluster of their own; returns whether all passed."""
    build = build.resolve()
    ClusterTest.source, ClusterTest.program = HERE.parent.parent, build / "annulus"
    ClusterTest.launcher = cache_entry(build, "MPIEXEC_EXECUTABLE")
    ClusterTest.slow_calls = build / "tests" / "end_to_end" / "libslow_calls.so"
    with tempfile.TemporaryDirectory(prefix="annulus-slurm-") as scratch:
        Path(scratch).chmod(0o755)  # munged requires that every user can reach its socket
        ClusterTest.scratch = Path(scratch)
        with Cluster(Path(scratch) / "cluster", partitions=("standard", "standard-g")) as cluster:
            ClusterTest.cluster = cluster
            tests = unittest.TestLoader().loadTestsFromNames(names)
            result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result).run(tests)
    return result.wasSuccessful() and result.testsRun > 0 and not result.skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=1800)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    signal.alarm(given.limit)
    if given.names:
        return 0 if run_tests(given.names, given.build) else 1
    with Beside(["--build", given.build, "--limit", str(3 * given.limit)]) as beside:
        passed = run_tests(MODULES, given.build)
        signal.alarm(0)  # BESIDE has its own limit, because compiling is slow
        passed = beside.status() == 0 and passed
    for script in untested():
        print(f"run.py: job_scripts/{script} was not submitted by any test")
    return 0 if passed and not untested() else 1


if __name__ == "__main__":
    sys.exit(main())
