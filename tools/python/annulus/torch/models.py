"""Models of Hugging Face's transformers: attn_implementation="annulus"."""
import contextlib
import sys

import torch

from annulus import communicators
from annulus.arguments import anything, checked, text
from annulus.errors import AnnulusError, one_line
from annulus.options import WORDS, Window, settings_of
from annulus.processors import THREADS
from annulus.torch.operator import attend, checked_on_all_ranks, encoded

# Arguments of models that attention here does not support, and what is expected instead.
REFUSED = {"position_bias": "scores as they are", "head_mask": "all heads", "cu_seq_lens_q": "one text in each batch entry",
           "cu_seq_lens_k": "one text in each batch entry"}
OF_THE_MODEL = ("causal", "scale", "axes", "statistics", "top_keys", "lengths", "query_offset", "sink")


@checked(segments=anything, dilations=anything, name=text("a name, a text"), comm=anything, threads=THREADS, more=WORDS,
         unlisted=OF_THE_MODEL)
def register(segments=None, dilations=None, *, name="annulus", comm=None, threads=None, **words):
    """Adds annulus to the attention functions of Hugging Face's transformers, as `name`. A later call with the same
    `name` replaces the earlier one.

    segments, dilations and more words are those of annulus.attention(); causal and scale are the model's. Without
    segments and dilations attention is dense, and equal to "sdpa" for every token. Padding, before or after the text,
    costs nothing in causal models. In other models (BERT, cross attention) the keys of padding are hidden. A causal
    model's window and sinks (s_aux) are used.

    With comm, as in annulus.attention(), each rank gives the model its rows of a text, and their position_ids; padding
    is refused. threads: number of threads.

    >>> annulus.torch.register(segments=[2048, "all"], dilations=[1, 16])
    >>> model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="annulus")

    Raises AnnulusError if transformers is missing. A call of the model raises it for what annulus does not compute:
    other masks, dropout in attention, a cache of keys.
    """
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface
    except ImportError as problem:
        raise AnnulusError(f"transformers cannot be used ({one_line(problem)}), expected pip install "
                           "transformers") from None
    for said in set(OF_THE_MODEL) & words.keys():
        raise AnnulusError(f"{said} is no argument here, expected segments, dilations, semantics, precision ... of "
                           "annulus.attention(): the model says the rest")
    dense, ranks = settings_of(segments, dilations, **words), communicators.name_of(comm)

    @torch.compiler.allow_in_graph
    def attention(query, key, value, causal, scale, softcap, window, sink, there):
        asked = dense._replace(causal=causal, scale=scale, softcap=softcap or dense.softcap)
        if query.shape[2] != key.shape[2] or (ranks and not causal and not _is_by_rows(dense)):
            asked = asked._replace(query_offset="none")
        if window is not None:
            asked = asked._replace(segments=(Window(window - 1, 0),), dilations=(1,))
        return attend(query, key, value, encoded(asked, "bhsd", ranks, threads), sink, there)[0]

    def forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, sliding_window=None,
                s_aux=None, **more):
        """query (B, H, S, D), key and value (B, Hkv, S, D); returns (B, S, H, D) and no weights."""
        is_exchanged = ranks and not torch.compiler.is_compiling()
        with checked_on_all_ranks(ranks, query, key, value) if is_exchanged else contextlib.nullcontext():
            causal, there, window = _meant(module, query, key, attention_mask, dropout, is_causal, sliding_window, more,
                                           dense)
            there = _without_padding(there) if ranks else there
        return attention(query, key, value, causal, scaling, more.get("softcap"), window, s_aux,
                         there).transpose(1, 2), None

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, _mask)


def _is_by_rows(settings):
    """Whether the keys of a query depend on its row number, even if attention is not causal."""
    return settings.segments != (0,) or settings.bias is not None


def _meant(module, query, key, mask, dropout, is_causal, sliding_window, more, settings):
    """What the arguments that a model gives mean: (whether attention is causal, lengths or None, rows of the window or
    None)."""
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    if mask is not None and sliding_window is None and tuple(mask.shape[1:]) == (1, key.shape[2]):
        causal, mask = False, mask[:, 0]
    by_rows = _is_by_rows(settings)
    _refuse_others(query, key, mask, dropout, more, may_cross=not causal and not by_rows)
    if by_rows and not causal and _is_cross(module):
        raise AnnulusError("the model has cross attention, whose queries are not rows of the keys, expected "
                           "register() without segments, dilations and bias")
    there, window = _window(mask, sliding_window, causal, settings)
    if there is not None and not causal and not by_rows:
        there = there[:, None, None]  # lengths of keys only: in cross attention the queries are other tokens
    return causal, there, window


def _without_padding(there):
    """Returns None. Raises if a mask hides tokens, or may hide them because a compiled mask has no numbers yet."""
    if there is not None and (torch.compiler.is_compiling() or not there.all()):
        raise AnnulusError("attention_mask has padding, or the compiled model has a mask, and comm is given, expected "
                           "texts without padding")


def _is_causal_window(mask_function):
    """Whether mask_function stands for a causal `sliding_window`: row x sees the rows x - w + 1 ... x."""
    from transformers.masking_utils import and_masks, causal_mask_function, sliding_window_overlay
    if getattr(mask_function, "__code__", None) is not and_masks(causal_mask_function).__code__:
        return False
    parts = mask_function.__closure__[0].cell_contents
    return len(parts) == 2 and parts[0].__code__ is sliding_window_overlay(1).__code__ and parts[1] is causal_mask_function


