"""HDF5 as annulus writes it: 16-bit floats with an exponent of 8 bits are bfloat16, and axes have names."""
import contextlib
import itertools
import math
import os
import re

import h5py
import numpy as np

from annulus import elements, packing
from annulus.errors import AnnulusError, one_line

NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


def opened(path):
    """Opens a file; the caller closes it. Raises AnnulusError for anything but a readable HDF5 file."""
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise AnnulusError(f"{path}: there is no such file{_unfinished(path)}") from None
    except IsADirectoryError:
        raise AnnulusError(f"{path}: is a folder; expected an HDF5 file") from None
    except PermissionError:
        raise AnnulusError(f"{path}: may not be read (permission denied)") from None
    except (OSError, RuntimeError, KeyError) as problem:
        text = str(problem)
        if "signature" in text or "truncated" in text:
            raise AnnulusError(f"{path}: is no complete HDF5 file; expected one written by annulus or h5py") from None
        if "already open for" in text:  # a mark in files of newer formats of HDF5
            raise AnnulusError(f"{path}: another process has it open for writing, or ended without closing it "
                               "(`h5clear -s` takes its mark off); expected a closed file") from None
        if "unable to lock" in text:
            raise AnnulusError(f"{path}: another process has it open for writing; expected a closed file") from None
        raise AnnulusError(f"{path}: cannot be opened as an HDF5 file ({one_line(problem)})") from None


def _unfinished(path):
    """What an unfinished run has left next to a missing file, as a part of the message about this file."""
    if os.path.isdir(f"{path}.part"):
        return f" yet, but {path}.part: `annulus bench` makes the table when a launch ends; run it again if none is running"
    if os.path.exists(f"{path}.part"):
        return f" yet, but {path}.part: the run that makes it has not ended, or was killed"
    return ""


@contextlib.contextmanager
def understood(path):
    """A context for blocks that read a file; turns HDF5's errors for a damaged file into AnnulusError."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as problem:
        raise AnnulusError(f"{path}: is damaged, or not as annulus writes it ({one_line(problem)}); "
                           "expected a whole file of annulus") from None


@contextlib.contextmanager
def reading(path):
    """opened() and understood() in one context, for a block that only reads the file; closes the file."""
    with opened(path) as file, understood(path):
        yield file


def identity(file):
    """A value that changes when the file changes, or when another file gets this file's name."""
    found = os.fstat(file.id.get_vfd_handle())
    return found.st_ino, found.st_size, found.st_mtime_ns


def bfloat16_type():
    """HDF5's description of bfloat16: sign bit at 15, 8 exponent bits at 7 with bias 127, 7 mantissa bits at 0."""
    made = h5py.h5t.IEEE_F32LE.copy()
    made.set_fields(15, 7, 8, 0, 7)
    made.set_size(2)
    made.set_ebias(127)
    return made


def element_of(dataset):
    """Element type of a dataset's numbers; None for a dataset of texts or structures."""
    kind = dataset.id.get_type()
    if isinstance(kind, h5py.h5t.TypeFloatID) and kind.get_size() == 2 and kind.get_fields()[2] == 8:
        return elements.BFLOAT16
    return elements.of_dtype(dataset.dtype) if dataset.dtype.kind in "fiu" else None


