"""annulus::attention and annulus::attention_backward, the PyTorch operators that everything in annulus.torch calls.

    annulus::attention(q, k, v, settings, keep, sink, lengths) -> (out, lse, normalizers)
    annulus::attention_backward(normalizers, q, k, v, out, dout, dlse, settings, sink, lengths) -> (dq, dk, dv, dsink)

q is (B, Sq, H, D), k is (B, S, Hkv, D), v is (B, S, Hkv, Dv) and out (B, Sq, H, Dv), or in the order of `axes` in the
settings. Gradients and lse (B, Sq, H) have the same order. sink is (H) or None; without sink, dsink is (0). The
backward pass needs normalizers (B, Sq, H, 2); without `keep` they are (B, Sq, H, 0). `settings` is a text that
encoded() makes, because operators take no objects. Example:
{"causal": true, "segments": [128, [3, 0, 0]], "dilations": [1, 8], "comm": "world"}; a window is [left, right, first].

lengths is None; or whole numbers (B) or (B, 2); or bool (B, S), True where a row exists; or a mask (1 or B, 1 or H, 1
or S, S) of scaled_dot_product_attention. These numbers may come from a model's input, so they are read inside the
operator, when it computes.

To add a setting of the pattern, add a field to options.Settings that JSON can store; nothing here changes. To add an
optional tensor, such as coordinates, add an argument `Tensor? name` at the end of FORWARD and BACKWARD, like `sink`.
"""
import contextvars
import functools
import json
from typing import NamedTuple

import torch
from torch._guards import detect_fake_mode
from torch.autograd import forward_ad

from annulus.arrays import TYPES, dense
from annulus.calls import AXES, Call, canonical_shape, extents_of, raised_on_all_ranks, refuse_empty
from annulus.errors import AnnulusError
from annulus.options import Settings, lengths as lengths_of, lengths_of_mask, lse_type_of, settings_of, sum_type_of
from annulus.torch.masks import asked_by

FORWARD = ("(Tensor q, Tensor k, Tensor v, str settings, bool keep, Tensor? sink, Tensor? lengths) -> "
           "(Tensor out, Tensor lse, Tensor normalizers)")
BACKWARD = ("(Tensor normalizers, Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor? dlse, str settings, "
            "Tensor? sink, Tensor? lengths) -> (Tensor dq, Tensor dk, Tensor dv, Tensor dsink)")
PLAIN = settings_of()

progress_of_call = contextvars.ContextVar("annulus.torch's progress", default=None)  # a function, so not in `settings`


class Request(NamedTuple):
    """What the text `settings` means."""
    settings: Settings
    axes: str | None
    comm: str | None
    threads: int | None


def encoded(settings, axes=None, comm=None, threads=None):
    """The text for a Request; it has only the settings that differ from the defaults."""
    said = {name: value for name, value in settings._asdict().items() if value != getattr(PLAIN, name)}
    said |= {name: value for name, value in (("axes", axes), ("comm", comm), ("threads", threads)) if value is not None}
    return json.dumps(said)


def _as_tuples(value):
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


@functools.lru_cache(maxsize=256)
def decoded(text):
    said = {name: _as_tuples(value) for name, value in json.loads(text).items()}
    rest = [said.pop(name, None) for name in ("axes", "comm", "threads")]
    return Request(PLAIN._replace(**said), *rest)


def checked_on_all_ranks(comm, *tensors):
    """raised_on_all_ranks() for tensors with numbers. While PyTorch traces a function, and for tensors of device
    meta, ranks exchange nothing."""
    on_meta = bool(tensors) and all(getattr(one, "is_meta", False) for one in tensors)
    is_traced = on_meta or detect_fake_mode(tensors) is not None
    return raised_on_all_ranks(None if comm is None or is_traced else comm)


def _with_lengths(settings, q, k, request, lengths):
    """The settings with the rows that the numbers of `lengths` name."""
    name, of = ("k", k) if settings.query_offset == "none" else ("q", q)
    numbers, shape = lengths.numpy(force=True), canonical_shape(of.shape, request.axes, name)[:2]
    is_mask = numbers.dtype == bool
    if is_mask and numbers.ndim == 4:
        return asked_by(numbers, settings, shape[0])
    if is_mask and (request.comm or numbers.shape != shape):
        raise AnnulusError(f"lengths is a mask {numbers.shape}, expected {shape}, {name}'s entries and rows, and no comm")
    return settings._replace(lengths=(lengths_of_mask if is_mask else lengths_of)(numbers, "lengths"))


