"""JAX's dot_product_attention, compiled by XLA; it holds the scores of all rows and keys."""
import os

# XLA starts as many threads as it has CPUs, so this process gets OMP_NUM_THREADS CPUs.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(os.environ["OMP_NUM_THREADS"])])

import jax  # noqa: E402  (after the affinity is set)
import numpy  # noqa: E402


class Jax:
    """Tensors (batch, rows, heads, head size)."""

    def __init__(self, rank, ranks, rendezvous):
        self.rank, self.ranks = rank, ranks

    def load(self, arrays, case):
        self.tensors = {name: jax.numpy.asarray(array, dtype=case["dtype"]) for name, array in arrays.items()}

        def attention(q, k, v):
            return jax.nn.dot_product_attention(q, k, v, is_causal=case["causal"])

        # Both passes are compiled; the first gives the second what it needs.
        keep = case["backward"]
        self.compiled = jax.jit((lambda *qkv: jax.vjp(attention, *qkv)) if keep else lambda *qkv: (attention(*qkv),))
        self.pull_back = jax.jit(lambda of, dout: of(dout))

    def forward(self):
        return jax.block_until_ready(self.compiled(*(self.tensors[name] for name in ("q", "k", "v"))))

    def backward(self, state):
        return jax.block_until_ready(self.pull_back(state[1], self.tensors["dout"]))

    def outputs(self, state):
        return {"out": numpy.asarray(state[0], dtype=numpy.float32)}

    def gradients(self, gradients):
        return {name: numpy.asarray(g, dtype=numpy.float32) for name, g in zip(("dq", "dk", "dv"), gradients)}

    def rows(self):
        return slice(None)

    def meet(self):
        """Only one rank."""
