"""Which ranks compute together: a communicator of mpi4py, a process group of PyTorch, or the name of one of these."""
import dataclasses
import functools
import itertools
import sys
import weakref

from annulus.arguments import shown
from annulus.errors import AnnulusError, one_line

EXPECTED = "an intracommunicator of mpi4py, a process group of torch.distributed, a name of one, or None"


@dataclasses.dataclass
class Known:
    """An attribute that we store in an mpi4py communicator, and that lives as long as the communicator."""
    core: object  # our duplicate of the communicator
    name: str     # the communicator's name in _named


_freed = set()  # names of communicators that have been freed
_named = {}  # {name: communicator of mpi4py}; PyTorch's operators take such a name, because they take no objects
_numbers = itertools.count()


def _mpi():
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as problem:  # mpi4py, or its MPI library, is not installed
        raise AnnulusError(f"comm: mpi4py cannot be used ({one_line(problem)}), expected an mpi4py that uses this "
                           "annulus's MPI (pip install mpi4py)") from None
    return MPI


@functools.cache
def _keyval():
    """The key of the attribute that stores Known in a communicator of mpi4py."""
    from annulus.calls import _core
    MPI = _mpi()
    if not _core.has_mpi:
        raise AnnulusError("comm: this annulus was built without MPI, expected None")
    check_library(_core, MPI)
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise AnnulusError("comm: MPI was started for one thread alone; expected mpi4py.rc.thread_level 'serialized' or "
                           "'multiple', its default")
    return MPI.Comm.Create_keyval(delete_fn=_forget)


def _forget(_comm, _keyval, known):
    """MPI calls this when a communicator is freed."""
    if _named.pop(known.name, None) is not None:
        _freed.add(known.name)


def check_library(core, theirs):
    """Raises unless our module and mpi4py use the same MPI library, because libraries share no communicators."""
    ours, other = core.mpi_library_of(core.__file__), core.mpi_library_of(theirs.__file__)
    if ours[0] != other[0]:
        raise AnnulusError(f"comm: mpi4py uses the MPI library {other[1]}, this annulus {ours[1]}; expected one library: "
                           "install mpi4py again with the mpicc of annulus's library (pip install --no-binary mpi4py mpi4py)")


def _is_group(comm):
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and isinstance(comm, distributed.ProcessGroup)


def _is_of_others(comm):
    """Whether `comm` is torch.distributed's value for a group that this process is not a member of."""
    distributed = sys.modules.get("torch.distributed")
    member = getattr(distributed, "GroupMember", None)
    return member is not None and comm is member.NON_GROUP_MEMBER


def mpi_of(comm):
    """The mpi4py communicator for `comm`, which is an mpi4py communicator, a process group or a name. None for None.
    For a process group the first call is collective."""
    if comm is None:
        return None
    if isinstance(comm, str):
        if comm in _freed:
            raise AnnulusError(f"comm is {shown(comm)}, whose communicator has been freed, expected one that exists until the "
                               "backward pass has ended")
        if comm not in _named:
            raise AnnulusError(f"comm is {shown(comm)}, expected a name that annulus.torch.communicator_name() has given")
        return _named[comm]
    if _is_group(comm):
        return _of_group(comm)
    if "mpi4py" in sys.modules and isinstance(comm, _mpi().Intracomm):
        if comm == _mpi().COMM_NULL:
            raise AnnulusError("comm is a communicator that has been freed, expected one that has not been freed")
        return comm
    if _is_of_others(comm):
        raise AnnulusError("comm: this process is no member of the process group, expected that only its members call")
    raise AnnulusError(f"comm is a {type(comm).__name__}, expected {EXPECTED}")


def _duplicate(comm):
    from annulus.calls import _core
    return _core.communicator_at(_mpi()._addressof(comm))


def _known(comm, name=None):
    known = comm.Get_attr(_keyval())
    if known is None:
        name = name or f"communicator {next(_numbers)}"
        taken = comm.allgather(name if name in _named else None)  # all raise if one must, so that none waits
        if any(taken):
            rank = next(i for i, one in enumerate(taken) if one)
            where = "" if all(taken) else f" on rank {rank}"
            raise AnnulusError(f"name is {taken[rank]!r}, which is another communicator's{where}; expected a new name")
        _freed.discard(name)
        known = Known(_duplicate(comm), name)
        comm.Set_attr(_keyval(), known)
        _named[known.name] = comm
    return known


@functools.cache
def _alone():
    from annulus.calls import _core
    return _core.Communicator()


def gathered(comm, said):
    """Returns what each rank of an mpi4py communicator says. If an exception ended an earlier call on one rank,
    messages of that call may still arrive in our duplicate. All ranks learn of the exception here, and make a new
    duplicate, also the ranks on which that call ended well."""
    known = _known(comm)
    all_said, interrupted = zip(*comm.allgather((said, known.core.is_interrupted)))
    if any(interrupted):
        known.core.interrupt()  # then this rank never frees the old duplicate, because not all ranks would
        known.core = _duplicate(comm)
    return all_said


def core_communicator(comm):
    """Our duplicate of the communicator mpi_of(comm); the first call for a communicator is collective."""
    comm = mpi_of(comm)
    return _alone() if comm is None else _known(comm).core


def name_of(comm, name=None):
    """The name by which mpi_of() finds `comm`; None for None. The first call for a communicator is collective."""
    found = mpi_of(comm)
    if found is None:
        return None
    known = _known(found, name)
    if name is not None and known.name != name:
        raise AnnulusError(f"name is {name!r}, expected {known.name!r}: the communicator has it already")
    return known.name


_of_groups = weakref.WeakKeyDictionary()


def _of_group(group):
    """The MPI communicator of a process group's ranks, in the group's order. Each process has a rank in MPI_COMM_WORLD,
    and sends it to the others through the group. The communicator is made once and stays until MPI ends, because
    freeing it is collective, and each rank's Python may forget the group at another time."""
    if group in _of_groups:
        return _of_groups[group]
    import torch.distributed as distributed
    try:
        world = _mpi().COMM_WORLD
        _keyval()
        mine = (None, world.rank, world.size)
    except AnnulusError as problem:
        mine = (str(problem), 0, 0)
    gathered = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(gathered, mine, group=group)
    for rank, (problem, _, _) in enumerate(gathered):
        if problem:
            raise AnnulusError(f"rank {rank} of the process group: {problem}")
    ranks = [rank for _, rank, _ in gathered]
    if len(set(ranks)) < len(ranks) or len({size for _, _, size in gathered}) > 1:
        raise AnnulusError(f"comm: no MPI joins the {len(gathered)} ranks of the process group (torchrun starts ranks without "
                           f"one); expected ranks that mpirun or srun has started: mpirun -n {len(gathered)} python ...")
    members = world.Get_group().Incl(ranks)
    _of_groups[group] = world.Create_group(members)
    members.Free()
    return _of_groups[group]
