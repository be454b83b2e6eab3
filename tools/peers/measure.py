"""One case: checks that annulus and its peers compute the same thing, then measures them in turn, round by round."""
import time

from cases import BYTES
from program import Failed, launch, say

# Largest difference from the exact result, relative to its largest value (at least 1). Two results may differ by twice
# as much.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3, "bfloat16": 2e-2}
GRADIENT_TOLERANCE = TOLERANCE | {"float64": 1e-11, "float32": 3e-5}
# Flops of a (query, key, head) triple, divided by the head size: two products forward and five backward, 2 flops each.
FLOPS = {"forward": 4.0, "backward": 10.0, "forward+backward": 14.0}

# The package that each peer is made of.
PACKAGES = {"torch": "torch", "torch-avx512": "torch", "composed": "torch", "allgather": "torch", "jax": "jax",
            "onnxruntime": "onnxruntime"}


def worst(errors):
    """The largest error; NaN if any error is NaN, which max() alone may hide."""
    return max(errors, key=lambda error: (error != error, error))


class Bench:
    def __init__(self, annulus, workers, peaks, versions, limit):
        """`peaks`: {name of a peak: the program that measures it}."""
        self.annulus, self.workers, self.peaks, self.limit = annulus, workers, peaks, limit
        self.available = {peer for peer, package in PACKAGES.items() if package in versions}

    def case(self, case, seconds):
        """Measures everything about a case in about `seconds` (but at least one round)."""
        start = time.monotonic()
        case.backward = case.backward and self.annulus.backward
        record = {"case": case.description(), "checks": {}, "rounds": [], "left_out": {}}
        record["first"] = self.annulus.run(case, backward=False)  # warms up, and gives the memory of the forward pass
        if case.backward:
            record["first"] |= self.annulus.run(case, backward=True)
        record["kept"] = record["first"]["kept"]
        peers = {}
        for peer in case.peers:
            self.attempt(record, peer, lambda peer=peer: peers.update({peer: self.load(case, peer, record)}))
        self.rounds(case, record, peers, start + seconds)
        return record

    def attempt(self, record, peer, work):
        """Does a peer's work; a peer that fails is left out of this case from here on."""
        if peer not in self.available:
            record["left_out"][peer] = "not installed"
        if peer in record["left_out"]:
            return None
        try:
            return work()
        except Failed as failure:
            record["left_out"][peer] = str(failure)
            say(f"{peer} is left out here: {failure}")
            return None

    def load(self, case, peer, record):
        worker = self.workers.get(peer, case)
        answers = worker.ask({"do": "load", "case": case.description(), "input": str(self.annulus.input_file(case)),
                              "result": str(self.annulus.folder / "result.h5")}, self.limit)
        record["checks"][peer] = {}
        for name in answers[0]["check"]:
            error = worst(a["check"][name]["difference"] / a["check"][name]["scale"] for a in answers)
            tolerance = 2 * (TOLERANCE if name == "out" else GRADIENT_TOLERANCE)[case.dtype]
            record["checks"][peer][name] = {"error": error, "tolerance": tolerance, "equal": error <= tolerance}
            if not error <= tolerance:
                say(f"{case.name}: {name} of {peer} differs from annulus by {error:.2e}, more than {tolerance:.0e}")
        return worker

    def rounds(self, case, record, peers, deadline):
        longest = 0.0
        for number in range(case.rounds):
            start = time.monotonic()
            if number > 0 and start + longest > deadline:
                say(f"{case.name}: {number} of {case.rounds} rounds, the time is up")
                return
            this = {"peak": self.peak(case), "annulus": self.annulus.run(case, case.backward)}
            for peer, worker in peers.items():
                measured = self.attempt(record, peer, lambda worker=worker: worker.measure(number == 0, self.limit))
                if measured:
                    this[peer] = measured
            for one in this.values():
                add_totals(one)
            record["rounds"].append(this)
            longest = max(longest, time.monotonic() - start)

    def peak(self, case):
        """Measures the peaks now, with the case's threads: of multiply-adds in its arithmetic, and for bfloat16 of
        VDPBF16PS (0 if the processor lacks it)."""
        cpu, wall = self.rates("peak", case)
        part = 0.5 if BYTES[case.dtype] == 8 else 1.0  # float64 vectors hold half as many numbers
        measured = {"rate": cpu * part, "wall rate": wall * part}
        if case.dtype == "bfloat16":
            measured["bfloat16 rate"] = self.rates("peak_bfloat16", case)[0]
        return measured

    def rates(self, program, case):
        """GFLOP per CPU second, and per second of wall time."""
        return [float(rate) for rate in launch([self.peaks[program], str(case.workers), "0.15"], 60)["text"].split()]


def add_totals(measured):
    """Adds the sums of forward and backward, if both were measured."""
    if "backward" in measured:
        both = measured.setdefault("forward+backward", {})
        both |= {key: measured["forward"][key] + measured["backward"][key] for key in ("cpu", "wall")}