def _is_cross(module):
    """Whether a layer without a causal mask is cross attention, as far as models show that: BERT has a class for cross
    attention, in BART such a layer is in the decoder."""
    return getattr(module, "is_decoder", False) or "Cross" in type(module).__name__


def _classes(of=None):
    """All loaded classes of models."""
    from transformers import PreTrainedModel
    for one in (of or PreTrainedModel).__subclasses__():
        yield one
        yield from _classes(one)


@torch.compiler.assume_constant_result
def _without_interface(config_class):
    """The name of a model with this configuration that computes its softmax itself, whatever attn_implementation says.
    Such a model would take the result of _mask() for its own kind of mask. None if the models call forward()."""
    def calls_forward(model):
        uses = hasattr(sys.modules.get(model.__module__), "ALL_ATTENTION_FUNCTIONS")
        return getattr(model, "_supports_attention_backend", False) or (uses and getattr(model, "_supports_sdpa", False))
    for one in config_class.__mro__:
        models = [model for model in _classes() if getattr(model, "config_class", None) is one]
        if models:
            return None if any(map(calls_forward, models)) else models[0].__name__.replace("PreTrainedModel", "")
    return None


def _mask(*_, mask_function=None, attention_mask=None, batch_size=None, kv_length=None, device=None, config=None, **_more):
    """The function that transformers calls to make a mask. Returns bool (B, S), True for tokens; or (B, 1, S) if the
    mask is bidirectional, which _meant() trusts more than the layer's is_causal, as PyTorch does; or (B, S, 1) if the
    model wants a window, whose width forward() then gets. Without padding and window it may return None."""
    from transformers.masking_utils import bidirectional_mask_function, causal_mask_function
    if config is not None and (model := _without_interface(type(config))):
        raise AnnulusError(f"{model}, the model, computes attention itself and calls no function of attn_implementation, "
                           "expected one that does, or attn_implementation='eager'")
    there = None if attention_mask is None else attention_mask.bool()
    if _is_causal_window(mask_function):
        there = torch.ones(batch_size, kv_length, dtype=torch.bool, device=device) if there is None else there
        return there[..., None]
    if mask_function not in (None, causal_mask_function, bidirectional_mask_function):
        hint = " (compiled: use_cache=True, else transformers takes all texts for packed)" * torch.compiler.is_compiling()
        asked = getattr(mask_function, "__qualname__", type(mask_function).__name__).partition(".")[0]
        raise AnnulusError(f"the model masks by a function of its own ({asked}: chunks, packed texts), expected plain causal "
                           "or bidirectional attention, or a causal window" + hint)
    is_bidirectional = mask_function is bidirectional_mask_function
    may_be_none = not is_bidirectional or _more.get("allow_is_bidirectional_skip", True)
    if there is not None and not torch.compiler.is_compiling() and there.all() and may_be_none:
        return None
    if there is None and not may_be_none:
        there = torch.ones(batch_size, kv_length, dtype=torch.bool, device=device)
    return there[:, None] if is_bidirectional and there is not None else there


def _window(mask, sliding_window, causal, settings):
    """(bool (B, S) or None, rows of the window or None); `mask` is from _mask()."""
    if mask is None or mask.dim() == 2:
        if sliding_window is not None:
            raise AnnulusError(f"sliding_window is {sliding_window} in a layer whose mask has no window, expected None")
        return mask, None
    if sliding_window is None or not causal:
        raise AnnulusError(f"sliding_window is {sliding_window}, causal {bool(causal)}, in a layer whose mask has a causal "
                           "window, expected its rows")
    if settings.segments != (0,):
        raise AnnulusError(f"sliding_window is {sliding_window}, expected None with segments= of register(), or none of these")
    return mask[..., 0], sliding_window


def _refuse_packed(positions, mask):
    """Raises if positions go down between two tokens of an entry, because another text begins there. In compiled code
    there are no numbers to check; then only _mask() can find packed texts."""
    if positions is None or positions.dim() != 2 or torch.compiler.is_compiling():
        return
    begins = positions[:, 1:] < positions[:, :-1]
    if mask is not None:
        there = mask.flatten(1)
        begins = begins & there[:, 1:] & there[:, :-1]
    if begins.any():
        raise AnnulusError("position_ids go down inside an entry of the batch (packed texts), expected one text in each")


def _refuse_others(query, key, attention_mask, dropout, more, may_cross):
    if attention_mask is not None and tuple(attention_mask.shape) not in ((len(key), key.shape[2]), (len(key), key.shape[2], 1)):
        raise AnnulusError(f"attention_mask is a tensor {tuple(attention_mask.shape)}, expected (B, S), 1 for tokens and 0 for "
                           "padding, and no mask of your own")
    if dropout:
        raise AnnulusError(f"dropout is {dropout}, expected 0 (attention_dropout of the model's configuration): attention "
                           "here has none")
    if not may_cross and key.shape[2] != query.shape[2]:
        raise AnnulusError(f"key has {key.shape[2]} rows, query {query.shape[2]}: expected as many (use_cache=False; to "
                           "generate, choose attn_implementation='sdpa')")
    _refuse_packed(more.get("position_ids"), attention_mask)
    for name, expected in REFUSED.items():
        if more.get(name) is not None:
            raise AnnulusError(f"{name} is given by the model, expected {expected}")
