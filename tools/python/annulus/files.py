"""Writes files so that they appear under their name complete, or not at all."""
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from annulus.errors import AnnulusError


def refuse_existing(target):
    if os.path.lexists(os.path.realpath(target)):
        raise AnnulusError(f"{target}: exists already; say --overwrite (overwrite=True) to replace it")


@contextlib.contextmanager
def new_path(target, overwrite=False):
    """Yields a path for a new file or folder, which the block makes, and which gets the name `target` after the block.

    If `target` is a link, the file that the link names is made or replaced, as `annulus` does. If the block raises, the
    new file is removed and `target` stays as it was. Raises AnnulusError if the folder of `target` cannot be written
    to, or if `target` exists and `overwrite` is false (checked before and after the block).
    """
    target = Path(os.path.realpath(target) if os.path.islink(target) else target)
    if not overwrite:
        refuse_existing(target)
    if target.is_dir() and not (target / "zarr.json").exists() and not (target / ".zgroup").exists():
        raise AnnulusError(f"{target}: is a folder; expected the name of a file to make")
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.tmp-", dir=target.parent))
    except OSError as problem:
        raise AnnulusError(f"{target.parent}: {problem.strerror}; expected a folder that can be written to") from None
    try:
        made = folder / target.name
        yield made
        _flush(made)
        _publish(made, target, overwrite)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _flush(path):
    """Writes a file's data to the disk before the file gets its name, so that the name never means part of a file."""
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())


def _publish(made, target, overwrite):
    if overwrite and os.path.lexists(target) and (target.is_dir() or made.is_dir()):
        os.rename(target, made.with_name("replaced"))  # into the temporary folder, which new_path() removes
    if overwrite or made.is_dir():  # rename() replaces no folder with content
        try:
            os.rename(made, target)
        except OSError:
            refuse_existing(target)
            raise
        return
    try:
        os.link(made, target)  # unlike rename, this fails if another process has made the file meanwhile
    except FileExistsError:
        refuse_existing(target)
    except OSError:  # a file system without hard links
        refuse_existing(target)
        os.rename(made, target)
