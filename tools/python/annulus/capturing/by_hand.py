"""Follows attention with capped scores, which models compute by hand, because PyTorch's function has no cap.

Gemma 2, for example: softmax(a tanh(q k^T scale / a) + mask) v. For each tensor between q k^T and the output, a
Follower notes in Scores what the tensor is. A function that this file does not know makes the note uncertain. capture()
refuses an attention with such a note, because capture() must not guess.
"""
import numbers
from typing import NamedTuple, Optional

import torch
from torch.utils.weak import WeakIdKeyDictionary

# Functions whose result gets the same note as their argument.
LIKE_BEFORE = ("to", "float", "half", "bfloat16", "double", "type_as", "contiguous", "dropout")


class Scores(NamedTuple):
    """What a tensor (B, H, Sq, S) is: scale * q k^T, or with a cap: cap * tanh(scale * q k^T). If there is a mask, plus
    the mask. If is_weight, the softmax of all this."""
    query: torch.Tensor
    key: torch.Tensor
    scale: float = 1.0
    cap: Optional[float] = None
    mask: Optional[torch.Tensor] = None
    is_weight: bool = False
    uncertain: str = ""     # name of the first function on the way to this tensor whose effect is not known


class Follower:
    """follow() sees every call of a PyTorch function. After a capped attention it calls on_call (see calls.seen())."""

    def __init__(self, on_call):
        self._on_call, self._notes = on_call, WeakIdKeyDictionary()

    def follow(self, function, args, kwargs, output):
        if getattr(function, "__name__", "") == "__setitem__" and args[0] in self._notes:
            self._notes[args[0]] = self._notes[args[0]]._replace(uncertain="__setitem__")
        if not isinstance(output, torch.Tensor) or output.dim() != 4:
            return
        name = getattr(function, "__name__", "").strip("_")
        given = next((x for x in args if isinstance(x, torch.Tensor) and x in self._notes), None)
        note = None if given is None else self._notes[given]
        if name == "matmul" and (note is None or note.is_weight):
            if [isinstance(x, torch.Tensor) and x.dim() for x in args[:2]] == [4, 4]:
                self._multiplied(note, *args[:2], output)
        elif note is not None and output.shape == given.shape:
            others = [x for x in args if x is not given]
            made = None if name == "dropout" and _drops(*others[:2], **kwargs) else _changed(
                note, name, others[0] if others else None, args[0] is given, kwargs)
            self._notes[output] = made or note._replace(uncertain=note.uncertain or name)

    def _multiplied(self, note, left, right, output):
        """Notes a product: q times a transposed k, which makes scores; or weights times v, which ends the attention."""
        if note is None:
            self._notes[output] = Scores(left, right.mT)
        elif note.cap is not None:  # with a = cap: a tanh(scale q k^T) is a tanh(s / a) for s = scale a q k^T
            self._on_call(note.query, note.key, right, {
                "attn_mask": note.mask, "is_causal": False, "scale": note.scale * note.cap, "softcap": note.cap,
                "uncertain": note.uncertain}, output)


def _drops(p=0.5, training=True, **inplace):
    """True if torch's dropout() with these arguments changes numbers."""
    return bool(p and training)


def _changed(note, name, other, is_first, kwargs):
    """The note of a function's result; None if it is not known. `other` is the argument that is not the scores."""
    factor = None
    if kwargs.keys() & {"alpha", "rounding_mode"}:
        return None
    if isinstance(other, numbers.Number) and name in ("mul", "rmul", "imul"):
        factor = other
    elif isinstance(other, numbers.Number) and name in ("div", "truediv", "true_divide", "idiv", "itruediv") and is_first:
        factor = 1 / other
    if name in LIKE_BEFORE:
        return note
    if note.is_weight:
        return None
    if name == "softmax":
        return note._replace(is_weight=True) if kwargs.get("dim", other) in (-1, 3) else None
    if note.mask is not None:
        return None
    if factor is not None:
        return note._replace(scale=note.scale * factor) if note.cap is None else note._replace(cap=note.cap * factor)
    if name == "tanh" and note.cap is None:
        return note._replace(cap=1.0)
    if name in ("add", "iadd") and isinstance(other, torch.Tensor) and other.dim() >= 2:
        return note._replace(mask=other)
    return None
