#!/usr/bin/env python3
"""Measures batches of many short entries in annulus beside PyTorch's scaled_dot_product_attention, in one thread.

    ./tools/python/test tests/test_torch.py      makes the package in build/test/python/site, and the environment
    PYTHONPATH=build/test/python/site ~/.cache/annulus/python/bin/python tools/peers/short_entries.py [ROUNDS] [TYPE...]

A round calls one after the other, forward and with gradients: annulus with tensors in its order (B, S, H, D), PyTorch
with contiguous tensors in its own order, which is fastest for it. Medians of ROUNDS (5) rounds after a first one.
"""
import sys
import time
from statistics import median

import torch

from annulus.torch import dilated_attention

CASES = ((80000, 16, 2, 16), (256, 512, 2, 64), (64, 4096, 1, 64))  # entries, rows, heads, head size


def seconds(attend, given, dout):
    """Wall seconds of a call; with gradients if dout is given."""
    for tensor in given:
        tensor.grad = None
        tensor.requires_grad_(dout is not None)
    begin = time.perf_counter()
    out = attend(*given)
    if dout is not None:
        out.backward(dout)
    return time.perf_counter() - begin


def measure(batch, rows, heads, dim, kind, rounds):
    torch.manual_seed(1)
    theirs = [torch.randn(batch, heads, rows, dim).to(kind) for _ in range(4)]
    ours = [tensor.transpose(1, 2).contiguous() for tensor in theirs]
    found = [[], [], [], []]
    for _ in range(rounds + 1):
        for times, (attend, tensors, gradients) in zip(found, (
                (dilated_attention, ours, False), (torch.nn.functional.scaled_dot_product_attention, theirs, False),
                (dilated_attention, ours, True), (torch.nn.functional.scaled_dot_product_attention, theirs, True))):
            times.append(seconds(attend, tensors[:3], tensors[3] if gradients else None))
    forward, forward_peer, gradients, gradients_peer = (median(times[1:]) for times in found)
    return (f"{forward:.2f}; {gradients:.2f} | {forward_peer:.2f}; {gradients_peer:.2f} | "
            f"{forward / forward_peer:.2f}; {gradients / gradients_peer:.2f}")


def main(words):
    torch.set_num_threads(1)
    rounds = int(next((word for word in words if word.isdigit()), 5))
    kinds = [word for word in words if not word.isdigit()] or ["float32", "bfloat16", "float16"]
    print("| entries x rows, heads | type | annulus: s forward; with gradients | PyTorch | ratio |\n|---|---|---|---|---|")
    for batch, rows, heads, dim in CASES:
        for kind in kinds:
            numbers = measure(batch, rows, heads, dim, getattr(torch, kind), rounds)
            print(f"| {batch:,} x {rows:,}, {heads} of {dim} | {kind} | {numbers} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
