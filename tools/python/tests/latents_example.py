"""The program of docs/queries.md: 64 latents as queries of 8,192 rows, in one process and on several ranks."""
import numpy as np
from mpi4py import MPI

import annulus


def rows_of(count, heads, seed):
    return np.random.default_rng(seed).standard_normal((1, count, heads, 64), dtype=np.float32)

latents, k, v = rows_of(64, 8, 0), rows_of(8192, 2, 1), rows_of(8192, 2, 2)
out, lse = annulus.attention(latents, k, v, query_offset="none")                # (1, 64, 8, 64), (1, 64, 8)

last = rows_of(16, 8, 3)                                                        # they are rows 8176 ... 8191
tail, _ = annulus.attention(last, k, v, causal=True, segments=[annulus.window(4096)], dilations=[1])

comm = MPI.COMM_WORLD
plan = annulus.plan(8192, 8, 64, kv_heads=2, queries=64, query_offset="none", ranks=comm.size, partition="zigzag")
mine, keys = plan.query_row_numbers(comm.rank), plan.row_numbers(comm.rank)
part, _ = annulus.attention(latents[:, mine], k[:, keys], v[:, keys], query_offset="none", comm=comm,
                            partition="zigzag")

assert np.abs(part - out[:, mine]).max() < 1e-5 and len(mine) in (64 // comm.size, 64 // comm.size + 1)
by_definition, _ = annulus.reference(latents, k, v, rows=[0, 63], query_offset="none")
assert np.abs(out[:, [0, 63]] - by_definition).max() < 1e-5
in_window, _ = annulus.reference(last, k, v, rows=[15], causal=True, segments=[annulus.window(4096)], dilations=[1])
assert np.abs(tail[:, [15]] - in_window).max() < 1e-5
print(f"{len(mine)} latents on rank {comm.rank}")
