"""Turns arrays of NumPy, PyTorch and JAX into NumPy arrays over the same memory, and makes results of the same kind."""
import sys
from typing import Any, Callable, NamedTuple

import numpy as np

from annulus.arguments import refuse_masked
from annulus.errors import AnnulusError, one_line

TYPES = ("float64", "float32", "float16", "bfloat16")


class Array(NamedTuple):
    """An array that the caller gave.

    numbers: a NumPy array, over the same memory if possible; bfloat16, which NumPy does not have, as uint16
    type: one of TYPES
    empty: (shape, type) -> a new array of the caller's kind, and a NumPy array over its memory
    """
    numbers: np.ndarray
    type: str
    empty: Callable[[tuple, str], tuple]


def _known(kind, name):
    if kind not in TYPES:
        raise AnnulusError(f"{name} has numbers of type {kind}, expected {', '.join(TYPES)}")
    return kind


def _with_room(make):
    """Wraps a function for Array.empty, so that it raises AnnulusError if there is not enough memory."""
    def empty(shape, kind):
        try:
            return make(shape, kind)
        except (MemoryError, RuntimeError, ValueError):  # from NumPy, from PyTorch, from NumPy for sizes beyond 64 bits
            raise AnnulusError(f"there is no memory for a result of shape {tuple(shape)} in {kind}") from None
    return empty


def _bits(array):
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _empty_numpy(shape, kind):
    if kind == "bfloat16":
        import ml_dtypes
        made = np.empty(shape, ml_dtypes.bfloat16)
    else:
        made = np.empty(shape, kind)
    return made, _bits(made)


def _of_numpy(array, name):
    refuse_masked(array, name)
    kind = _known(array.dtype.name, name)
    # Copies the array unless its byte order is the machine's, and its address and strides are multiples of itemsize.
    native = array.dtype.newbyteorder("=")
    if array.dtype != native or not array.flags.aligned or any(s % array.itemsize for s in array.strides):
        array = array.astype(native)
    return Array(_bits(array), kind, _with_room(_empty_numpy))


def dense(tensor, name):
    """Returns a plain tensor of PyTorch. Raises AnnulusError for nested, distributed, masked and sparse tensors."""
    import torch
    if not isinstance(tensor, torch.Tensor):
        raise AnnulusError(f"{name} is a {type(tensor).__name__}, expected a tensor of PyTorch")
    if tensor.is_nested:
        raise AnnulusError(f"{name} is a nested tensor, expected one with all its entries of one shape")
    if type(tensor).__name__ == "DTensor":
        raise AnnulusError(f"{name} is a DTensor, expected its shard, {name}.to_local(), and comm=mesh.get_group()")
    if type(tensor).__name__ == "MaskedTensor":
        there = tensor.get_mask()
        raise AnnulusError(f"{name} has {int((~there).sum())} masked entries of {there.numel()}, expected a tensor "
                           "without a mask")
    if tensor.layout is not torch.strided:
        raise AnnulusError(f"{name} is {tensor.layout}, expected {name}.to_dense()")
    return tensor


def _of_torch(tensor, name):
    import torch
    dense(tensor, name)
    if tensor.device.type != "cpu":
        raise AnnulusError(f"{name} is on {tensor.device}; this build of annulus computes on the CPU, expected {name}.cpu()")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise AnnulusError(f"{name} requires gradients, which annulus.torch.dilated_attention computes; expected "
                           f"{name}.detach(), or torch.no_grad()")
    kind = _known(str(tensor.dtype).removeprefix("torch."), name)
    try:
        tensor = tensor.detach().resolve_conj().resolve_neg()
        numbers = tensor.view(torch.uint16).numpy() if kind == "bfloat16" else tensor.numpy()
    except (RuntimeError, TypeError) as problem:  # the tensor wraps another (torch.func, torch.export)
        raise AnnulusError(f"{name} has no memory of its own ({one_line(problem)}), expected a plain tensor") from None

    def empty(shape, of):
        made = torch.empty(shape, dtype=getattr(torch, of), device="cpu")  # also if PyTorch's default device is another
        return made, made.view(torch.uint16).numpy() if of == "bfloat16" else made.numpy()
    return Array(numbers, kind, _with_room(empty))


def _of_jax(array, name):
    import jax
    if isinstance(array, jax.core.Tracer):
        raise AnnulusError(f"{name} is traced by JAX (jit, grad, vmap) and has no numbers yet, expected an array; "
                           "jax.pure_callback calls annulus when it has")
    if not isinstance(array, jax.Array):
        raise AnnulusError(f"{name} is a {type(array).__name__}, expected an array of NumPy, PyTorch or JAX")
    if any(device.platform != "cpu" for device in array.devices()):
        raise AnnulusError(f"{name} is not on a CPU; this build of annulus computes on the CPU")
    return _of_numpy(np.asarray(array), name)


def as_numpy(array: Any, name: str) -> Array:
    """Describes `array`, and copies it only if its numbers cannot be read in place. Raises AnnulusError if it is not an
    array."""
    module = type(array).__module__.partition(".")[0]
    if isinstance(array, np.ndarray):
        made = _of_numpy(array, name)
    elif "torch" in sys.modules and isinstance(array, sys.modules["torch"].Tensor):
        made = _of_torch(array, name)
    elif module in ("jax", "jaxlib"):
        made = _of_jax(array, name)
    elif hasattr(array, "__dlpack__"):
        try:
            made = _of_numpy(np.from_dlpack(array), name)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as problem:
            raise AnnulusError(f"{name}: {one_line(problem)}") from None
    else:
        raise AnnulusError(f"{name} is a {type(array).__name__}, expected an array of NumPy, PyTorch or JAX")
    return made


def as_kind_of(array, model):
    """A result in the kind of `model`, an array of the caller. Array.empty has already made results of NumPy's and
    PyTorch's kind; only JAX needs a new array."""
    if type(model).__module__.partition(".")[0] in ("jax", "jaxlib"):
        import jax
        return jax.numpy.asarray(array)
    return array
