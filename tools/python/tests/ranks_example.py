"""A program of docs/attention.md, ranks that compute together; test_attention_page.py runs it."""
import numpy as np
from mpi4py import MPI

import annulus

comm = MPI.COMM_WORLD
plan = annulus.plan(8192, 8, 64, ranks=comm.size)
mine = plan.row_numbers(comm.rank)                             # of the sequence, this rank's
q, k, v = (np.random.default_rng(i).standard_normal((1, 8192, 8, 64), dtype=np.float32)[:, mine] for i in range(3))
out, lse = annulus.attention(q, k, v, causal=True, comm=comm)  # (1, len(mine), 8, 64)
