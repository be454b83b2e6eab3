#!/usr/bin/env python3
"""How far PyTorch's dk and dv in float32 are from those in float64: the peer of benchmark_kernels' gradient_error.

    ~/.cache/annulus/python/bin/python tools/peers/gradient_error.py [ROWS...]     causal, one head of 64

Tensors are normal numbers; up to 8,192 rows errors are means over ten random inputs. An error is max |difference| over
max |number in float64| (or 1). tools/peers/run installs PyTorch.
"""
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention


def key_gradients(tensors):
    q, k, v, dout = (tensor.detach().clone().requires_grad_() for tensor in tensors)
    scaled_dot_product_attention(q, k, v, is_causal=True).backward(dout)
    return torch.stack((k.grad, v.grad))


def errors(rows):
    """The errors of dk and of dv."""
    tensors = [torch.randn(1, 1, rows, 64) for _ in range(4)]
    found, truth = key_gradients(tensors), key_gradients([tensor.double() for tensor in tensors])
    return (found.double() - truth).abs().amax((1, 2, 3, 4)) / truth.abs().amax((1, 2, 3, 4)).clamp(min=1)


def main():
    torch.manual_seed(1)
    for rows in [int(word) for word in sys.argv[1:]] or [1024, 8192, 65536]:
        draws = [errors(rows) for _ in range(10 if rows <= 8192 else 1)]
        dk, dv = torch.stack(draws).mean(0).tolist()
        print(f"{rows} rows: dk {dk:.2g}, dv {dv:.2g}", flush=True)


if __name__ == "__main__":
    main()