def read(dataset, index):
    """The numbers at a tuple of slices (one per axis, steps above 0), bfloat16 as bits.

    Numbers are read in their stored type, because HDF5 would convert bfloat16 slowly, one by one. Raises AnnulusError
    if attributes of the dataset say that its numbers must be scaled, or that some are missing (annulus.packing).
    """
    where = f"{dataset.file.filename}: dataset {dataset.name}"
    with understood(dataset.file.filename):
        packing.refuse_packed(where, dataset.attrs)
    element = element_of(dataset)
    extents = [range(*part.indices(length)) for part, length in zip(index, dataset.shape)]
    if any(len(extent) == 0 for extent in extents):
        return np.empty([len(extent) for extent in extents], element.storage)
    there = dataset.id.get_space()
    if extents:
        there.select_hyperslab(tuple(extent.start for extent in extents), tuple(len(extent) for extent in extents),
                               tuple(extent.step for extent in extents))
    kind = dataset.id.get_type() if element.name == "bfloat16" else h5py.h5t.py_create(element.storage)
    try:
        numbers = np.empty([len(extent) for extent in extents], element.storage)
        here = h5py.h5s.create_simple(numbers.shape) if extents else h5py.h5s.create(h5py.h5s.SCALAR)
        dataset.id.read(here, there, numbers, mtype=kind)
    except (OSError, RuntimeError, ValueError) as problem:
        raise AnnulusError(f"{where} cannot be read ({one_line(problem)}); a compressed one may need a filter plugin, "
                           "which HDF5_PLUGIN_PATH names") from None
    with understood(dataset.file.filename):
        packing.refuse_missing(where, dataset.attrs, numbers, element)
        if _fill(dataset) == packing.NETCDF_FILL:
            packing.refuse_netcdf_fill(where, numbers, element)
    return numbers


def _fill(dataset):
    """What HDF5 returns in place of a number that was never written; None if HDF5 leaves memory as it was."""
    made = dataset.id.get_create_plist()
    if made.fill_value_defined() == h5py.h5d.FILL_VALUE_UNDEFINED or made.get_fill_time() == h5py.h5d.FILL_TIME_NEVER:
        return None
    return float(dataset.fillvalue) if dataset.dtype.kind in "fiu" else 0


