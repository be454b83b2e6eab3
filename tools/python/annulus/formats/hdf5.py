"""HDF5, as annulus reads and writes it. From a result, only the tensors are read, not the measurements."""
import contextlib
import functools

import h5py

from annulus import hdf5, tensors


def note(path, specs):
    return None


def _tensor(path, name, dataset):
    where = f"{path}: dataset {name}"

    @functools.cache  # runs once, before the first piece, and only for tensors that are wanted
    def check():
        with hdf5.understood(path):
            hdf5.check_written(dataset, where)

    def read(index):
        check()
        return hdf5.read(dataset, index)

    return tensors.Tensor(where, dataset.shape, hdf5.element_of(dataset), read, hdf5.axes_of(dataset))


@contextlib.contextmanager
def reading(path):
    with hdf5.opened(path) as file:
        with hdf5.understood(path):
            of_a_run = hdf5.is_dataset(file, "run/settings")
            found = {name: _tensor(path, name, dataset) for name, dataset in hdf5.datasets(file).items()
                     if not (of_a_run and name.startswith("run/"))}
        yield found


@contextlib.contextmanager
def writing(path, specs):
    with h5py.File(path, "w") as file:
        made = {}
        for spec in specs:
            made[spec.name] = hdf5.create(file, spec.name, spec.shape, spec.element)
            if spec.axes:
                made[spec.name].attrs["axes"] = " ".join(spec.axes)
        yield lambda name, index, piece: hdf5.write(made[name], index, piece)
