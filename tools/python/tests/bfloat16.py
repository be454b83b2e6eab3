"""Reads bfloat16 datasets with h5py alone, to compare with what the package reads."""
import h5py
import numpy as np


def is_bfloat16(dataset):
    kind = dataset.id.get_type()
    return isinstance(kind, h5py.h5t.TypeFloatID) and kind.get_size() == 2 and kind.get_ebias() == 127


def bits(dataset):
    """The numbers as uint16: the upper halves of the float32 numbers to which HDF5 converts the dataset."""
    words = dataset[...].astype(np.float32).view(np.uint32)
    assert not (words & 0xffff).any()
    return (words >> 16).astype(np.uint16)
