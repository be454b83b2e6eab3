"""What the tests of this folder share: the cluster, the programs, run files, and lists of a folder's files."""
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from account import Account, run_directly

RUN = """\
input: {generate: {sequence: 2048, heads: 4, kv_heads: 2, head_dim: 32}}
attention: {segments: [256, all], dilations: [1, 4]}
compute: {reproducible: true}
distribution: {strategy: ring}
output: {file: result.h5}
"""
LAYER = """\
input: {file: layer.h5}
attention: {segments: [64, all], dilations: [1, 4]}
distribution: {strategy: ring}
layer: {heads: 4, kv_heads: 2}
train: {steps: 40, rate: 1, checkpoint: checkpoint.h5, save_every: 1000000}
output: {file: result.h5}
"""
SWEEP = """\
input: {generate: {heads: 2, head_dim: 32}}
bench:
  sweep:
    - distribution.strategy: [ring, rotation]
    - input.generate.sequence: [512, 1024, 2048]
  repeats: 2
  file: sweep.h5
"""
LAYER_INPUT = "--layer 64 --sequence 512 --heads 4 --kv-heads 2 --head-dim 16 --dtype float64".split()


class ClusterTest(unittest.TestCase):
    """run.py sets: the cluster, the repository, the built program, its MPI's launcher, a folder to write in, and the
    library slow_calls, which tests preload."""

    cluster = source = program = launcher = scratch = None
    submitted = set()  # scripts, as machine/name

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=self.scratch))

    @property
    def pmi(self):
        """The value of srun --mpi= that the program needs; found from the launcher, not from the program's output."""
        version = subprocess.run([self.launcher, "--version"], capture_output=True, text=True, timeout=20).stdout
        return "pmix" if "Open MPI" in version or "OpenRTE" in version else "pmi2"

    # ---- jobs ----
    def new_account(self, machine="generic", folder="account"):
        return Account(self.folder / folder, self.source, self.program, machine)

    def submit(self, account, script, *words, directory, options=(), **variables):
        """Runs sbatch [options] job_scripts/<script> words..., as the account's user would."""
        self.submitted.add(script)
        job = self.cluster.submit(*options, account.script(script), *words, directory=directory,
                                  **account.variables(**variables))
        self.addCleanup(job.cancel)
        return job

    def do_as_documented(self, command, job):
        """Runs a command of docs/clusters.md, in which JOB stands for the job's number."""
        self.assertIn(f"`{command}`", (self.source / "docs" / "clusters.md").read_text())
        self.cluster.run("sh", "-c", command.replace("JOB", job.number))

    def documented_block(self, name):
        """The commands of docs/clusters.md below <!-- tested: name -->."""
        text = (self.source / "docs" / "clusters.md").read_text()
        return re.search(rf"^<!-- tested: {name} -->\n```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]

    # ---- without Slurm ----
    def directly(self, ranks, verb, *words, directory):
        """Does the same work with MPI's own launcher."""
        return run_directly(self.program, self.launcher, ranks, verb, *words, directory=directory)

    def run_undisturbed(self, ranks, run_file, *words):
        """Makes direct.h5 beside the run file, without Slurm."""
        self.directly(ranks, "run", run_file, *words, "--set", "output.file=direct.h5", directory=run_file.parent)
        return run_file.parent / "direct.h5"

    # ---- files ----
    def files_of_results(self, folder):
        """Names with .h5 in the folder: results, and files that a run must not leave."""
        return sorted(path.name for path in folder.iterdir() if ".h5" in path.name)

    def make_layer(self, folder, **replaced):
        """Makes layer.yaml and its input, in double precision; `replaced` are keys of `train`."""
        text = LAYER
        for key, value in replaced.items():
            text, count = re.subn(rf"\b{key}: [^,}}]*", f"{key}: {value}", text)
            self.assertEqual(count, 1, key)
        (folder / "layer.yaml").write_text(text)
        self.directly(1, "generate", "--output", "layer.h5", *LAYER_INPUT, directory=folder)

    def column(self, file, dataset):
        """The entries of a 1-D dataset, as text."""
        text = subprocess.run(["h5dump", "-d", dataset, "-y", "-w", "1", "-m", "%.17g", file], capture_output=True,
                              text=True, timeout=20, check=True).stdout
        data = re.search(r"DATA \{(.*?)\}", text, re.DOTALL)[1]
        return re.findall(r'^\s+"?([-+.\w]+)"?,?$', data, re.MULTILINE)

    def losses(self, file):
        return [float(number) for number in self.column(file, "/loss")]

    def direct_losses(self, folder, ranks):
        """The losses of the same training without Slurm and without interruption."""
        self.directly(ranks, "train", "layer.yaml", "--set", "output.file=direct.h5", "--set",
                      "train.checkpoint=direct_checkpoint.h5", directory=folder)
        return self.losses(folder / "direct.h5")
