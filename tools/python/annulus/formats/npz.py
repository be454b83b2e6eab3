"""Archives of numpy arrays. New archives are written uncompressed, piece after piece. A compressed member is unpacked
to a temporary file, and read from there."""
import contextlib
import struct
import tempfile
import zipfile

import numpy as np

from annulus import elements
from annulus.errors import AnnulusError, one_line
from annulus.formats import npy

LOCAL_HEADER = 30  # bytes before a member's name and extra field; byte 26 begins their lengths


def note(path, specs):
    return npy.bfloat16_note(specs)


def _mapped(path, member):
    """The array of an uncompressed member, mapped from the archive itself."""
    with open(path, "rb") as file:
        file.seek(member.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        file.seek(member.header_offset + LOCAL_HEADER + name + extra)
        return _map_array(file, path)


def _map_array(file, path):
    """The array that begins at the position of `file`, mapped from `path`, which is a path or an open file."""
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("Python objects, not numbers")
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def _unpacked(archive, member, stack):
    """The array of a compressed member, unpacked to a temporary file that has no name, so that none is left."""
    aside = stack.enter_context(tempfile.TemporaryFile())
    with archive.open(member) as packed:
        while block := packed.read(1 << 24):
            aside.write(block)
    aside.seek(0)
    return _map_array(aside, aside)


@contextlib.contextmanager
def reading(path):
    with contextlib.ExitStack() as stack:
        found = {}
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            for member in archive.infolist():
                if not member.filename.endswith(".npy"):
                    continue
                name = member.filename[:-len(".npy")]
                plain = member.compress_type == zipfile.ZIP_STORED
                array = _mapped(path, member) if plain else _unpacked(archive, member, stack)
                if elements.of_dtype(array.dtype) is not None:  # texts and masks of bool are no tensors of numbers
                    found[name] = npy.tensor_of(f"{path}: {name}", array)
        except npy.DAMAGED as problem:
            raise AnnulusError(f"{path}: is no .npz file of numbers ({one_line(problem)}); "
                               "expected what numpy.savez writes") from None
        yield found


@contextlib.contextmanager
def writing(path, specs):
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(path, "w", zipfile.ZIP_STORED))
        specs = {spec.name: spec for spec in specs}
        state = {"name": None, "member": None}
        missing = dict.fromkeys(specs)

        def member_of(name):
            """The open member for that tensor; a tensor's first piece closes the previous tensor's member."""
            if state["name"] != name:
                close()
                state["member"] = archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)
                state["name"] = name
                missing.pop(name)
                npy.header(state["member"], specs[name])
            return state["member"]

        def close():
            if state["member"] is not None:
                state["member"].close()

        stack.callback(close)
        yield lambda name, index, piece: npy.write_piece(member_of(name), specs[name], piece)
        for name in list(missing):  # tensors without numbers have no pieces
            member_of(name)
