"""`annulus train` beside PyTorch's DDP, FSDP2 and DTensor on the same layer: checks, rounds, the table.

annulus is a process each time, which reads and writes files and makes a checkpoint. So a step's
time is the difference of two trainings, of 1 step and of 1 + STEPS, divided by STEPS. Peers' processes keep running.
"""
import json
import os
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from cases import ALL
from install import install
from measure import worst
from program import Annulus, Failed, say
from report import MIB, spread
from workers import Workers

RANKS = 2
CHECKED_STEPS = 4  # after these, losses and weights must be equal
# How annulus shards the weights, and the parts of PyTorch that do the same.
PEERS = {"none": "ddp", "fsdp": "fsdp2", "tensor": "dtensor"}
# Limits for losses and for changes of weights, relative to the largest.
TOLERANCE = 1e-4
HEADER = ("layer", "weights", "who", "CPU s a step", "wall s a step", "MiB a rank", "difference", "peer/annulus by CPU",
          "by wall", "by memory")
KEYS = ("cpu", "wall")
WIDTHS = (34, 8, 9, 20, 20, 10, 10, 20, 20, 9)


@dataclass
class Case:
    """A layer, its rows and its pattern; always causal."""

    sequence: int
    width: int
    heads: int
    head_dim: int
    segments: list = field(default_factory=lambda: [ALL])
    dilations: list = field(default_factory=lambda: [1])
    semantics: str = "longnet"
    causal: bool = True
    rate: float = 10.0
    steps: int = 4  # that are measured together

    @property
    def name(self):
        kind = "dense" if self.segments == [ALL] else "dilated"
        return f"{kind}-n{self.sequence}-e{self.width}-h{self.heads}x{self.head_dim}"

    def description(self):
        return asdict(self) | {"name": self.name}


def chosen(options):
    dilated = {"segments": [2048, ALL], "dilations": [1, 4]}  # as input/bench/layer_sharding.yaml
    if options.quick:
        cases = [Case(1024, 256, 4, 64, steps=40), Case(1024, 256, 4, 64, [512, ALL], [1, 4], steps=40)]
    else:
        cases = [Case(4096, 512, 8, 64, **dilated, steps=8), Case(2048, 2048, 16, 128), Case(4096, 512, 8, 64)]
    words = [word for word in options.only.split(",") if word]
    return [case for case in cases if not words or any(word in case.name for word in words)]


class Trainings:
    """annulus' trainings, in a folder of their own."""

    def __init__(self, annulus):
        self.annulus, self.bare = annulus, {}

    def input_file(self, case):
        path = self.annulus.folder / f"{case.name}.h5"
        if not path.exists():
            shape = {"layer": case.width, "sequence": case.sequence, "heads": case.heads, "head-dim": case.head_dim}
            words = [word for name, value in shape.items() for word in (f"--{name}", str(value))]
            self.annulus.start(["generate", "--output", str(path), *words])
        return path

    def train(self, case, sharding, steps):
        """A whole training: CPU and wall seconds of everything, and the fullest rank's resident bytes."""
        folder = self.annulus.folder
        settings = {
            "input": {"file": str(self.input_file(case))}, "layer": {"heads": case.heads, "sharding": sharding},
            "attention": {"segments": case.segments, "dilations": case.dilations, "causal": case.causal},
            "distribution": {"strategy": "ring"},
            "train": {"steps": steps, "rate": case.rate, "checkpoint": "checkpoint.h5", "save_every": 1000000},
            "output": {"file": "trained.h5", "overwrite": True}}
        (folder / "train.yaml").write_text(json.dumps(settings), encoding="utf-8")
        (folder / "checkpoint.h5").unlink(missing_ok=True)  # so that it starts from the beginning
        return self.annulus.start(["train", "train.yaml"], 1, RANKS)

    def measure(self, case, sharding):
        """Like a worker's measure(): seconds of a step, and bytes beyond a training with very few rows."""
        if sharding not in self.bare:
            self.bare[sharding] = self.train(Case(64, 16, 2, 8), sharding, 1)["resident"]
        one, more = (self.train(case, sharding, steps) for steps in (1, 1 + case.steps))
        return {"step": {key: (more[key] - one[key]) / case.steps for key in KEYS},
                "extra": more["resident"] - self.bare[sharding]}