def _call(q, k, v, request, gradients, sink, lengths):
    settings, mask_keys = request.settings, None
    if lengths is not None:
        with raised_on_all_ranks(request.comm):
            settings = _with_lengths(settings, q, k, request, lengths)
        mask_keys = lengths.shape[3] if lengths.dim() == 4 else None
    return Call(q, k, v, settings, request.axes, request.comm, gradients, sink, mask_keys, threads=request.threads,
                suggested=torch.get_num_threads())


@torch.library.custom_op("annulus::attention", mutates_args=(), schema=FORWARD, device_types="cpu")
def _attention(q, k, v, settings, keep, sink, lengths):
    call = _call(q, k, v, decoded(settings), keep, sink, lengths)
    out, lse, _, normalizers = call.forward(progress_of_call.get())
    return out, lse, normalizers if keep else call.empty((*call.q.shape[:3], 0))[0]


@torch.library.custom_op("annulus::attention_backward", mutates_args=(), schema=BACKWARD, device_types="cpu")
def _attention_backward(normalizers, q, k, v, out, dout, dlse, settings, sink, lengths):
    made = _call(q, k, v, decoded(settings), True, sink, lengths).backward(normalizers, out, dout, dlse)
    return *made[:3], q.new_empty(0) if sink is None else made[3].to(sink.dtype)


def _kind(tensor):
    return str(tensor.dtype).removeprefix("torch.")


@_attention.register_fake
def _(q, k, v, settings, keep, sink, lengths):
    """Shapes, types and strides of the results, while the tensors have no numbers."""
    request = decoded(settings)
    described = {name: (_kind(tensor), tensor.shape) for name, tensor in (("q", q), ("k", k), ("v", v))}
    batch, rows, heads, *_, dim = extents = extents_of(described, request.axes)
    refuse_empty(extents if request.comm is None else (*extents[:1], None, *extents[2:5], None, dim))

    def made(kind, *numbers):
        tensor = q.new_empty((batch, rows, heads, *numbers), dtype=getattr(torch, kind))
        return tensor.transpose(1, 2) if request.axes == "bhsd" else tensor
    normalizers = q.new_empty((batch, rows, heads, 2 if keep else 0),
                              dtype=getattr(torch, sum_type_of(_kind(q), request.settings)) if keep else q.dtype)
    return made(_kind(q), dim), made(lse_type_of(_kind(q))), normalizers


@_attention_backward.register_fake
def _(normalizers, q, k, v, out, dout, dlse, settings, sink, lengths):
    order = AXES[decoded(settings).axes]  # in memory the results are (B, S, heads, D)
    made = [tensor.new_empty([tensor.shape[axis] for axis in order]).permute(order) for tensor in (q, k, v)]
    return *made, q.new_empty(0) if sink is None else torch.empty_like(sink)


def _one_by_one(operator, info, in_dims, *arguments):
    """vmap for calls with sink logits or lengths: each entry of the mapped axis is computed by its own call, because a
    sink has a gradient in each call, and lengths are for one batch."""
    results = [operator(*[value if axis is None else value.select(axis, i) for value, axis in zip(arguments, in_dims)])
               for i in range(info.batch_size)]
    return tuple(map(torch.stack, zip(*results))), (0,) * len(results[0])


def _folded(operator, info, in_dims, *arguments):
    """vmap: the mapped axis becomes part of the batch. (V, B, S, H, D) -> (V B, S, H, D)."""
    if info.batch_size == 0:
        raise AnnulusError("the axis that torch.vmap maps has no entries, expected 1 or more")
    if any(argument is not None for argument in arguments[-2:]):
        return _one_by_one(operator, info, in_dims, *arguments)

    def fold(value, axis):
        if not isinstance(value, torch.Tensor):
            return value
        whole = value.expand(info.batch_size, *value.shape) if axis is None else value.movedim(axis, 0)
        return whole.flatten(0, 1)
    results = operator(*map(fold, arguments, in_dims))
    empty = results[0].new_empty((info.batch_size, 0))  # dsink
    return tuple(result.unflatten(0, (info.batch_size, -1)) if result.dim() > 1 else empty
                 for result in results), (0,) * len(results)


_attention.register_vmap(functools.partial(_folded, _attention))
_attention_backward.register_vmap(functools.partial(_folded, _attention_backward))


