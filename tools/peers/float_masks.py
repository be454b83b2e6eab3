#!/usr/bin/env python3
"""Measures windows and ALiBi in annulus and in PyTorch, which needs a tensor with a float for each pair of rows.

    ./tools/python/test tests/test_scores.py      makes the package in build/test/python/site, and the environment
    PYTHONPATH=build/test/python/site ~/.cache/annulus/python/bin/python tools/peers/float_masks.py [ROWS] [annulus]

One batch entry of ROWS rows (8,192), float32, heads of 64, one thread. Each line is a process of its own: the medians of
three forward passes and of three with gradients, and how much more memory than q, k, v and dout it held, the mask
included. The time to make the mask is not counted. The last column is the largest difference of out from annulus' out,
of all rows and heads. With the word annulus PyTorch, whose masks need 4 ROWS^2 bytes for each head, is left out.
"""
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy
import torch

MIB = 1 << 20
# Heads, and the words for annulus; `plane` is TITAN's shape: tiles of a slide, a class token first.
CASES = {"window of 4,096, causal": (8, {"segments": [{"window": 4096}], "dilations": [1], "causal": True}),
         "ALiBi, causal": (8, {"bias": {"alibi": "slopes"}, "causal": True}),
         "ALiBi in the plane": (12, {"bias": {"alibi": "slopes", "exempt": 1}, "causal": False, "coordinates": "grid"})}


def grid_points(rows):
    """(rows, 2): a grid of tiles, after a class token."""
    width = round(rows ** 0.5)
    tiles = numpy.arange(rows - 1)
    return numpy.concatenate((numpy.zeros((1, 2)), numpy.stack((tiles % width, tiles // width), 1))).astype(float)


def slopes(heads):
    return [2.0 ** (-8 * (head + 1) / heads) for head in range(heads)]


def words_of(words, rows, heads):
    words = dict(words)
    if "bias" in words:
        words["bias"] = {**words["bias"], "alibi": slopes(heads)}
    return words | ({"coordinates": grid_points(rows)} if "coordinates" in words else {})


def float_mask(words, rows, heads):
    """(rows, rows), or (heads, rows, rows) with slopes."""
    row = torch.arange(rows)
    if "coordinates" in words:
        points = torch.tensor(grid_points(rows), dtype=torch.float32)
        distance = torch.cdist(points, points)
        distance[0] = distance[:, 0] = 0
    else:
        distance = (row[:, None] - row[None, :]).float().abs()
    if "bias" in words:
        mask = torch.empty(heads, rows, rows)
        for head, slope in enumerate(slopes(heads)):
            torch.mul(distance, -slope, out=mask[head])
    else:
        mask = torch.zeros(rows, rows).masked_fill_(distance >= words["segments"][0]["window"], -torch.inf)
    return mask.masked_fill_(row[None, :] > row[:, None], -torch.inf) if words["causal"] else mask


def measure(who, name, rows, folder):
    heads, words = CASES[name]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    q, k, v, dout = (torch.randn(1, heads, rows, 64) for _ in range(4))
    if who == "annulus":
        from annulus.torch import dilated_attention
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if who == "annulus":
        given = words_of(words, rows, heads)

        def attend():
            return dilated_attention(q, k, v, axes="bhsd", **given)
    else:
        mask = float_mask(words, rows, heads)

        def attend():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    seconds = {"forward": [], "with gradients": []}
    for passes, found in seconds.items():
        for x in (q, k, v):
            x.requires_grad_(passes != "forward")
        for _ in range(4):
            begin = time.perf_counter()
            out = attend()
            if passes != "forward":
                out.backward(dout)
            found.append(time.perf_counter() - begin)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    numpy.save(Path(folder) / f"{who}.npy", out.detach().numpy())
    print(*(f"{median(found[1:]):.2f}" for found in seconds.values()), f"{more:.0f}")


def main(words):
    if words[:1] == ["--one"]:
        return measure(words[1], words[2], int(words[3]), words[4])
    rows = int(next((word for word in words if word.isdigit()), 8192))
    print("| scores | | forward, s | with gradients, s | MiB | difference |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            for who in ["annulus"] if "annulus" in words else ["annulus", "PyTorch"]:
                printed = subprocess.run([sys.executable, __file__, "--one", who, name, str(rows), folder], check=True,
                                         text=True, capture_output=True,
                                         env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout.split()
                outs = [numpy.load(Path(folder) / f"{which}.npy") for which in dict.fromkeys(("annulus", who))]
                difference = numpy.abs(outs[0] - outs[-1]).max()
                print(f"| {name} | {who} | {' | '.join(printed)} | {difference:.0e} |", flush=True)
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