def measure(case, trainings, workers, rounds, limit):
    """{sharding: {"check": ..., "rounds": [{"annulus": ..., peer: ...}]}}; what fails is reported and left out."""
    record = {}
    for sharding, peer in PEERS.items():
        trainings.train(case, sharding, CHECKED_STEPS)
        worker = workers.get(peer, Worked(RANKS))
        command = {"do": "load", "case": case.description(), "steps": CHECKED_STEPS, "input": str(trainings.input_file(case)),
                   "result": str(trainings.annulus.folder / "trained.h5")}
        answers = worker.ask(command, limit)
        errors = {name: worst(a["check"][name]["difference"] / a["check"][name]["largest"] for a in answers)
                  for name in answers[0]["check"]}
        record[sharding] = {"check": errors, "rounds": []}
    for number in range(rounds):
        for sharding, peer in PEERS.items():
            both = {"annulus": trainings.measure(case, sharding)}
            both[peer] = workers.get(peer, Worked(RANKS)).measure(number == 0, limit)
            record[sharding]["rounds"].append(both)
        say(f"{case.name}: round {number + 1} of {rounds}")
    return record


@dataclass
class Worked:
    """What a worker needs to know about a case: ranks of one thread."""

    ranks: int
    threads: int = 1


def line(cells):
    return "  ".join(f"{c:<{w}}" if i < 3 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(cells, WIDTHS))).rstrip()


def rows(case, record):
    name = case.name
    for sharding, peer in PEERS.items():
        done = record[sharding]["rounds"]
        error = worst(record[sharding]["check"].values())
        for who in ("annulus", peer):
            ratios = {key: [one[peer]["step"][key] / one["annulus"]["step"][key] for one in done] for key in KEYS}
            taken = {one: median(r[one]["extra"] for r in done if "extra" in r[one]) for one in ("annulus", peer)}
            compared = ("",) * 4 if who == "annulus" else (
                f"{error:.0e}" + ("" if error <= TOLERANCE else " !!"), spread(ratios["cpu"]), spread(ratios["wall"]),
                f"{taken[peer] / taken['annulus']:.2f}")
            seconds = [spread([one[who]["step"][key] for one in done], 3) for key in KEYS]
            yield line((name, sharding, who, *seconds, f"{taken[who] / MIB:.0f}", *compared))
            name = ""


LEGEND = """
A step: forward, loss, gradients of the weights, descent; no gradient of x. 2 ranks of one thread. Median (min max) of
rounds, in which all are measured in turn. CPU s: of all ranks; those of annulus include its waiting, which polls.
MiB a rank: the most resident on the fullest rank beyond a training of a very small layer. Ratios above 1:
annulus needs less. difference: the largest one of losses, and of changes of weights, after the same steps; '!!' is
too much.
"""


def main(options, machine, write_json):
    """The command; `machine` and `write_json` are main.py's."""
    cases = chosen(options)
    if options.list or not cases:
        print("\n".join(case.name for case in cases) or "peers: no case has such a name; --list shows all names")
        return 0 if cases else 2
    python, versions = install({"torch"})
    if "torch" not in versions:
        raise Failed("--training needs PyTorch, which cannot be installed")
    workspace = Path(options.folder) / f"training-{time.time_ns()}"
    workspace.mkdir(parents=True)
    workers = Workers(python, workspace)
    records = []
    try:
        launcher = os.environ.get("PEERS_LAUNCHER", "mpirun")
        annulus = Annulus(options.program, launcher, workspace.resolve(), options.limit or 300)
        trainings = Trainings(annulus)
        about = {"machine": machine(annulus, versions), "arguments": sys.argv[1:]}
        print(line(HEADER), flush=True)
        for case in cases:
            record = measure(case, trainings, workers, options.rounds or (3 if options.quick else 5), annulus.limit)
            records.append({"case": case.description()} | record)
            print("\n".join(rows(case, record)), flush=True)
            write_json(options.json, about, records)
    finally:
        workers.keep_only([])
        shutil.rmtree(workspace, ignore_errors=True)
    here = about["machine"]
    print(f"{LEGEND}CPU: {here['cpu']}, {here['cpus']} processors, load {here['load'][0]:.0f} at the start. "
          f"PyTorch {versions['torch']}.")
    wrong = [r["case"]["name"] for r in records
             if not all(worst(r[sharding]["check"].values()) <= TOLERANCE for sharding in PEERS)]
    if wrong:
        say(f"not the same result: {', '.join(wrong)}")
    return 1 if wrong else 0
