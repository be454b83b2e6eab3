"""Sees every call of scaled_dot_product_attention inside a `with` block, however the caller spells it.

PyTorch hands calls of its own functions to a TorchFunctionMode, also those of `from torch.nn.functional import ...`, so
no name needs to be patched in anybody's module. Two calls need more:

- nn.MultiheadAttention asked for its weights (the default) computes them by hand. It is made to call
  scaled_dot_product_attention, and the weights, where asked for, are computed beside it.
- Its fast path, and that of nn.TransformerEncoderLayer, are one fused function each. They are switched off.
"""
import contextlib
import inspect

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

SDPA = F.scaled_dot_product_attention


@contextlib.contextmanager
def seen(on_call):
    """Inside, on_call(query, key, value, options, output) is called after every attention; options is a dictionary."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with _Mode(on_call):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class _Mode(TorchFunctionMode):
    def __init__(self, on_call):
        super().__init__()
        self.on_call = on_call

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is SDPA:
            return self.attention(*args, **kwargs)
        if function is F.multi_head_attention_forward:
            return self.multi_head(function, args, kwargs)
        return function(*args, **kwargs)

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **more):
        output = SDPA(query, key, value, attn_mask, dropout_p, is_causal, **more)
        options = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal, **more}
        self.on_call(query, key, value, options, output)
        return output

    def multi_head(self, function, args, kwargs):
        """Inside a mode's own code the mode is off: the attention is seen through the name that the function uses."""
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
        wanted = bound.get("need_weights", True)
        F.scaled_dot_product_attention = self.attention
        try:
            output, _ = function(**{**bound, "need_weights": False})
        finally:
            F.scaled_dot_product_attention = SDPA
        if not wanted:
            return output, None
        with torch.no_grad():
            return output, function(**{**bound, "need_weights": True})[1]