def _cast(q, k, v):
    """As in scaled_dot_product_attention under torch.autocast: casts all types but float64 to autocast's type."""
    if not torch.is_autocast_enabled("cpu"):
        return q, k, v
    return [tensor if tensor.dtype == torch.float64 else tensor.to(torch.get_autocast_dtype("cpu")) for tensor in (q, k, v)]


def _autocast(q, k, v, settings, keep, sink, lengths):
    cast = _cast(q, k, v)  # not the sink, which may have any type
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
        return _attention(*cast, settings, keep, sink, lengths)


_library = torch.library.Library("annulus", "FRAGMENT")
_library.impl("attention", _autocast, "AutocastCPU")


def _with_gradient(operator, setup_context, backward):
    """Gives an operator its gradient; returns the function to call it with. The transforms of torch.func need a
    torch.autograd.Function instead of an operator; that Function gets the same setup_context and backward."""
    operator.register_autograd(backward, setup_context=setup_context)
    own = {"generate_vmap_rule": True, "forward": staticmethod(lambda *arguments: operator(*arguments)),
           "setup_context": staticmethod(setup_context), "backward": staticmethod(backward),
           "jvp": staticmethod(_refuse_twice)}  # called by torch.func.hessian: forward mode over reverse mode
    function = type("Annulus", (torch.autograd.Function,), own)

    def call(*arguments):
        return (function.apply if torch._C._are_functorch_transforms_active() else operator)(*arguments)
    return call


def _keep_for_backward(ctx, inputs, output):
    q, k, v, settings, _, sink, lengths = inputs
    out, _, normalizers = output
    ctx.mark_non_differentiable(normalizers)
    ctx.set_materialize_grads(False)  # dlse is None if lse has no gradient
    ctx.save_for_backward(normalizers, q, k, v, out, sink, lengths)
    ctx.settings = settings


def _backward(ctx, dout, dlse, _):
    normalizers, q, k, v, out, sink, lengths = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else dout
    *made, dsink = _differentiate(normalizers, q, k, v, out, dout, dlse, ctx.settings, sink, lengths)
    return *made, None, None, None if sink is None else dsink, None


def _refuse_twice(ctx, *_):
    raise AnnulusError("gradients of gradients are asked for (create_graph=True, torch.func.hessian), which attention here "
                       "does not have; expected first derivatives alone")


_differentiate = _with_gradient(_attention_backward, lambda ctx, inputs, output: None, _refuse_twice)
_forward = _with_gradient(_attention, _keep_for_backward, _backward)


def _check(tensors, lengths):
    """Checks that tensors are dense, of a known type, and in the CPU's memory (or on meta, without numbers)."""
    for name, tensor in tensors.items():
        dense(tensor, name)
        if tensor.device.type not in ("cpu", "meta"):
            raise AnnulusError(f"{name} is on {tensor.device}; this build of annulus computes on the CPU, expected "
                               f"{name}.cpu()")
        if tensor.device != tensors["q"].device:
            raise AnnulusError(f"{name} is on {tensor.device}, q on {tensors['q'].device}; expected one device")
        if _kind(tensor) not in TYPES:
            raise AnnulusError(f"{name} has numbers of type {_kind(tensor)}, expected {', '.join(TYPES)}")
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None:
            raise AnnulusError(f"{name} has a tangent of forward-mode differentiation (torch.func.jvp, jacfwd), which "
                               "attention here does not have; expected reverse mode (grad, vjp, jacrev)")
    if lengths is not None:
        dense(lengths, "lengths")
        device = tensors["q"].device
        if lengths.device != device and (lengths.device.type, device.type) != ("cpu", "meta"):
            name = "attn_mask" if lengths.dim() == 4 else "lengths"
            raise AnnulusError(f"{name} is on {lengths.device}, q on {device}; expected one device")


@torch.compiler.allow_in_graph
def attend(q, k, v, settings, sink=None, lengths=None):
    """out and lse, both differentiable; `settings` is from encoded()."""
    with checked_on_all_ranks(decoded(settings).comm, q, k, v):
        _check({"q": q, "k": k, "v": v} | ({} if sink is None else {"sink": sink}), lengths)
    in_transform = torch._C._are_functorch_transforms_active()
    if in_transform:  # an autograd.Function saves its inputs, so they must already have autocast's type
        q, k, v = _cast(q, k, v)
    wanted = any(tensor is not None and tensor.requires_grad for tensor in (q, k, v, sink))
    keep = torch.is_grad_enabled() and (in_transform or wanted)
    return _forward(q, k, v, settings, keep, sink, lengths)[:2]
