"""Controls the peers' processes: starts them when first needed, sends commands line by line, ends them if they fail."""
import json
import select
import subprocess
import time
import uuid
from pathlib import Path

from program import Failed, environment

HERE = Path(__file__).resolve().parent
# Environment variables of a peer's processes, beside the number of threads. PyTorch multiplies bfloat16 with oneDNN and
# with MKL: both without AMX, with VDPBF16PS.
SETTINGS = {"torch-avx512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "MKL_ENABLE_INSTRUCTIONS": "AVX512_E3"}}


class Worker:
    """One peer: a process per rank. All get the same commands."""

    def __init__(self, python, peer, threads, ranks, folder):
        rendezvous = Path(folder) / f"rendezvous-{uuid.uuid4().hex}"
        self.log = open(Path(folder) / f"{peer}.log", "w+", encoding="utf-8")
        self.processes = [
            subprocess.Popen([python, str(HERE / "worker.py"), peer, str(rank), str(ranks), str(rendezvous)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
                             env=environment(threads) | SETTINGS.get(peer, {}))
            for rank in range(ranks)]

    def ask(self, command, limit):
        """The ranks' answers. If a rank fails, or takes longer than `limit` seconds, the worker ends."""
        deadline = time.monotonic() + limit
        try:
            for process in self.processes:
                process.stdin.write(json.dumps(command) + "\n")
                process.stdin.flush()
            answers = [self.answer(process, deadline, limit) for process in self.processes]
        except (OSError, Failed) as problem:
            self.log.seek(0)
            words = self.log.read().strip()[-400:]
            self.end()
            raise Failed(f"{problem}\n{words}".strip()) from None
        for answer in answers:
            if "error" in answer:
                self.end()
                raise Failed(answer["error"])
        return answers

    @staticmethod
    def answer(process, deadline, limit):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise Failed(f"stopped after {limit:.0f} s")
        line = process.stdout.readline()
        if not line:
            raise Failed(f"ended with status {process.wait()}")
        return json.loads(line)

    def measure(self, memory, limit):
        """The ranks' answers as one: CPU seconds added, the longest wall time, the fullest rank's memory."""
        answers = self.ask({"do": "measure", "memory": memory}, limit)
        measured = {}
        for name, value in answers[0].items():
            if isinstance(value, dict):
                measured[name] = {"cpu": sum(a[name]["cpu"] for a in answers), "wall": max(a[name]["wall"] for a in answers)}
            else:
                measured[name] = max(a[name] for a in answers)
        return measured

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self.log.close()


class Workers:
    """All peers of this run. Workers stay while cases have the same threads and ranks."""

    def __init__(self, python, folder):
        self.python, self.folder = python, Path(folder).resolve()
        self.alive = {}

    def get(self, peer, case):
        key = (peer, case.threads, case.ranks)
        if key not in self.alive or any(process.poll() is not None for process in self.alive[key].processes):
            self.alive[key] = Worker(self.python, peer, case.threads, case.ranks, self.folder)
        return self.alive[key]

    def keep_only(self, keys):
        """Ends workers that no later case needs, because their memory can be cache for others."""
        for key in set(self.alive) - set(keys):
            self.alive.pop(key).end()
