"""The first program of docs/attention.md; test_attention_page.py runs it."""
import numpy as np

import annulus

generator = np.random.default_rng(0)
q = generator.standard_normal((1, 8192, 8, 64), dtype=np.float32)     # (batch, rows, heads, numbers)
k, v = (generator.standard_normal((1, 8192, 2, 64), dtype=np.float32) for _ in range(2))

out, lse = annulus.attention(q, k, v, segments=[1024, "all"], dilations=[1, 8], causal=True)
print(annulus.verify(q, k, v, out, lse, segments=[1024, "all"], dilations=[1, 8], causal=True))
