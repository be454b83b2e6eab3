"""PyTorch's files: a dictionary of tensors, perhaps nested. Loading runs no code from the file."""
import contextlib
import math
import os
import tempfile
import warnings

import numpy as np

from annulus import elements, tensors
from annulus.errors import AnnulusError, one_line


def note(path, specs):
    return None


def torch_or_error(what):
    try:
        import torch
    except ImportError:
        raise AnnulusError(f"{what} needs PyTorch, which this Python lacks: pip install torch") from None
    return torch


def as_array(tensor):
    """A CPU tensor as a numpy array over the same memory; bfloat16 as its bits."""
    torch = torch_or_error("a tensor")
    tensor = tensor.resolve_neg()  # numpy cannot read numbers that PyTorch stores with the other sign
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def has_numbers(tensor):
    return str(tensor.dtype).removeprefix("torch.").rstrip("0123456789") in ("float", "bfloat", "int", "uint")


def tensor_of(where, tensor):
    torch = torch_or_error("a tensor")
    element = elements.BFLOAT16 if tensor.dtype == torch.bfloat16 else None
    if not has_numbers(tensor):
        raise AnnulusError(f"{where}: has type {tensor.dtype}; expected float64, float32, float16 or bfloat16")
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        kind = "sparse" if tensor.layout != torch.strided else f"on device {tensor.device.type}"
        raise AnnulusError(f"{where}: is {kind}; expected a dense tensor with its numbers")
    return tensors.of_array(where, as_array(tensor.detach()), element)


def _load(torch, path):
    """Loads a file. Files of torch.save's newer format are mapped into memory, so that unused tensors are not read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pickles of other versions
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except (RuntimeError, ValueError):
            return torch.load(path, map_location="cpu", weights_only=True)


def _reason(problem):
    if "Weights only load failed" in str(problem):
        return "there are Python objects in it that are no tensors, and these are not loaded: they could run code"
    return one_line(problem)


def _tensors_in(torch, path, content, prefix=""):
    if isinstance(content, torch.Tensor):
        return {prefix or "tensor": tensor_of(f"{path}: {prefix or 'tensor'}", content)}
    found = {}
    if isinstance(content, dict):
        for key, value in content.items():
            if isinstance(value, dict) or isinstance(value, torch.Tensor) and has_numbers(value):
                found |= _tensors_in(torch, path, value, f"{prefix}/{key}" if prefix else str(key))
    return found


@contextlib.contextmanager
def reading(path):
    torch = torch_or_error(str(path))
    try:
        content = _load(torch, path)
    except Exception as problem:  # the unpickler raises many kinds of exceptions
        raise AnnulusError(f"{path}: is no PyTorch file of plain tensors ({_reason(problem)}); "
                           "expected what torch.save writes of a dictionary of tensors") from None
    yield _tensors_in(torch, path, content)


@contextlib.contextmanager
def writing(path, specs):
    """First writes the numbers to scratch files mapped into memory, because torch.save needs whole tensors."""
    torch = torch_or_error(str(path))
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        arrays = {spec.name: _scratch(scratch, number, spec) for number, spec in enumerate(specs)}

        def write(name, index, piece):
            arrays[name][index] = piece

        yield write
        content = {}
        for spec in specs:
            tensor = torch.from_numpy(arrays[spec.name].view(np.int16) if spec.element == elements.BFLOAT16
                                      else arrays[spec.name])
            content[spec.name] = tensor.view(torch.bfloat16) if spec.element == elements.BFLOAT16 else tensor
        try:
            torch.save(content, path)
        except RuntimeError as problem:  # PyTorch raises this if the disk is full
            raise OSError(f"{path}: cannot be written ({one_line(problem)})") from None


def _scratch(folder, number, spec):
    if 0 in spec.shape:
        return np.empty(spec.shape, spec.element.storage)
    with open(f"{folder}/{number}", "wb") as file:  # a full disk raises here, not as SIGBUS at a later page
        os.posix_fallocate(file.fileno(), 0, math.prod(spec.shape) * np.dtype(spec.element.storage).itemsize)
    return np.memmap(f"{folder}/{number}", spec.element.storage, "r+", shape=spec.shape)