def check_written(dataset, where, above=()):
    """Raises AnnulusError, which begins with `where`, if HDF5 would return fill values for numbers of the dataset or of
    its sources, because the numbers were never written, or a file that should have them is missing. If only some chunks
    are missing, or a virtual dataset has no source for some numbers, this is a warning if the fill value is 0. In a
    source (`above` is then not empty) such gaps are always warnings, because the virtual dataset may not use them. The
    program follows the same rules, but knows which rows exist."""
    if dataset.size == 0:
        return
    made = dataset.id.get_create_plist()
    if made.get_layout() == h5py.h5d.VIRTUAL:
        _check_sources(dataset, where, above)
        lacks, total = dataset.size - _mapped(dataset, made), dataset.size
        if lacks > 0:
            packing.report_gaps(f"{where} has no source for {lacks} of its {total} numbers", _fill(dataset), bool(above))
    elif made.get_external_count():
        _check_raw(dataset, made, where)
    elif made.get_layout() != h5py.h5d.COMPACT and dataset.id.get_storage_size() == 0:
        raise AnnulusError(f"{where} was never written; expected a dataset with numbers")
    elif dataset.chunks:
        total = math.prod(-(-extent // chunk) for extent, chunk in zip(dataset.shape, dataset.chunks))
        if (lacks := total - dataset.id.get_num_chunks()) > 0:
            packing.report_gaps(f"{where} lacks {lacks} of its {total} chunks (never written)", _fill(dataset), bool(above))


def _check_raw(dataset, made, where):
    prefix, left = os.fsdecode(dataset.id.get_access_plist().get_efile_prefix()), dataset.id.get_storage_size()
    for i in range(made.get_external_count()):
        name, begin, size = made.get_external(i)
        used = min(size, left)
        left -= used
        place = os.path.join(prefix, os.fsdecode(name))
        if used and not os.path.isfile(place):
            raise AnnulusError(f"{where}: its numbers are in {place}, which does not exist; expected this file")
        if used and os.path.getsize(place) < begin + used:
            raise AnnulusError(f"{where}: its numbers are in {place}, which has {os.path.getsize(place)} bytes; expected "
                               f"at least {begin + used}")


def _mapped(dataset, made):
    """How many numbers of a virtual dataset have a source; if h5py cannot tell, all of them."""
    parts = []
    for i in range(made.get_virtual_count()):
        part = made.get_virtual_vspace(i)
        if part.get_select_type() in (h5py.h5s.SEL_ALL, h5py.h5s.SEL_POINTS):
            return dataset.size
        if part.get_select_npoints() in (-1, h5py.h5s.UNLIMITED):  # it counts only inside the extents
            start, stride, count, block = part.get_regular_hyperslab()
            part = h5py.h5s.create_simple(dataset.shape)
            part.select_hyperslab((0,) * dataset.ndim, (1,) * dataset.ndim, block=dataset.shape)
            part.select_hyperslab(start, count, stride, block, op=h5py.h5s.SELECT_AND)
        if part.get_select_type() == h5py.h5s.SEL_HYPERSLABS:
            parts.append(part)
    if len(parts) > 1 and not hasattr(parts[0], "modify_select"):  # h5py has it from 3.16 on
        return dataset.size
    while len(parts) > 1:  # joins pairs, because one after another 10,000 parts take seconds
        for one, other in zip(parts[::2], parts[1::2]):
            one.modify_select(other, h5py.h5s.SELECT_OR)
        parts = parts[::2]
    return parts[0].get_select_npoints() if parts else 0


def _name_of_block(pattern, block):
    """`pattern` with the block's number for %b, and % for %%, as HDF5 reads names of a virtual dataset's sources."""
    return re.sub("%([b%])", lambda found: str(block) if found[1] == "b" else "%", pattern)


def _source_file(named, holder, prefix):
    """The file that HDF5 finds for the name of a source; None if there is none."""
    if named == ".":
        return holder
    folders = [prefix] * bool(prefix) + [os.path.dirname(holder), "", os.path.dirname(os.path.realpath(holder))]
    last = os.path.basename(named) if os.path.isabs(named) else named
    places = [named] * os.path.isabs(named) + [os.path.join(folder, last) for folder in folders]
    return next(filter(os.path.isfile, places), None)


def _check_sources(dataset, where, above):
    holder = dataset.file.filename
    above = (*above, (os.path.realpath(holder), dataset.name))
    if len(above) > 64 or above[-1] in above[:-1]:
        raise AnnulusError(f"{where} is virtual, and made of itself or in more than 64 levels; expected other sources")
    prefix = os.fsdecode(dataset.id.get_access_plist().get_virtual_prefix())
    for files, names in {(one.file_name, one.dset_name) for one in dataset.virtual_sources()}:
        for block in itertools.count():
            named, name = _name_of_block(files, block), _name_of_block(names, block)
            place = _source_file(named, holder, prefix)
            with opened(place) if place else contextlib.nullcontext({}) as file:
                source = file.get(name)
                is_there = isinstance(source, h5py.Dataset)
                if not is_there and block > 0:
                    break  # HDF5 ends the virtual dataset before the first block that it does not find
                if not is_there:
                    raise AnnulusError(f"{where} is made of dataset {name} of {place or named}, which does not exist; "
                                       "expected all sources of a virtual dataset")
                check_written(source, f"{where} is made of dataset {name} of {place}, which", above)
            if (named, name) == (_name_of_block(files, block + 1), _name_of_block(names, block + 1)):
                break


def create(group, name, shape, element):
    """Makes a contiguous dataset of an element type; nothing is written yet."""
    kind = bfloat16_type() if element.name == "bfloat16" else h5py.h5t.py_create(element.storage)
    space = h5py.h5s.create_simple(tuple(shape)) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    return h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, lcpl=links))


def write(dataset, index, numbers):
    """Writes numbers of the dataset's element type (bfloat16: bits) to a tuple of slices."""
    numbers = np.ascontiguousarray(numbers)
    if numbers.size == 0:
        return
    there = dataset.id.get_space()
    if index:
        there.select_hyperslab(tuple(part.start for part in index), numbers.shape)
    here = h5py.h5s.create_simple(numbers.shape) if index else h5py.h5s.create(h5py.h5s.SCALAR)
    dataset.id.write(here, there, numbers, mtype=dataset.id.get_type())


