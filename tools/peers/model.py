#!/usr/bin/env python3
"""A small LongNet-like model (two layers, made here) trained with annulus.torch, and with others in its place.

    tools/peers/model.py [--rows 16384] [--steps 5] [--threads 2] [--without plain]

    plain      operations that autograd can differentiate: per pair scores, softmax and log-sum-exps of the combs; pairs
               are merged by the log-sum-exps
    composed   peer_composed.py as an autograd function: PyTorch's fused kernel pair by pair, merged by log-sum-exps,
               its backward pass with the merged results; we know of no published code that does this

Steps are interleaved; losses are compared step by step. Needs the package (pip install .) in the environment
of tools/venv, or on PYTHONPATH.
"""
import argparse
import statistics
import sys
import time

import torch

from annulus.torch import dilated_attention
from peer_composed import Composed

WIDTH, HEADS, LETTERS = 256, 4, 64
PAIRS = {"segments": (2048, 4096, 8192, "all"), "dilations": (1, 2, 4, 8)}


def peer_of(q, k, v):
    """The composed peer with these tensors."""
    peer = Composed.__new__(Composed)
    peer.tensors = {name: x.detach()[0].contiguous() for name, x in (("q", q), ("k", k), ("v", v))}
    peer.causal, peer.heads, peer.n = True, q.shape[2], q.shape[1]
    peer.pairs = [(peer.n if w == "all" else w, r) for w, r in zip(*PAIRS.values())]
    peer.runs = [list(peer.head_runs(index, "longnet")) for index in range(len(peer.pairs))]
    return peer


class ComposedAttention(torch.autograd.Function):
    """(q, k, v) (1, S, H, D) -> out."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.peer = peer_of(q, k, v)
        ctx.state = ctx.peer.forward()
        return ctx.state[0][None]

    @staticmethod
    def backward(ctx, dout):
        ctx.peer.tensors["dout"] = dout[0].contiguous()
        return tuple(gradient[None] for gradient in ctx.peer.backward(ctx.state))


def plain(q, k, v):
    """(q, k, v) (1, S, H, D) -> out, by operations that autograd knows."""
    peer = peer_of(q, k, v)
    outs, lses = [], []
    for index in range(len(peer.pairs)):
        pair_q, pair_k, pair_v = (torch.cat(peer.combs(x[0], index), 1) for x in (q, k, v))
        scores = pair_q @ pair_k.transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
        lse, pair_out = scores.logsumexp(-1), scores.softmax(-1) @ pair_v
        out, out_lse = torch.zeros_like(q[0]), torch.full(q.shape[1:3], -torch.inf)
        for i, parts in enumerate(zip(peer.parts(pair_out, index), peer.parts(lse, index))):
            for whole, part in zip((out, out_lse), parts):
                peer.combs(whole, index)[i].copy_(part)  # makes new views: autograd refuses views older than a change
        outs.append(out)
        lses.append(out_lse)
    weights = torch.stack(lses).softmax(0)
    return (torch.stack(outs) * weights[..., None]).sum(0)[None]


ATTENTION = {"annulus": lambda q, k, v: dilated_attention(q, k, v, causal=True, **PAIRS),
             "composed": ComposedAttention.apply, "plain": plain}


class Layer(torch.nn.Module):
    """Attention and a multilayer perceptron; each gets its input after a norm, and its output is added to the input."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(), torch.nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).view(*x.shape[:2], 3, HEADS, -1).unbind(2)
        x = x + self.out(self.attention(q, k, v).reshape(x.shape))
        return x + self.mlp(self.norms[1](x))


class Training:
    """Trains one model step by step, with the same seeds for every attention."""

    def __init__(self, attention, rows):
        torch.manual_seed(0)
        self.rows = rows
        self.model = torch.nn.Sequential(torch.nn.Embedding(LETTERS, WIDTH), Layer(attention), Layer(attention),
                                         torch.nn.Linear(WIDTH, LETTERS))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.losses, self.cpu, self.wall = [], [], []

    def step(self):
        generator = torch.Generator().manual_seed(len(self.losses))
        text = torch.randint(0, LETTERS, (1, self.rows), generator=generator)
        cpu, wall = time.process_time(), time.perf_counter()
        loss = torch.nn.functional.cross_entropy(self.model(text)[0, 4:], text[0, :-4])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)
        self.losses.append(loss.item())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", action="append", default=[], choices=list(ATTENTION)[1:])
    words = parser.parse_args()
    import annulus
    annulus.set_threads(words.threads)
    torch.set_num_threads(words.threads)
    trainings = {name: Training(attention, words.rows) for name, attention in ATTENTION.items()
                 if name not in words.without}
    for _ in range(words.steps):
        for training in trainings.values():
            training.step()
    for name, training in trainings.items():
        print(f"{name:10} {statistics.median(training.cpu):7.2f} CPU s and {statistics.median(training.wall):7.2f} s a step, "
              f"losses {training.losses[0]:.6f} ... {training.losses[-1]:.6f}")
    ours, worst = trainings.pop("annulus"), 0
    for name, theirs in trainings.items():
        apart = max(abs(a - b) for a, b in zip(ours.losses, theirs.losses))
        ratios = sorted(b / a for a, b in zip(ours.cpu, theirs.cpu))
        print(f"{words.rows} tokens, {words.steps} steps: losses differ by {apart:.1e} at most; {name} / annulus "
              f"{statistics.median(ratios):.2f} in CPU time ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        worst = max(worst, apart)
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
