"""A throw-away Slurm of pretend nodes on this machine, for tests of job scripts.

    with Cluster(Path("/tmp/x")) as cluster:
        job = cluster.submit("job.sbatch", "argument", directory=folder)
        job.wait_for("COMPLETED", seconds=60)

Needs the files of Debian's packages slurm-wlm and munge; it reads no configuration of the machine and uses no service.
It needs no special rights: the user who starts it is Slurm's user. The daemons are children of this process and end
with it. Cluster.__exit__ ends the jobs, the daemons and whatever jobs left behind, each by its process id, and removes
the folder.
"""
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from waiting import NotInTime, until
from config import GPUS, GRES_CONF, NODE, PARTITION, SLURM_CONF, TASK_PROLOG

NODES = ("n1", "n2")
KILL_WAIT = 30  # s from TERM to KILL; Slurm's default
DAEMON_FOLDERS = "/usr/sbin:/sbin:"  # which users' PATH may lack


class SlurmError(Exception):
    """A command of Slurm failed, or something did not happen in time; the text says what, and has the logs."""


def free_ports(count):
    """Ports of 127.0.0.1 on which no process listens. They lie below those that the system gives to connections: of
    these, a connection of another process could take one before a daemon listens on it."""
    of_connections = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = []
    for port in random.sample(range(10000, max(20000, of_connections)), 1000):
        with socket.socket() as each:
            try:
                each.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            break
    return ports


