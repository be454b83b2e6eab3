"""Arguments of what the package offers, checked by type and range in one place.

    @checked(path=path, rows=whole(1), causal=flag)
    def look(path, rows=8, causal=False): ...

    look("a.h5", rows=2.5)   AnnulusError: rows is 2.5, expected a whole number, 1 or more
    look("a.h5", row=2)      AnnulusError: look: got an unexpected keyword argument 'row', expected path, rows, causal

A kind is a function (value, name) that returns the value as the function wants it (a numpy.int64 as an int), or raises
AnnulusError. Every parameter has one, so that none is forgotten; `anything` is for what the function looks at itself.
"""
import functools
import inspect
import numbers
import os
import reprlib
import sys
from collections.abc import Iterable, Mapping, Sized

import numpy as np

from annulus.errors import AnnulusError, one_line

MOST = 2**63 - 1
LIST_MOST = 2**31  # entries; a range of 10**12 would be read for hours
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def checked(called=None, /, **kinds):
    """A function whose arguments are taken by these kinds; defaults are taken as they are. `called` is its name in
    messages, where users know it by another."""
    def around(function):
        signature = inspect.signature(function)
        names = [name for name, one in signature.parameters.items()
                 if one.kind not in _VARIADIC and name not in ("self", "cls")]
        if set(names) != set(kinds):
            raise TypeError(f"{function.__qualname__}: kinds of {sorted(kinds)}, parameters {sorted(names)}")

        @functools.wraps(function)
        def call(*given, **words):
            try:
                bound = signature.bind(*given, **words)
            except TypeError as problem:
                raise AnnulusError(f"{called or function.__name__}: {one_line(problem)}, expected "
                                   f"{', '.join(names) or 'no arguments'}") from None
            for name, value in bound.arguments.items():
                if name in kinds:
                    bound.arguments[name] = kinds[name](value, name)
            return function(*bound.args, **bound.kwargs)

        return call

    return around


def shown(value):
    """A value as a message has it: of arrays what they are, of long ones the beginning."""
    try:
        if shape := getattr(value, "shape", ()):
            return f"a {type(value).__name__} {tuple(shape)}"
        return " ".join(_short.repr(value).split())
    except Exception:  # of somebody's own __repr__, or of a number with more digits than Python writes
        return f"a {type(value).__name__}"


def wrong(value, name, expected):
    return AnnulusError(f"{name} is {shown(value)}, expected {expected}")


def refuse_masked(value, name):
    """A masked array's hidden entries would be taken for numbers."""
    if isinstance(value, np.ma.MaskedArray) and (count := np.ma.count_masked(value)):
        raise AnnulusError(f"{name} has {count} masked entries of {value.size}, expected an array without a mask "
                           "(.filled(...) makes one)")


def _symbols():
    """PyTorch's whole numbers, floats and flags that come from shapes, while it traces."""
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.SymInt, torch.SymFloat, torch.SymBool)


def _plain(value, name):
    """The number in an array without axes; anything else as it is."""
    refuse_masked(value, name)
    if isinstance(value, symbols := _symbols()):  # torch.compile compiles anew for another number
        return (int, float, bool)[symbols.index(type(value))](value)
    try:
        return value.item() if value.shape == () else value
    except Exception:  # no array, a tensor without numbers, a value that JAX traces
        return value


def anything(value, _name):
    return value


def flag(value, name):
    plain = _plain(value, name)
    if not isinstance(plain, bool):
        raise wrong(value, name, "True or False")
    return plain


def whole(least=-MOST - 1, most=MOST, also=""):
    """An integer of any type but bool; `also` is what else a message says to be possible."""
    def kind(value, name):
        if type(value) is int and least <= value <= most:  # most are, and some lists are long
            return value
        plain = _plain(value, name)
        is_whole = isinstance(plain, numbers.Integral) and not isinstance(plain, bool)
        if is_whole and least <= plain <= most:
            return int(plain)
        if most < MOST or (is_whole and plain > most):
            limits = f", {least} to {most}"
        else:
            limits = f", {least} or more" if least > -MOST - 1 or is_whole else ""
        raise wrong(value, name, f"a whole number{limits}{also}")
    return kind


