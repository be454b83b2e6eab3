"""Threads that compute, and the processors on which they run."""
import operator

from annulus.errors import AnnulusError

MOST = 2**31 - 1  # an int of C


def _count(name, count):
    try:
        found = operator.index(count)
    except TypeError:
        found = None
    if found is None or isinstance(count, bool) or not 1 <= found <= MOST:
        raise AnnulusError(f"{name}: {count!r} threads, expected 1 or more")
    return found


def of_call(threads=None, suggested=0):
    """What a call tells the core: the number that its argument asks for, or that its caller would like."""
    from annulus import calls
    if threads is not None:
        threads = _count("threads", threads)
        calls._core.check_threads(threads)
    return {"threads": threads or 0, "suggested": suggested}


def set_threads(count):
    """Threads that compute, unless a call says threads=; before the first call any number, later as many or fewer.

    Default: in annulus.torch torch.get_num_threads(), else OMP_NUM_THREADS, else the processors that this process may
    use: those of the OpenMP runtime's places (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), else of its affinity.
    """
    from annulus import calls
    calls._core.set_threads(_count("set_threads", count))


def threads():
    """Threads that compute, or will, where a call says nothing."""
    return info()["threads"]


def info():
    """What the compiled part is and what it uses, as a dict.

    description: version, Kokkos, instruction set and MPI in one line
    threads, threads_from: threads of a call that says nothing, and who decided that
    processors, processors_from: numbers of the processors on which they run, and who was asked
    """
    from annulus import calls
    return {"description": description(), **calls._core.info()}


def description():
    """Version, Kokkos, instruction set and MPI of the compiled part, in one line."""
    from annulus import calls
    return calls._core.description()
