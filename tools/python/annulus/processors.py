"""Threads that compute, and the processors on which they run."""
from annulus.arguments import checked, optional, whole

MOST = 2**31 - 1  # a C int
THREADS = optional(whole(1, MOST))


def thread_arguments(threads=None, suggested=0):
    """The arguments about threads for a call of the core: the user's number (0: none given) and PyTorch's number."""
    from annulus import calls
    if threads is not None:
        calls._core.check_threads(threads)
    return {"threads": threads or 0, "suggested": suggested}


@checked(count=whole(1, MOST))
def set_threads(count):
    """Sets the number of threads for calls without threads=. The first call that computes starts the threads; from then
    on the number can only be lowered.

    Default: in annulus.torch torch.get_num_threads(); otherwise OMP_NUM_THREADS; otherwise the processors that this
    process may use: the OpenMP runtime's places (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), otherwise the affinity
    of the calling thread.
    """
    from annulus import calls
    calls._core.set_threads(count)


@checked()
def threads():
    """The number of threads for a call without threads=."""
    return info()["threads"]


@checked()
def info():
    """What the compiled part is and what it uses, as a dict.

    description: version, Kokkos, instruction set and MPI in one line
    threads, threads_from: number of threads for a call without threads=, and what decided that
    processors, processors_from: the processors on which they run, by number, and what decided that
    """
    from annulus import calls
    return {"description": description(), **calls._core.info()}


@checked()
def description():
    """Version, Kokkos, instruction set and MPI of the compiled part, in one line."""
    from annulus import calls
    return calls._core.description()
