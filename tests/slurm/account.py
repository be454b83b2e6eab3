"""A user of the pretend cluster, who follows docs/clusters.md: a home folder with a clone, a profile, and modules."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# Stands for the program: writes how it was started to a file for each rank, then executes the program, with the library
# $PRELOADED if that is set. Job scripts ask for the cores of real nodes. Here a rank gets one thread if the script asks
# for more than two, because this machine has few cores.
WRAPPER = """\
#!/bin/bash
if [ "$1" != info ]; then
  {{
    echo "pid=$$"
    echo "node=$SLURMD_NODENAME"
    echo "arguments=$*"
    echo "cores=$(sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status)"
    for name in OMP_NUM_THREADS OMP_PLACES SLURM_MPI_TYPE CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES LOADEDMODULES; do
      echo "$name=${{!name-}}"
    done
  }} >"{record}/$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}.$SLURM_PROCID"
  if [ "$OMP_NUM_THREADS" -gt 2 ]; then export OMP_NUM_THREADS=1; fi
  export LD_PRELOAD=${{PRELOADED-}}
fi
exec {program} "$@"
"""
MODULEFILE = '#%Module1.0\nprepend-path CMAKE_PREFIX_PATH "{prefix}"\n'
COPIED = ("job_scripts", "input")


class Account:
    """The files of one user. It writes nothing outside `folder`."""

    def __init__(self, folder, source, program, machine="generic"):
        """source: the repository; program: the built one; machine: the folder of job_scripts whose profile is used."""
        self.folder, self.home = Path(folder), Path(folder) / "home"
        self.clone, self.record, self.modules = self.home / "annulus", self.folder / "record", self.folder / "modules"
        self.program = Path(program)
        for part in COPIED:
            shutil.copytree(Path(source) / part, self.clone / part)
        for new in (self.record, self.modules, self.clone / "build" / "release"):
            new.mkdir(parents=True)
        wrapper = self.clone / "build" / "release" / "annulus"
        wrapper.write_text(WRAPPER.format(record=self.record, program=self.program))
        wrapper.chmod(0o755)
        self.use_profile(machine)

    def build_afresh(self, source, parts):
        """Gives the clone the sources, but no program yet."""
        shutil.rmtree(self.clone / "build")
        for part in parts:
            copy = shutil.copytree if (source / part).is_dir() else shutil.copy
            copy(source / part, self.clone / part)

    def use_profile(self, machine):
        """Uses the machine's example profile unchanged, and makes a module for each name that it loads."""
        example = self.clone / "job_scripts" / machine / "annulus.profile.example"
        shutil.copy(example, self.home / "annulus.profile")
        for words in re.findall(r"^module load ([^#\n]*)", example.read_text(), re.MULTILINE):
            for name in words.split():
                self.add_module(name)

    def add_module(self, name, prefix="/usr"):
        path = self.modules / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MODULEFILE.format(prefix=prefix))

    def variables(self, **more):
        """The environment variables that a login sets and jobs inherit."""
        return {"HOME": str(self.home), "MODULEPATH": str(self.modules), **more}

    def script(self, name):
        """A batch script of the clone, as machine/name."""
        return self.clone / "job_scripts" / name

    def new_folder(self, name):
        path = self.folder / name
        path.mkdir()
        return path

    def ranks(self, job, restart=0):
        """What the wrapper wrote about each rank of a job, in the order of the ranks: a list of dictionaries."""
        files = sorted(self.record.glob(f"{job.number}.{restart}.*"), key=lambda path: int(path.suffix[1:]))
        return [dict(line.split("=", 1) for line in path.read_text().splitlines()) for path in files]


def run_directly(program, launcher, ranks, *words, directory, seconds=600):
    """Does the same work with MPI's own launcher, without Slurm; returns the program's output."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    variables.update(OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                     OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1",
                     PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
                     OMPI_MCA_hwloc_base_binding_policy="none", OMPI_MCA_pml="ob1", OMPI_MCA_btl="self,vader",
                     OMPI_MCA_orte_allowed_exit_without_sync="1")
    with tempfile.TemporaryDirectory() as launches:  # not shared: launches of Open MPI 4.1 may fail where another ends
        variables["OMPI_MCA_orte_tmpdir_base"] = launches
        done = subprocess.run([launcher, "-n", str(ranks), program, *words], cwd=directory, env=variables,
                              capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0:
        command = " ".join(map(str, words))
        raise AssertionError(f"{command} on {ranks} ranks ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def differences(one, other):
    """What h5diff prints for two results, except where and how they were made; "" if all bits are the same."""
    done = subprocess.run(["h5diff", "--exclude-path=/run", "--exclude-path=/provenance", one, other],
                          capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr + (f"status {done.returncode}" if done.returncode else "")