def is_group(file, name):
    return isinstance(file.get(name), h5py.Group)


def is_dataset(file, name):
    return isinstance(file.get(name), h5py.Dataset)


def text(value):
    """An attribute's text, in whatever form h5py returns it; an array of texts becomes "batch, head"."""
    if found := texts(value):
        return ", ".join(found)
    return str(value.ravel()[0] if isinstance(value, np.ndarray) and value.size == 1 else value)


def texts(value):
    """The texts of an attribute: one or an array, of fixed or variable length. Empty if it holds no text."""
    found = [] if isinstance(value, h5py.Empty) else np.ravel(np.asarray(value, object)).tolist()
    if not all(isinstance(one, (str, bytes)) for one in found):
        return []
    return [one.partition(b"\0")[0].decode("utf-8", "replace") if isinstance(one, bytes) else one for one in found]


def one_text(dataset):
    """The text in a dataset with one entry. Raises ValueError for another size, as damaged files may claim any."""
    if dataset.size != 1 or dataset.dtype.itemsize > 1 << 24:
        raise ValueError(f"dataset {dataset.name} has shape {dataset.shape}, expected one text")
    return text(dataset[()])


def is_scale(dataset):
    return text(dataset.attrs.get("CLASS", "")) == "DIMENSION_SCALE"


def is_bare_scale(dataset):
    """A dimension scale that only names an axis and holds no numbers (netCDF's convention)."""
    return is_scale(dataset) and text(dataset.attrs.get("NAME", "")).encode().startswith(NO_VARIABLE)


def _scale_name(dimension):
    return (dimension[0].name or "").rpartition("/")[2] if len(dimension) > 0 else ""


def axes_of(dataset):
    """Names of a dataset's axes ("" for an axis without one), or None: from its attribute `axes`, its dimension labels,
    or its dimension scales. If the file names axes in several ways, the first of these counts.

    annulus writes ("batch", "sequence", "head", "dim"); other programs may use any of the three ways. axis_names() of
    the program (src/annulus/store/tensor_file.cpp) reads axis names by the same rules.
    """
    said = texts(dataset.attrs["axes"]) if "axes" in dataset.attrs else []
    # bytes.split() ends words at ASCII spaces, as the program does; str.split() knows more kinds of space.
    words = tuple(word.decode("utf-8", "replace") for one in said for word in one.encode("utf-8", "replace").split())
    if len(words) == dataset.ndim and words:
        return words
    for names in (tuple(dimension.label for dimension in dataset.dims), tuple(map(_scale_name, dataset.dims))):
        if any(names):
            return names
    return None


def datasets(file):
    """{path without the first slash: dataset} of all datasets of numbers with axes, dimension scales left out. Links of
    all kinds are followed, hard links first. Each group is entered only once, because links may make circles."""
    found, entered, links = {}, set(), []

    def take(member, path):
        if isinstance(member, h5py.Group):
            visit(member, f"{path}/")
        elif isinstance(member, h5py.Dataset) and member.ndim > 0 and not is_scale(member) and element_of(member):
            found[path] = member

    def visit(group, prefix):
        about = h5py.h5o.get_info(group.id)
        if (about.fileno, about.addr) in entered:
            return
        entered.add((about.fileno, about.addr))
        for name in group:
            if isinstance(group.get(name, getlink=True), h5py.HardLink):
                take(group[name], prefix + name)
            else:
                links.append((group, name, prefix + name))

    visit(file, "")
    for group, name, path in links:  # grows while links lead to further groups
        try:
            member = group.get(name)  # None: a link to nothing
        except (OSError, RuntimeError):  # links that lead to each other
            continue
        take(member, path)
    return found
