"""Measures annulus: each measurement runs the program, as one process or one launch of ranks."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cases import BYTES, Case


def say(text):
    """Prints progress to stderr; stdout has only results."""
    print(f"peers: {text}", file=sys.stderr, flush=True)


class Failed(Exception):
    """A measurement that did not work; the text says why."""


def environment(threads):
    """The environment, the same for annulus and its peers: this many threads; waiting threads sleep and use no CPU
    time."""
    return os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "false", "OMP_WAIT_POLICY": "PASSIVE"}


def launch(command, limit, threads=1, folder=None):
    """Runs a command to its end; {"wall", "cpu"} in seconds, of the process and all that it waited for, and the
    "resident" bytes of the fullest one.

    The operating system counts the CPU time of the ended child, so it is complete.
    """
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env=environment(threads), cwd=folder)
        # After the limit it gets TERM, and KILL 10 s later, so that a launcher can end its ranks first.
        timers = [threading.Timer(limit, process.terminate), threading.Timer(limit + 10, process.kill)]
        for timer in timers:
            timer.daemon = True
            timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:  # this script itself is being ended
            process.terminate()
            process.wait()
            raise
        finally:
            for timer in timers:
                timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - start
        output.seek(0)
        text = output.read().strip()
    if process.returncode != 0:
        why = f"stopped after {limit:.0f} s" if wall >= limit else f"exit status {process.returncode}"
        raise Failed(f"{why}: {' '.join(map(str, command))}\n{text[-800:]}")
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "resident": 1024 * usage.ru_maxrss,
            "text": text}


class Annulus:
    """The program, and a folder for its inputs, run files and results."""

    def __init__(self, program, launcher, folder, limit):
        self.program = str(Path(program).resolve())
        self.launcher = launcher
        self.folder = Path(folder)
        self.limit = limit
        self.bare = {}  # (threads, ranks) -> resident bytes of a run with very few rows
        self.backward = self.knows_backward()

    def start(self, arguments, threads=1, ranks=1):
        command = [self.program] + arguments
        if ranks > 1:
            command = [self.launcher, "-n", str(ranks)] + command
        return launch(command, self.limit, threads, self.folder)

    def version(self):
        return self.start(["info"])["text"]

    def input_file(self, case):
        """The case's q, k, v and dout, made by annulus; made once."""
        path = self.folder / f"input-{case.sequence}-{case.heads}-{case.head_dim}-{case.dtype}.h5"
        wanted = path.with_suffix(".dout") if case.backward else path
        if not wanted.exists():
            self.start(["generate", "--output", str(path), "--overwrite", "--sequence", str(case.sequence), "--heads",
                        str(case.heads), "--head-dim", str(case.head_dim), "--dtype", case.dtype]
                       + (["--dout"] if case.backward else []))
            wanted.touch()
        return path

    def forget_inputs(self, kept):
        """Removes the inputs that no later case needs, because they are large."""
        names = {f"input-{c.sequence}-{c.heads}-{c.head_dim}-{c.dtype}" for c in kept}
        for path in self.folder.glob("input-*"):
            if path.stem not in names:
                path.unlink()

    def run_file(self, case, backward, name):
        """Writes the case as a run file whose result has this name; JSON is YAML."""
        shape = {"sequence": case.sequence, "heads": case.heads, "head_dim": case.head_dim, "dtype": case.dtype}
        settings = {
            "input": {"generate": shape} if case.generated else {"file": str(self.input_file(case))},
            "attention": {"semantics": case.semantics, "segments": case.segments, "dilations": case.dilations,
                          "causal": case.causal},
            "distribution": {"strategy": case.strategy, "local_below": 0},
            "output": {"file": f"{name}.h5", "overwrite": True, "report": f"{name}.json"},
        }
        if backward:
            settings["compute"] = {"backward": True}
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(settings))
        return path

    def run(self, case, backward, name="result"):
        """One run: the passes' CPU and wall seconds, the whole process's, and the memory that it took beyond its input.

        CPU seconds of a pass are the kernels' on all ranks (/run/kernel_cpu_seconds): everything but messages.
        """
        process = self.start(["run", str(self.run_file(case, backward, name))], case.threads, case.ranks)
        report = json.loads((self.folder / f"{name}.json").read_text())
        resident = max(report["per_rank"]["peak_resident_bytes"])
        tensors = 4 if backward else 3
        inputs = tensors * case.sequence * case.heads * case.head_dim * BYTES[case.dtype] / case.ranks
        measured = {"process": {"cpu": process["cpu"], "wall": process["wall"]}, "resident": resident,
                    "forward": self.of_pass(report), "kept": sum(report["per_rank"]["kept"]),
                    "read": max(report["per_rank"]["read_seconds"]), "write": max(report["per_rank"]["write_seconds"])}
        if backward:
            measured["backward"] = self.of_pass(report["backward"])
        what = "forward+backward" if backward else "forward"
        measured[f"{what} extra"] = resident - inputs - self.bare_bytes(case)
        return measured

    @staticmethod
    def of_pass(report):
        return {"cpu": sum(report["per_rank"]["kernel_cpu_seconds"]), "wall": report["attention_seconds"]}

    def bare_bytes(self, case):
        """Bytes of a process with this many threads and ranks, almost without rows."""
        key = (case.threads, case.ranks)
        if key not in self.bare:
            self.bare[key] = 0.0  # because run() below reads it
            tiny = Case("bare", 64, heads=1, head_dim=8, threads=case.threads, ranks=case.ranks, generated=True)
            self.bare[key] = self.run(tiny, backward=False, name="bare")["resident"]
        return self.bare[key]

    def knows_backward(self):
        """Whether this program computes gradients; tries a tiny case."""
        tiny = Case("tiny", 64, heads=1, head_dim=8)
        try:
            return "backward" in self.run(tiny, backward=True, name="tiny")
        except Failed as failure:
            first = next((line for line in str(failure).splitlines() if "error" in line), str(failure).splitlines()[0])
            say(f"this annulus makes no gradients, so forward passes only ({first.strip()})")
            return False
