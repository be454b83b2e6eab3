"""The network between two hosts (two_hosts.sh of tests/end_to_end) is cut, or loses packets."""
import os
import re
import subprocess
from pathlib import Path

from case import LONG, MIDDLE, PATIENCE, SOURCE, STALL, Unavailable, fault, processes, until

TWO_HOSTS = SOURCE / "tests" / "end_to_end" / "two_hosts.sh"


def start(case, words, **variables):
    """Starts two ranks on each of two hosts."""
    if "Open MPI" not in case.launcher_version() and "OpenRTE" not in case.launcher_version():
        raise Unavailable("two_hosts.sh knows Open MPI only")
    case.need("ip", "nsenter")
    launch = [case.launcher, "-n", "4", "--map-by", "slot:OVERSUBSCRIBE", "--leave-session-attached"]
    return case.start(0, words, before=[TWO_HOSTS, *launch], OMPI_MCA_btl="self,vader,tcp", **variables)


def on_host(pid, *words, text=None):
    """Runs a command in the network of the host on which process `pid` runs."""
    done = subprocess.run(["nsenter", "--target", str(pid), "--net", *words], input=text, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


def second_host(run):
    """The process that holds the second host's network."""
    environment = Path(f"/proc/{run.ranks()[0]}/environ").read_text()
    return re.search(r"(?:^|\0)ANNULUS_SECOND_HOST=(\d+)", environment)[1]


@fault()
def network_cut(case):
    """The ranks of both hosts end by themselves, unless the launcher notices the cut first. They cannot inform Open
    MPI's launcher, which would wait eight minutes for its daemon on the other host, or a quarter of an hour for what it
    has sent. With the settings below both give up sooner; the launcher's exit status is then 205."""
    case.write("run.yaml", LONG)
    often = {f"OMPI_MCA_oob_tcp_keepalive_{name}": str(value)
             for name, value in (("time", 2 * STALL), ("intvl", 1), ("probes", 3))}
    run = start(case, "run run.yaml", **often).reaches(MIDDLE)
    pids = set(run.ranks().values())
    for pid in (run.ranks()[0], second_host(run)):
        on_host(pid, "sysctl", "-q", "-w", "net.ipv4.tcp_retries2=3")  # sends a packet again for some 3 s, not 15 min
    on_host(second_host(run), "ip", "link", "set", "cable", "down")
    run.hit()
    until(PATIENCE, lambda: not pids & set(processes()), lambda: f"the end of all ranks: {run.output()}")
    files = [f"result.h5.stalled.{rank}.jsonl" for rank in range(4)]
    case.ended(run, "the network between two hosts is cut", r"annulus: (stalled|error): rank 0: ", (1, 4, 205), files,
               within=2 * PATIENCE)


@fault()
def network_loses(case):
    """From the start of the attention on every tenth packet is lost; TCP sends it again."""
    case.need("nft")
    case.write("run.yaml", LONG.replace("stall_timeout: STALL", "stall_timeout: 60"))
    words = "--set input.generate.sequence=4096"
    run = start(case, f"run run.yaml {words}").reaches("float32")
    run.hit()
    on_host(second_host(run), "nft", "-f", "-", text="table inet lossy { chain in { type filter hook input priority 0;\n"
            "numgen random mod 10 0 drop\n }\n}\n")
    case.ended(run, "the network loses a tenth of its packets", "", 0, keeps=["result.h5"])
    case.is_right(words=words)
