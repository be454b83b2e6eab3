"""annulus under ReFrame: runs input/quickstart.yaml and decks/, compares results with the definition, and measures
figures of merit.

    reframe -C settings.py -c checks.py -r                      all jobs, two ranks each
    reframe -C settings.py -c checks.py -r -S num_tasks=8       on eight
"""
import json
import os
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, performance_function, run_after, run_before, sanity_function

ROOT = Path(__file__).resolve().parents[2]


class Annulus(rfm.RunOnlyRegressionTest):
    """The program, and how its ranks are launched. ANNULUS_PROGRAM names another than build/release/annulus."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    sourcesdir = None
    num_tasks = 2
    num_cpus_per_task = 1
    time_limit = "10m"
    maintainers = ["annulus"]

    @run_after("init")
    def choose_program(self):
        self.executable = os.environ.get("ANNULUS_PROGRAM", str(ROOT / "build/release/annulus"))

    @run_before("run")
    def set_threads(self):
        self.env_vars["OMP_NUM_THREADS"] = str(self.num_cpus_per_task)


@rfm.simple_test
class Run(Annulus):
    """Runs a run file, compares the result with the definition, and measures the speed."""

    descr = "annulus run, then verify"
    deck = parameter(["quickstart", "dense", "dilated_backward"])
    tags = {"run"}

    @run_after("init")
    def set_command(self):
        deck = ROOT / "input/quickstart.yaml" if self.deck == "quickstart" else \
            Path(__file__).resolve().parent / f"decks/{self.deck}.yaml"
        here = ["--set", "output.file=$PWD/result.h5", "--set", "output.report=$PWD/report.json"]
        self.executable_opts = ["run", str(deck), *here]
        # One rank verifies in the same job.
        self.postrun_cmds = [" ".join([self.executable, "verify", str(deck), *here, "--rows", "32"])]
        self.keep_files = ["report.json"]

    @sanity_function
    def agrees_with_the_definition(self):
        return sn.all([sn.assert_found(r"within tolerance", self.stdout),
                       sn.assert_eq(sn.count(sn.findall(r"^  result ", self.stdout)), 1)])

    def report(self):
        """The JSON report of the run."""
        return json.loads((Path(self.stagedir) / "report.json").read_text(encoding="utf-8"))

    def sums(self, *names):
        of_ranks = self.report()["per_rank"]
        return [sum(of_ranks[name]) for name in names]

    @performance_function("s")
    def attention(self):
        return self.report()["attention_seconds"]

    @performance_function("Mtriple/s")
    def kernel_rate(self):
        """Kept (query, key, head) triples per CPU second in the kernel: reliable also on a busy machine."""
        kept, seconds = self.sums("kept", "kernel_cpu_seconds")
        return 1e-6 * kept / max(seconds, 1e-9)

    @performance_function("s")
    def longest_wait(self):
        return max(self.report()["per_rank"]["wait_seconds"])

    @performance_function("KiB")
    def received(self):
        return max(self.report()["per_rank"]["bytes_received"]) / 1024

    @performance_function("MiB")
    def peak(self):
        return max(self.report()["per_rank"]["peak_bytes"]) / 2**20

    @run_before("performance")
    def set_references(self):
        """Bytes have references, because they are the same on every machine. Times have none here."""
        self.reference = {"*": {
            "attention": (0, None, None, "s"), "kernel_rate": (0, None, None, "Mtriple/s"),
            "longest_wait": (0, None, None, "s"), "received": (RECEIVED_KIB[self.deck], None, 0.01, "KiB"),
            "peak": (0, None, None, "MiB")}}


# KiB that the busiest of two ranks receives.
RECEIVED_KIB = {"quickstart": 384.0, "dense": 2048.0, "dilated_backward": 2048.0}
