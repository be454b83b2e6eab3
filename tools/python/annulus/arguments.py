"""Checks arguments of the package's functions, by type and range, in one place.

    @checked(path=path, rows=whole(1), causal=flag)
    def look(path, rows=8, causal=False): ...

    look("a.h5", rows=2.5)   AnnulusError: rows is 2.5, expected a whole number, 1 or more
    look("a.h5", row=2)      AnnulusError: look: got an unexpected keyword argument 'row', expected path, rows, causal

A kind is a function of a value and the argument's name. It returns the value in the type that the checked function
needs (a numpy.int64 as an int), or raises AnnulusError. Every parameter must have a kind; `anything` is the kind of a
parameter that the checked function checks itself.
"""
import contextlib
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
LIST_MOST = 2**31  # the largest length of a list; without a limit, making a tuple of range(10**12) would take hours
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def checked(called=None, /, around_checks=None, more=(), unlisted=(), **kinds):
    """A decorator that checks the arguments of a function with these kinds. It does not check defaults. `called` is
    the name of the function in messages, if users know it by another name than its own. If around_checks is given, the
    checks are made inside around_checks({name: value} of what the caller gave), a context manager. If the function has
    **words, their names must be in `more` or `unlisted`. The function itself refuses the names in `unlisted`, and
    messages do not offer them."""
    def around(function):
        signature = inspect.signature(function)
        names = [name for name, one in signature.parameters.items()
                 if one.kind not in _VARIADIC and name not in ("self", "cls")]
        if set(names) != set(kinds):
            raise TypeError(f"{function.__qualname__}: kinds of {sorted(kinds)}, parameters {sorted(names)}")
        listed_names = [*names, *(name for name in more if name not in (*names, *unlisted))]

        @functools.wraps(function)
        def call(*given, **words):
            with around_checks(dict(zip(names, given)) | words) if around_checks else contextlib.nullcontext():
                try:
                    bound = signature.bind(*given, **words)
                    for name in words:
                        if name not in listed_names and name not in unlisted:
                            raise TypeError(f"got an unexpected keyword argument {name!r}")
                except TypeError as problem:
                    raise AnnulusError(f"{called or function.__name__}: {one_line(problem)}, expected "
                                       f"{', '.join(listed_names) or 'no arguments'}") from None
                for name, value in bound.arguments.items():
                    if name in kinds:
                        bound.arguments[name] = kinds[name](value, name)
            return function(*bound.args, **bound.kwargs)

        return call

    return around


def shown(value):
    """A value as messages show it: for an array its type and shape, for a long value a shortened text."""
    try:
        if shape := getattr(value, "shape", ()):
            return f"a {type(value).__name__} {tuple(shape)}"
        return " ".join(_short.repr(value).split())
    except Exception:  # another library's __repr__ fails, or a number has more digits than Python prints
        return f"a {type(value).__name__}"


def wrong(value, name, expected):
    return AnnulusError(f"{name} is {shown(value)}, expected {expected}")


def refuse_masked(value, name):
    """Raises AnnulusError if an array has masked entries, because the hidden numbers would be used like the others."""
    if isinstance(value, np.ma.MaskedArray) and (count := np.ma.count_masked(value)):
        raise AnnulusError(f"{name} has {count} masked entries of {value.size}, expected an array without a mask "
                           "(.filled(...) makes one)")


def refuse_gradients(value, name, expected):
    """Raises AnnulusError for a tensor of PyTorch that requires gradients, because the gradients would be lost. Under
    torch.no_grad() such tensors are allowed."""
    if getattr(value, "requires_grad", False) is True and sys.modules["torch"].is_grad_enabled():
        raise AnnulusError(f"{name} requires gradients, which it does not have here; expected {expected}")


def _symbols():
    """PyTorch's types that stand for an int, a float or a bool while PyTorch traces a function."""
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.SymInt, torch.SymFloat, torch.SymBool)


def _plain(value, name):
    """Returns the number in an array without axes; any other value unchanged."""
    refuse_masked(value, name)
    refuse_gradients(value, name, "a number, or .item()")
    if isinstance(value, symbols := _symbols()):  # torch.compile then compiles anew for each number
        return (int, float, bool)[symbols.index(type(value))](value)
    try:
        return value.item() if value.shape == () else value
    except Exception:  # no array, or one that has no numbers (device `meta`, traced by JAX)
        return value


def as_array(value):
    """np.asarray(value). A tensor of floats becomes float64, because NumPy has no bfloat16, and reads no memory in
    which PyTorch keeps numbers with the other sign."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().cpu().double().resolve_neg().numpy()
    return np.asarray(value)


def anything(value, _name):
    return value


def flag(value, name):
    plain = _plain(value, name)
    if not isinstance(plain, bool):
        raise wrong(value, name, "True or False")
    return plain


def whole(least=-MOST - 1, most=MOST, also=""):
    """A whole number of any type but bool. The message ends with `also`, which says what else is possible."""
    def kind(value, name):
        if type(value) is int and least <= value <= most:  # fast path: most values are ints, and some lists are long
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
    """A finite number, as float."""
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
    """A str or pathlib.Path unchanged, bytes as str."""
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
    """A kind: `first` if is_first(value) is true, otherwise `second`."""
    return lambda value, name: (first if is_first(value) else second)(value, name)


def listed(kind, expected, alone=lambda value: False, lengths=range(LIST_MOST), ordered=True):
    """A kind: a tuple, made from a list, a tuple, an array of one axis or an iterator; if `ordered` is false, also from
    a set. A value for which alone(value) is true counts as a list with this one entry."""
    def make(value, name):
        if alone(value):
            return (kind(value, name),)
        refuse_masked(value, name)
        refuse_gradients(value, name, "numbers, or .tolist()")
        try:
            entries = value.tolist() if hasattr(value, "tolist") else value
        except Exception:  # a tensor whose numbers are not in memory
            entries = None
        if not isinstance(entries, Iterable) or isinstance(entries, (str, bytes, Mapping)) or (
                ordered and isinstance(entries, (set, frozenset))) or (
                isinstance(entries, Sized) and len(entries) not in lengths):
            raise wrong(value, name, expected)
        entries = list(entries)
        try:
            made = tuple([kind(entry, name) for entry in entries])
        except AnnulusError:
            made = tuple(kind(entry, f"{name}[{i}]") for i, entry in enumerate(entries))  # to name the wrong entry
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
    """A dictionary from texts to texts."""
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for pair in value.items() for one in pair):
        raise wrong(value, name, "a dictionary from names to names")
    return dict(value)


def array(expected="an array of numbers", kinds="fiu"):
    """A NumPy array of numbers; with kinds="iu": of whole numbers."""
    def kind(value, name):
        refuse_masked(value, name)
        refuse_gradients(value, name, "numbers, or .detach()")
        try:
            made = as_array(value)
        except Exception:  # lists of unequal lengths; tensors whose numbers are not in memory
            made = None
        if made is None or made.dtype.kind not in kinds:
            raise wrong(value, name, expected)
        return made
    return kind


def instance(module, kind, expected):
    """An object of another library's class. The library is not imported here, because such an object exists only
    if the program has imported the library."""
    def take(value, name):
        there = sys.modules.get(module)
        if there is None or not isinstance(value, getattr(there, kind)):
            raise wrong(value, name, expected)
        return value
    return take


index = optional(whole())  # the checked function itself finds out later whether this entry exists
dataset = instance("xarray", "Dataset", "a result, which annulus.open_result() opens")
