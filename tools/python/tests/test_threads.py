"""Threads of annulus: how many, on which processors, and what happens to them when Python ends or calls back."""
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

BINDINGS = [{"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}, {"OMP_PROC_BIND": "true"}, {"OMP_PLACES": "threads"},
            {"GOMP_CPU_AFFINITY": " ".join(map(str, sorted(os.sched_getaffinity(0))))}]


def python(text, processors=None, **environment):
    """Runs Python on these processors only and returns what it printed. It must end with status 0."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run([sys.executable, "-P", "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=600,
                          env=kept | environment,
                          preexec_fn=(lambda: os.sched_setaffinity(0, processors)) if processors else None)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# Prints how many threads and which processors annulus says that it uses, and the processors of the threads that have
# started since the import of annulus.
COMPUTE = """
    import os
    {first}
    before = set(os.listdir("/proc/self/task"))
    import annulus, numpy as np
    x = np.ones((1, 64, 2, 8), "f4")
    annulus.attention(x, x, x)
    def processors(task):
        return os.sched_getaffinity(int(task))
    names = {{task: open(f"/proc/self/task/{{task}}/comm").read() for task in os.listdir("/proc/self/task")}}
    ours = [task for task in names if task not in before]
    said = annulus.info()
    print(said["threads"], said["threads_from"])
    print(said["processors"], said["processors_from"])
    print(sorted(set().union(*map(processors, ours))))
"""


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: " ".join(f"{k}={v}" for k, v in binding.items()))
@pytest.mark.parametrize("first", ["", "import torch"])
def test_a_pinned_python_computes_on_all_processors_of_the_process(binding, first):
    mine = sorted(os.sched_getaffinity(0))
    threads, processors, on = python(COMPUTE.format(first=first), **binding).splitlines()
    assert threads == f"{len(mine)} the processors"
    assert processors.startswith(f"{mine} the places of libgomp")
    assert on == str(mine)


def test_without_places_the_affinity_is_asked():
    mine = sorted(os.sched_getaffinity(0))
    said = python(COMPUTE.format(first="")).splitlines()
    assert said == [f"{len(mine)} the processors", f"{mine} the affinity of the calling thread", str(mine)]


@pytest.mark.parametrize("binding", [{}, {"OMP_PROC_BIND": "close"}, {"OMP_PLACES": "{0}:64"}])
def test_never_more_than_the_share_of_the_process(binding):
    share = max(os.sched_getaffinity(0))
    said = python(COMPUTE.format(first=""), {share}, **binding).splitlines()
    assert said[0] == "1 the processors" and said[1].startswith(f"[{share}] ") and said[2] == f"[{share}]"


def test_the_order_of_those_who_say_a_number():
    assert python("import annulus; print(annulus.threads(), annulus.info()['threads_from'])", OMP_NUM_THREADS="3") == \
        "3 OMP_NUM_THREADS\n"
    said = python("""
        import annulus
        annulus.set_threads(5)
        print(annulus.threads(), annulus.info()["threads_from"], annulus.info()["description"].split()[0])
        for count in (2.5, 0, True, "2", 2**40):
            try:
                annulus.set_threads(count)
            except annulus.AnnulusError as error:
                print(error)
        """, OMP_NUM_THREADS="3")
    assert said.splitlines() == ["5 annulus.set_threads annulus"] + [
        f"count is {count}, expected a whole number, 1 to 2147483647" for count in ("2.5", "0", "True", "'2'", 2**40)]


def test_more_threads_than_kokkos_starts():
    said = python("""
        import annulus, numpy as np
        try:
            annulus.set_threads(600)
        except annulus.AnnulusError as error:
            print(error)
        x = np.ones((1, 64, 2, 8), "f4")
        print(annulus.attention(x, x, x)[0].max(), annulus.threads())
        """, OMP_NUM_THREADS="600")
    assert said.splitlines() == ["set_threads: 600 threads, expected 1 to 512", "1.0 512"]


def test_a_thread_that_could_not_start_is_started_by_the_next_call():
    said = python("""
        import annulus, numpy as np, resource
        x = np.ones((1, 64, 2, 8), "f4")
        try:
            annulus.attention(x, x, x, strategy="nothing")  # loads what is loaded late
        except annulus.AnnulusError:
            pass
        before = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**22, before[1]))  # no room for a stack
        try:
            annulus.attention(x, x, x)
        except annulus.AnnulusError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_AS, before)
        print(annulus.attention(x, x, x)[0].max())
        """)
    assert said.splitlines()[0].startswith("the thread that computes cannot be started: ")
    assert said.splitlines()[1:] == ["1.0"]


def test_a_progress_function_that_computes_is_refused():
    said = python("""
        import annulus, numpy as np
        x = np.ones((1, 64, 2, 8), "f4")
        for inside in (annulus.attention, annulus.reference):
            try:
                annulus.attention(x, x, x, progress=lambda share, where: inside(x, x, x))
            except annulus.AnnulusError as error:
                print(error)
        print(annulus.attention(x, x, x, progress=lambda share, where: annulus.threads())[0].max())
        """)
    text = "progress: it calls annulus, which goes on when progress returns; expected a function that computes nothing with annulus"
    assert said.splitlines() == [text, text, "1.0"]


WORK = {"attention": "annulus.attention(x, x, x)",
        "reference": "annulus.reference(x[:, :20000], x[:, :20000], x[:, :20000])",
        "progress": "annulus.attention(x, x, x, progress=lambda share, where: time.sleep(0.01))"}


@pytest.mark.parametrize("work", WORK)
def test_python_may_end_while_a_daemon_thread_computes(work):
    """Two daemon threads: one computes for minutes, the other waits until that call ends."""
    assert python(f"""
        import annulus, numpy as np, threading, time
        x = np.zeros((1, 400_000, 4, 64), "f4")
        for _ in range(2):
            threading.Thread(target=lambda: {WORK[work]}, daemon=True).start()
        time.sleep(1)
        print("ends")
        """, OMP_NUM_THREADS="1") == "ends\n"


def test_python_may_end_between_two_calls_of_daemon_threads():
    for _ in range(5):
        assert python("""
            import annulus, numpy as np, threading, time
            x = np.zeros((1, 64, 4, 64), "f4")
            def work():
                while True:
                    annulus.attention(x, x, x)
            for _ in range(3):
                threading.Thread(target=work, daemon=True).start()
            time.sleep(0.3)
            print("ends")
            """, OMP_NUM_THREADS="1") == "ends\n"


def test_what_runs_later_in_the_end_is_told_that_nothing_is_computed():
    said = python("""
        import atexit
        def late():
            try:
                annulus.attention(x, x, x)
            except annulus.AnnulusError as error:
                print(error)
        atexit.register(late)
        import annulus, numpy as np
        x = np.ones((1, 8, 1, 8), "f4")
        annulus.attention(x, x, x)
        """)
    assert said == "Python is ending: annulus computes nothing any more\n"


def test_a_forked_process_ends_well():
    assert python("""
        import annulus, numpy as np, os, sys, threading, time
        x = np.zeros((1, 100_000, 4, 64), "f4")
        threading.Thread(target=lambda: annulus.attention(x, x, x), daemon=True).start()
        time.sleep(0.5)
        child = os.fork()
        if child:
            print(os.waitpid(child, 0)[1])
        """, OMP_NUM_THREADS="1") == "0\n"


def test_ctrl_c_ends_the_wait_for_another_threads_call():
    process = subprocess.Popen([sys.executable, "-P", "-c", textwrap.dedent("""
        import annulus, os, signal, threading, time, numpy as np
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = np.zeros((1, 400_000, 4, 64), "f4")
        before = time.process_time()
        threading.Thread(target=annulus.attention, args=(x, x, x), daemon=True).start()
        while time.process_time() < before + 0.5:  # until that thread computes
            time.sleep(0.01)
        try:
            print("begins", flush=True)
            annulus.attention(*[np.ones((1, 1, 1, 1), "f4")] * 3)
        except KeyboardInterrupt:
            print("ended", flush=True)
            os._exit(0)
        """)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=240)[0] == "ended\n" and process.returncode == 0


def test_the_instruction_set_is_limited_by_the_variable():
    """As in the program, so that a newer processor can reproduce the bits of an older one."""
    text = """
        import annulus, numpy as np
        try:
            annulus.attention(*[np.ones((1, 4, 1, 2), "f4")] * 3)
            print(annulus.info()["description"])
        except annulus.AnnulusError as error:
            print(error)
        """
    assert "instruction set baseline," in python(text, ANNULUS_INSTRUCTION_SET="baseline")
    assert python(text, ANNULUS_INSTRUCTION_SET="sse9") == (
        "the environment variable ANNULUS_INSTRUCTION_SET is 'sse9', expected baseline, avx2, avx512, avx512_bf16 or amx\n")
