"""Runs a peer: a process that reads one JSON line per command from stdin and writes one to stdout.

    worker.py PEER RANK RANKS RENDEZVOUS-FILE

    {"do": "load", "case": {...}, "input": FILE, "result": FILE or null}
        reads q, k, v (dout), runs once, and compares its results with annulus': the largest differences
        (where `result` is NaN, nothing is known and nothing is compared)
    {"do": "facts"}
        what the peer measures about itself: DeepSpeed's isend
    {"do": "measure", "memory": bool}
        {"forward": {"cpu", "wall"}, "backward": {...}}, and with memory the bytes taken beyond the inputs
"""
import ctypes
import gc
import importlib
import json
import os
import sys
import time

import h5py
import numpy

from exact import compare

# The module and the class of each peer.
PEERS = {"torch": ("peer_fused", "Fused"), "torch-avx512": ("peer_fused", "Fused"),
         "composed": ("peer_composed", "Composed"), "allgather": ("peer_allgather", "AllGather"),
         "jax": ("peer_jax", "Jax"), "onnxruntime": ("peer_onnxruntime", "OnnxRuntime"),
         # --field
         "ring-attention": ("peer_ring_attention", "RingAttention"), "yunchang": ("peer_yunchang", "Yunchang"),
         "yunchang-cpu": ("peer_yunchang", "YunchangCpu"), "yunchang-ulysses": ("peer_yunchang", "YunchangUlysses"),
         "ring-flash": ("peer_yunchang", "RingFlash"), "deepspeed-ulysses": ("peer_deepspeed", "Ulysses"),
         "deepspeed-ring": ("peer_deepspeed", "Ring"), "para-ulysses": ("peer_para_attn", "ParaUlysses"),
         "para-ring": ("peer_para_attn", "ParaRing"), "torchscale": ("peer_longnet", "Torchscale"),
         "dilated-attention-pytorch": ("peer_longnet", "DilatedAttentionPytorch")}
# Peers that train handle the commands themselves.
TRAINING = {"ddp": "Ddp", "fsdp2": "Fsdp2", "dtensor": "Tensors"}
# Calls are repeated for at least this CPU time, so that the clock's resolution does not matter.
LEAST_SECONDS = 0.1


def read(path, name):
    """A dataset as float32 (float64 stays): HDF5 itself converts, since numpy has no bfloat16."""
    with h5py.File(path) as file:
        dataset = file[name]
        wide = dataset.id.get_type().get_size() == 8
        values = numpy.empty(dataset.shape, numpy.float64 if wide else numpy.float32)
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, h5py.h5t.py_create(values.dtype))
    return values


def resident(key):
    """VmRSS (now) or VmHWM (the most since it was reset) of this process, in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(key))


def settle_memory():
    """Returns unused memory to the system and resets the high-water mark; returns the bytes resident now."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as clear:
        clear.write("5")
    return resident("VmRSS")


def timed(work):
    """(result of work(), its CPU and wall seconds); this process's threads all count."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def compared(mine, reference):
    """The largest difference, and the largest value, to which it is relative."""
    found = compare(mine, reference)
    return found | {"scale": max(1.0, found["largest"])}


class Bench:
    def __init__(self, peer, rank, ranks, rendezvous):
        module, name = PEERS[peer]
        self.peer = getattr(importlib.import_module(module), name)(rank, ranks, rendezvous)
        self.backward = False

    def load(self, command):
        case = command["case"]
        self.backward = case["backward"] and not getattr(self.peer, "forward_only", False)
        names = ["q", "k", "v"] + (["dout"] if self.backward else [])
        self.peer.load({name: read(command["input"], name) for name in names}, case)
        state = self.peer.forward()
        results = self.peer.outputs(state)
        if self.backward:
            results |= self.peer.gradients(self.peer.backward(state))
        rows = self.peer.rows()
        return {"check": {name: compared(mine, read(command["result"], name)[:, rows])
                          for name, mine in results.items()}}

    def measure(self, command):
        """Mean seconds of each pass over as many calls as needed, and the memory of the first call."""
        resident_before = settle_memory() if command["memory"] else 0
        passes = [self.once(resident_before)]
        # Each rank would choose its own number of calls, so ranks call once.
        while self.peer.ranks == 1 and sum(one["forward"]["cpu"] for one in passes) < LEAST_SECONDS:
            passes.append(self.once(0))
        measured = {name: {key: sum(one[name][key] for one in passes) / len(passes) for key in ("cpu", "wall")}
                    for name in passes[0] if name in ("forward", "backward")}
        if command["memory"]:
            measured |= {name: value for name, value in passes[0].items() if name.endswith("extra")}
        return measured

    def facts(self, _):
        return self.peer.facts()

    def once(self, resident_before):
        self.peer.meet()
        state, forward = timed(self.peer.forward)
        measured = {"forward": forward, "forward extra": resident("VmHWM") - resident_before}
        if self.backward:
            _, measured["backward"] = timed(lambda: self.peer.backward(state))
            measured["forward+backward extra"] = resident("VmHWM") - resident_before
        return measured


def main():
    # Answers are written to a copy of stdout. stdout itself becomes stderr, because libraries may print to it.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer, rank, ranks, rendezvous = sys.argv[1:]
    if peer in TRAINING:
        bench = getattr(importlib.import_module("peer_training"), TRAINING[peer])(int(rank), int(ranks), rendezvous)
    else:
        bench = Bench(peer, int(rank), int(ranks), rendezvous)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(bench, command["do"])(command)
        except Exception as problem:  # any exception is the peer's answer
            answer = {"error": f"{type(problem).__name__}: {problem}"[:800]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