class Cluster:
    """Two pretend nodes n1 and n2, in a folder that is made and removed. Both are this machine.

    They claim 256 CPUs and 8 GPUs each, so that job scripts for real machines run as they stand; srun then says that it
    cannot bind. With real_cores the nodes have the cores of this machine, and srun binds to them.
    """

    def __init__(self, folder, partitions=(), real_cores=False, as_user=()):
        """partitions: more names than the default, `main`; as_user: words before every command, as with setpriv."""
        self.folder, self.partitions, self.as_user = Path(folder), tuple(partitions), list(as_user)
        self.cpus = len(os.sched_getaffinity(0)) if real_cores else 256
        self.task_plugin = "task/affinity" if real_cores else "task/none"
        self.daemons = []

    # ---- start and end ----
    def __enter__(self):
        try:
            self.folder.mkdir(parents=True)
            self.configure()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def configure(self):
        user = self.run("id", "-un").strip()
        if self.as_user:
            shutil.chown(self.folder, user)
        ports = free_ports(1 + len(NODES))
        host = socket.gethostname().split(".")[0]
        names = {"folder": self.folder, "host": host, "user": user, "port": ports[0], "kill_wait": KILL_WAIT,
                 "task_plugin": self.task_plugin}
        conf = SLURM_CONF.format(**names)
        for node, port in zip(NODES, ports[1:]):
            conf += NODE.format(node=node, host=host, port=port, cpus=self.cpus, gpus=GPUS)
        for name in ("main", *self.partitions):
            conf += PARTITION.format(name=name, default="YES" if name == "main" else "NO")
        self.write("slurm.conf", conf)
        self.write("gres.conf", GRES_CONF.format(folder=self.folder))
        for number in range(GPUS):
            (self.folder / f"gpu{number}").symlink_to("/dev/null")  # Slurm wants a device
        self.write("task_prolog", TASK_PROLOG.format(**names), 0o755)
        self.write("munge.key", os.urandom(128), 0o600)
        for name in ("state", *(f"{what}.{node}" for what in ("spool", "tmp") for node in NODES)):
            self.own(self.folder / name, Path.mkdir)

    def write(self, name, content, mode=0o644):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        self.own(path)

    def own(self, path, make=lambda path: None):
        make(path)
        if self.as_user:
            shutil.chown(path, self.run("id", "-un").strip())

    def start(self):
        f = self.folder
        self.daemon("munged", "--foreground", "--num-threads=2", f"--key-file={f}/munge.key",
                    f"--socket={f}/munge.socket", f"--pid-file={f}/munged.pid", f"--log-file={f}/munged.log",
                    f"--seed-file={f}/munged.seed")
        until(20, (f / "munge.socket").exists, lambda: "munged's socket\n" + self.logs())
        self.daemon("slurmctld", "-D", "-c")
        for node in NODES:
            self.daemon("slurmd", "-D", "-N", node)
        until(30, lambda: self.idle_nodes() == set(NODES), lambda: "idle nodes\n" + self.logs())

    def daemon(self, *words):
        log = open(self.folder / f"{words[0]}.out", "ab")  # what it prints before it opens its log
        self.daemons.append(subprocess.Popen(
            [*self.as_user, "setpriv", "--pdeathsig", "KILL", *words], env=self.environment(), stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, cwd=self.folder))
        log.close()

    def __exit__(self, *_):
        try:
            if (self.folder / "slurm.conf").exists() and len(self.daemons) > 1:
                self.end_jobs()
        finally:
            for daemon in reversed(self.daemons):
                daemon.terminate()
            for daemon in self.daemons:
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
            self.daemons = []
            self.kill_left()
            shutil.rmtree(self.folder, ignore_errors=True)

    def end_jobs(self):
        try:
            jobs = self.run("squeue", "-h", "-o", "%A").split()
            if jobs:
                self.run("scancel", "--signal=KILL", "--full", *jobs)
                self.run("scancel", *jobs)
                until(20, lambda: not self.run("squeue", "-h", "-o", "%A").split(), "the end of the jobs")
        except (SlurmError, NotInTime, subprocess.TimeoutExpired) as error:
            print(f"cluster: {error}")

    def left(self):
        """Processes of this cluster: all inherit the path of its configuration."""
        mark = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int(entry.name) != os.getpid():
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
            except OSError:  # ended meanwhile, or another user's
                continue
        return found

    def kill_left(self):
        for process in self.left():
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                pass

    # ---- use ----
    def environment(self, **more):
        """The environment for commands of this cluster, without variables of another one."""
        inherited = {name: value for name, value in os.environ.items() if not re.match("S(LURM|BATCH|RUN)_", name)}
        return {**inherited, "PATH": DAEMON_FOLDERS + inherited["PATH"], "SLURM_CONF": f"{self.folder}/slurm.conf",
                **more}

    def run(self, *words, seconds=120, check=True, directory=None, **variables):
        """Returns the standard output of a command; raises SlurmError if it fails."""
        done = subprocess.run([*self.as_user, *map(str, words)], env=self.environment(**variables),
                              cwd=directory or self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds)
        if check and done.returncode != 0:
            raise SlurmError(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    def submit(self, *words, directory, **variables):
        """Runs sbatch with these words, in a folder."""
        number = self.run("sbatch", "--parsable", *words, directory=directory, **variables).strip()
        return Job(self, number, Path(directory))

    def idle_nodes(self):
        return set(self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N", check=False).split())

    def logs(self):
        """The last lines of all logs."""
        names = sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        return "\n".join("\n".join([f"-- {name.name}", *name.read_text(errors="replace").splitlines()[-15:]])
                         for name in names)


class Job:
    """A batch job, or all tasks of an array."""

    ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")

    def __init__(self, cluster, number, directory):
        self.cluster, self.number, self.directory = cluster, number, directory

    def details(self):
        """[{name: value}] of `scontrol show job`: one entry per task of an array."""
        text = self.cluster.run("scontrol", "-o", "show", "job", self.number)
        return [dict(re.findall(r"(\w+(?:/\w+|:\w+)*)=(\S*)", line)) for line in text.splitlines() if line]

    def get(self, name):
        """One value of a job that is not an array: get("JobState"), get("ExitCode"), get("Restarts")."""
        (only,) = self.details()
        return only[name]

    def states(self):
        return [each["JobState"] for each in self.details()]

    def wait_for(self, state, seconds):
        """Waits until all tasks have a state; fails at once if one has ended in another state."""
        def reached():
            states = self.states()
            if any(each in self.ENDED and each != state for each in states):
                raise SlurmError(f"job {self.number} is {states}, expected {state}\n{self.output()}")
            return set(states) == {state}
        until(seconds, reached, lambda: f"job {self.number} to be {state}; it is {self.states()}\n{self.output()}")
        return self

    def cancel(self):
        """Cancels the job in any state; Slurm accepts that for ended jobs, too."""
        self.cluster.run("scancel", self.number)

    def output(self):
        """What the job printed, and what Slurm printed about it; for an array, of all its tasks."""
        files = sorted(path for path in self.directory.glob("*.out") if re.search(rf"\.{self.number}[._]", path.name))
        return "".join(f"-- {path.name}\n{path.read_text(errors='replace')}" for path in files)
