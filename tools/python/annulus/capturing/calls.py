"""Sees every call of scaled_dot_product_attention inside a `with` block, in whatever way the function was imported.

PyTorch passes calls of its own functions to a TorchFunctionMode, also if they were imported with `from
torch.nn.functional import ...`, so that no module needs to be patched. Three kinds of calls need more:

- nn.MultiheadAttention that returns its weights (the default) computes attention by hand. Here it calls
  scaled_dot_product_attention instead. If weights are wanted, they are computed in addition.
- The fast paths of nn.MultiheadAttention and nn.TransformerEncoderLayer are one fused function each. seen() switches
  them off.
- Attention with capped scores is several functions: by_hand.py follows them.
"""
import contextlib
import inspect

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from annulus.capturing.by_hand import Follower

SDPA = F.scaled_dot_product_attention


@contextlib.contextmanager
def seen(on_call):
    """In the block, calls on_call(query, key, value, options, output) after every attention; options is a dict."""
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
        self.on_call, self.by_hand = on_call, Follower(on_call)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is SDPA:
            return self.attention(*args, **kwargs)
        if function is F.multi_head_attention_forward:
            return self.multi_head(function, args, kwargs)
        output = function(*args, **kwargs)
        self.by_hand.follow(function, args, kwargs, output)
        return output

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **more):
        output = SDPA(query, key, value, attn_mask, dropout_p, is_causal, **more)
        options = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal, **more}
        self.on_call(query, key, value, options, output)
        return output

    def multi_head(self, function, args, kwargs):
        """PyTorch switches this mode off during the call, so the mode cannot see the attention inside. Therefore
        F.scaled_dot_product_attention is replaced while multi-head attention runs."""
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
