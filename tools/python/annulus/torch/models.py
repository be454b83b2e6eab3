"""Models of Hugging Face's transformers: attn_implementation="annulus"."""
import torch

from annulus.arguments import anything, checked, text
from annulus.errors import AnnulusError, one_line
from annulus.options import settings_of
from annulus.torch.operator import attend, encoded

# Arguments by which models ask for what attention here does not do, and what is expected in their place.
REFUSED = {"sliding_window": "segments= of register()", "s_aux": "a softmax without sinks",
           "position_bias": "scores as they are", "head_mask": "all heads"}


@checked(segments=anything, dilations=anything, name=text("a name, a text"))
def register(segments=None, dilations=None, *, name="annulus", **words):
    """Adds annulus to the attention functions of Hugging Face's transformers, under `name`; called again it replaces it.

    segments, dilations and more words are those of annulus.attention(); causal is the model's matter, and so is scale.
    Without them attention is dense, and equal to "sdpa".

    >>> annulus.torch.register(segments=[2048, "all"], dilations=[1, 16])
    >>> model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="annulus")

    Raises AnnulusError where transformers is missing. A model's call raises it for what annulus does not compute:
    padding, masks of other kinds, dropout in attention, a cache of keys.
    """
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface
    except ImportError as problem:
        raise AnnulusError(f"transformers cannot be used ({one_line(problem)}), expected pip install "
                           "transformers") from None
    for said in {"causal", "scale", "axes", "statistics"} & words.keys():
        raise AnnulusError(f"{said} is no argument here, expected segments, dilations, semantics, precision ... of "
                           "annulus.attention(): the model says the rest")
    dense = settings_of(segments, dilations, **words)

    @torch.compiler.allow_in_graph
    def attention(query, key, value, causal, scale, softcap):
        settings = dense._replace(causal=causal, scale=scale, softcap=softcap or dense.softcap)
        return attend(query, key, value, encoded(settings, axes="bhsd"))[0]

    def forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **more):
        """query (B, H, S, D), key and value (B, Hkv, S, D); returns (B, S, H, D) and no weights."""
        _refuse_others(query, key, attention_mask, dropout, more)
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        return attention(query, key, value, bool(causal), scaling, more.get("softcap")).transpose(1, 2), None

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, _mask)


def lengths_of(attention_mask):
    """(B, S) of 1 for tokens and 0 for padding -> None, which says that there is no padding.

    Where attention() takes lengths, they are made here, and forward() above hands them on.
    """
    if attention_mask is None:
        return None
    if torch.compiler.is_compiling():
        raise AnnulusError("attention_mask: expected None under torch.compile and torch.export, where its numbers are not "
                           "there to be looked at")
    if not (there := attention_mask.bool()).all():
        raise AnnulusError(f"attention_mask says that {int((~there).sum())} of {there.numel()} tokens are padding, expected "
                           "none: texts of one length, one text at a time, or attn_implementation='sdpa'")
    return None


def _mask(*_, mask_function=None, attention_mask=None, **_more):
    """What transformers asks for in place of a mask tensor: none, where the model's mask is none or causal."""
    from transformers.masking_utils import bidirectional_mask_function, causal_mask_function
    if mask_function not in (None, causal_mask_function, bidirectional_mask_function):
        hint = " (compiled: use_cache=True, else transformers takes all texts for packed)" * torch.compiler.is_compiling()
        asked = getattr(mask_function, "__qualname__", type(mask_function).__name__).partition(".")[0]
        raise AnnulusError(f"the model masks by a function of its own ({asked}: a window, chunks, packed texts), expected "
                           "plain causal or bidirectional attention; segments= of register() makes it sparse" + hint)
    return lengths_of(attention_mask)


def _refuse_others(query, key, attention_mask, dropout, more):
    if attention_mask is not None:
        raise AnnulusError(f"attention_mask is a tensor {tuple(attention_mask.shape)}, expected None: no padding, and no "
                           "mask of your own")
    if dropout:
        raise AnnulusError(f"dropout is {dropout}, expected 0 (attention_dropout of the model's configuration): attention "
                           "here has none")
    if key.shape[2] != query.shape[2]:
        raise AnnulusError(f"key has {key.shape[2]} rows, query {query.shape[2]}: expected as many (use_cache=False; to "
                           "generate, choose attn_implementation='sdpa')")
    for name, expected in REFUSED.items():
        if more.get(name) is not None:
            raise AnnulusError(f"{name} is given by the model, expected {expected}")
