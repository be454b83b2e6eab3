#!/usr/bin/env python3
"""Measures PyTorch on this machine's GPU; prints JSON, line by line. gpu_check times annulus in some of these cases.

  gpu_peers.py [--device cuda] [--part N]      N: sequences N times shorter, to try the script out (on a CPU, too)

  {"case": "product 8192", "dtype": "bfloat16", "tflops": ...}                  a large matrix product
  {"case": "dense 16384 D 128", "peer": "flash", "forward": {"seconds": ..., "tflops": ...}, "backward": {...}}
  {"case": "dilated 262144", "peer": "composed of flash", ...}                  by tools/peers/peer_composed.py

Times are medians of 9 calls, each of which begins when the call before it has ended. As in annulus, a kept (query, key,
head) triple counts as 4 D flops forward and 10 D backward. If PyTorch, one of its kernels or NATTEN is missing, a line
has "missing" with the reason.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
CALLS = 9
# Dense cases, some of which gpu_check times with annulus: type, rows, heads, head size, causal.
DENSE = [("bfloat16", n, 16, head_dim, causal) for n in (16384, 4096) for head_dim in (128, 64, 256)
         for causal in (True, False)]
DENSE += [("bfloat16", 65536, 8, head_dim, True) for head_dim in (128, 64)]
DENSE += [("float16", 16384, 16, 128, True), ("float32", 16384, 16, 64, True), ("float32", 16384, 16, 128, True)]


def tell(**facts):
    print(json.dumps(facts), flush=True)


def seconds_of(device, work):
    """Median of CALLS calls. Two calls before them, in which PyTorch chooses and compiles kernels, do not count."""
    import torch
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    times = []
    for _ in range(CALLS + 2):
        wait()
        start = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def rates(device, flops, forward, backward=None):
    """{"forward": ..., "backward": ...}; `flops` are 4 D times the kept triples."""
    found = {}
    for name, work, count in (("forward", forward, flops), ("backward", backward, 2.5 * flops)):
        if work is not None:
            seconds = seconds_of(device, work)
            found[name] = {"seconds": seconds, "tflops": count / seconds * 1e-12}
    return found


def attempt(facts, measure):
    """Prints one line: what was measured, or why it could not be."""
    try:
        tell(**facts, **measure())
    except (ImportError, RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
        tell(**facts, missing=str(error).splitlines()[0] if str(error) else type(error).__name__)


def product(device, dtype, n):
    import torch
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    seconds = seconds_of(device, lambda: a @ b)
    return {"seconds": seconds, "tflops": 2 * n**3 / seconds * 1e-12}


def dense(device, backend, dtype, n, heads, head_dim, causal):
    """Attention by one of PyTorch's kernels, as a user calls it."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    q, k, v, dout = (torch.randn(1, heads, n, head_dim, device=device).to(dtype) for _ in range(4))
    qkv = [tensor.requires_grad_() for tensor in (q, k, v)]

    def forward():
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return scaled_dot_product_attention(*qkv, is_causal=causal)

    out = forward()
    kept = n * (n + 1) / 2 if causal else n * n
    return rates(device, 4 * head_dim * heads * kept, forward,
                 lambda: torch.autograd.grad(out, qkv, dout, retain_graph=True))


def flash_on_gpu(torch):
    """fused() and fused_backward() of peer_composed, computed by kernels for GPUs."""
    aten = torch.ops.aten

    def fused(q, k, v, causal):
        return aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[:2]

    def fused_backward(dout, q, k, v, out, lse, causal):
        none = torch.zeros((), dtype=torch.uint64, device="cpu")
        return aten._scaled_dot_product_flash_attention_backward(dout, q, k, v, out, lse, None, None, q.shape[2],
                                                                 k.shape[2], 0.0, causal, none, none)

    return fused, fused_backward


def dilated(device, dtype, n, heads, head_dim, segments, dilations):
    """Dilated attention composed of the fused kernel's calls and merges by LSE."""
    import torch

    import peer_composed
    if device == "cuda":
        peer_composed.fused, peer_composed.fused_backward = flash_on_gpu(torch)
    peer = peer_composed.Composed(0, 1, None)
    shape = (1, n, heads, head_dim)
    peer.take({name: torch.randn(shape, device=device).to(dtype) for name in ("q", "k", "v", "dout")},
              {"causal": True, "segments": segments, "dilations": dilations, "semantics": "longnet"})
    state = peer.forward()
    kept = sum(n / r * (w / r + 1) / 2 for w, r in zip(segments, dilations))
    return rates(device, 4 * head_dim * heads * kept, peer.forward, lambda: peer.backward(state))


def natten(device, dtype, n, heads, head_dim, window):
    """NATTEN's causal sliding window, dilation 1: each row sees `window` keys."""
    import torch
    from natten import na1d
    q, k, v = (torch.randn(1, n, heads, head_dim, device=device).to(dtype) for _ in range(3))
    return rates(device, 4 * head_dim * heads * n * window,
                 lambda: na1d(q, k, v, kernel_size=window, is_causal=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--part", type=int, default=1)
    given = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        tell(case="all", missing=str(error))
        return 0
    device, part = given.device, given.part
    if device == "cuda" and not torch.cuda.is_available():
        tell(case="all", missing="PyTorch sees no GPU")
        return 0
    tell(pytorch=torch.__version__, device=torch.cuda.get_device_name() if device == "cuda" else "cpu")
    for dtype in ("bfloat16", "float32"):
        attempt({"case": f"product {8192 // part}", "dtype": dtype},
                lambda: product(device, getattr(torch, dtype), 8192 // part))
    for dtype, n, heads, head_dim, causal in DENSE:
        for backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"):
            if dtype == "float32" and backend != "EFFICIENT_ATTENTION":
                continue
            attempt({"case": f"dense {n // part} D {head_dim} {'causal' if causal else 'full'}", "dtype": dtype,
                     "peer": backend},
                    lambda: dense(device, backend, getattr(torch, dtype), n // part, heads, head_dim, causal))
    n, segments = 262144 // part, [w // part for w in (2048, 4096, 8192, 16384)]
    attempt({"case": f"dilated {n}", "dtype": "bfloat16", "peer": "composed of flash"},
            lambda: dilated(device, torch.bfloat16, n, 8, 64, segments, [1, 2, 4, 8]))
    attempt({"case": f"window {n}", "dtype": "bfloat16", "peer": "NATTEN"},
            lambda: natten(device, torch.bfloat16, n, 8, 64, 2048 // part))
    return 0


if __name__ == "__main__":
    sys.exit(main())
