"""annulus.torch beside PyTorch's own function, with gradients."""
import torch

import annulus.torch

torch.manual_seed(3)
tensors = [torch.randn(2, 3, 97, 40, dtype=torch.float64, requires_grad=True) for _ in range(3)]
results = []
for function in (torch.nn.functional.scaled_dot_product_attention, annulus.torch.scaled_dot_product_attention):
    out = function(*tensors, is_causal=True)
    results.append([out, *torch.autograd.grad(out.square().sum(), tensors)])
for theirs, ours in zip(*results):
    error = (theirs - ours).abs().max().item()
    assert error <= 1e-10, error
print(f"== annulus.torch on PyTorch {torch.__version__}: right")