def number(value, name):
    """A finite one, as float."""
    plain = _plain(value, name)
    if isinstance(plain, numbers.Real) and not isinstance(plain, bool):
        try:
            if np.isfinite(made := float(plain)):
                return made
        except OverflowError:
            pass
    raise wrong(value, name, "a finite number")


def text(expected="a text"):
    def kind(value, name):
        if not isinstance(value, str):
            raise wrong(value, name, expected)
        return str(value)
    return kind


def choice(*names, expected=None):
    def kind(value, name):
        if not isinstance(value, str) or value not in names:
            raise wrong(value, name, expected or f"one of {', '.join(names)}")
        return str(value)
    return kind


def path(value, name):
    """A str or pathlib.Path as it is, bytes as str."""
    try:
        found = os.fsdecode(value)
    except TypeError:
        found = None
    if found is None or "\0" in found:
        raise wrong(value, name, "the path of a file")
    return found if isinstance(value, bytes) else value


def function(expected):
    def kind(value, name):
        if not callable(value):
            raise wrong(value, name, expected)
        return value
    return kind


def optional(kind):
    return lambda value, name: None if value is None else kind(value, name)


def either(first, is_first, second):
    """The first kind for values of which is_first(value) is true."""
    return lambda value, name: (first if is_first(value) else second)(value, name)


def listed(kind, expected, alone=lambda value: False, lengths=range(LIST_MOST)):
    """A tuple out of a list, a tuple, an array of one axis, or an iterator; a value that is `alone` stands for a list
    of itself."""
    def make(value, name):
        if alone(value):
            return (kind(value, name),)
        refuse_masked(value, name)
        try:
            entries = value.tolist() if hasattr(value, "tolist") else value
        except Exception:  # of tensors that are not in memory
            entries = None
        if not isinstance(entries, Iterable) or isinstance(entries, (str, bytes, Mapping)) or (
                isinstance(entries, Sized) and len(entries) not in lengths):
            raise wrong(value, name, expected)
        entries = list(entries)
        try:
            made = tuple([kind(entry, name) for entry in entries])
        except AnnulusError:
            made = tuple(kind(entry, f"{name}[{i}]") for i, entry in enumerate(entries))  # says which
        if len(made) not in lengths:
            raise wrong(value, name, expected)
        return made
    return make


def is_text(value):
    return isinstance(value, str)


def is_path(value):
    return isinstance(value, (str, bytes, os.PathLike))


paths = listed(path, "a path, or a list of paths", alone=is_path, lengths=range(1, LIST_MOST))


def dictionary(value, name):
    if not isinstance(value, Mapping):
        raise wrong(value, name, "a dictionary")
    return dict(value)


def texts(value, name):
    """A dictionary of texts."""
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for pair in value.items() for one in pair):
        raise wrong(value, name, "a dictionary from names to names")
    return dict(value)


def array(expected="an array of numbers", kinds="fiu"):
    """A NumPy array of numbers; kinds "iu": of whole ones."""
    def kind(value, name):
        refuse_masked(value, name)
        try:
            made = np.asarray(value)
        except Exception:  # ragged lists, tensors on a device or with gradients
            made = None
        if made is None or made.dtype.kind not in kinds:
            raise wrong(value, name, expected)
        return made
    return kind


def instance(module, kind, expected):
    """Of a class of another library, which is not imported for it: where there is such a value it has been."""
    def take(value, name):
        there = sys.modules.get(module)
        if there is None or not isinstance(value, getattr(there, kind)):
            raise wrong(value, name, expected)
        return value
    return take


index = optional(whole())  # whether there is such an entry is said by those who know how many there are
dataset = instance("xarray", "Dataset", "a result, which annulus.open_result() opens")
