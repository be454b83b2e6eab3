"""Runs every script of job_scripts/ unchanged on a real Slurm; checks its result, and how its ranks were started."""
import re
import subprocess

from account import differences
from case import RUN, SWEEP, ClusterTest
from cluster import Cluster, Job, NotInTime, SlurmError


def died_in_mpi_init(output):
    """Whether a rank died before the program printed anything.

    With Open MPI 4.1 this happens now and then if one busy machine stands for two and starts 16 ranks: a peer's first
    message over TCP arrives before its receiver is known (a call of address 0 in mca_btl_tcp, from ompi_mpi_init).
    """
    return "Caught signal 11" in output and "\nannulus" not in output


def cpus_of(rank):
    """The numbers in a rank's list of CPUs, such as 0-3,8."""
    ends = [entry.split("-") for entry in rank["cores"].split(",")]
    return {cpu for first, *last in ends for cpu in range(int(first), int(last[0] if last else first) + 1)}


class Scripts(ClusterTest):
    def submit_run(self, machine, script, *options, **variables):
        """Submits a script with RUN in a folder of its own, waits for its end, and compares with a direct run.

        If MPI itself did not start, tries again, up to three times in all.
        """
        account = self.new_account(machine)
        for attempts_left in (2, 1, 0):
            folder = account.new_folder(f"work{attempts_left}")
            (folder / "run.yaml").write_text(RUN)
            job = self.submit(account, f"{machine}/{script}", "run.yaml", directory=folder, options=options, **variables)
            try:
                job.wait_for("COMPLETED", 120)
                break
            except (NotInTime, SlurmError):
                if attempts_left == 0 or not died_in_mpi_init(job.output()):
                    raise
        self.expect_same_as_direct(folder / "run.yaml")
        return account.ranks(job), job

    def expect_same_as_direct(self, run_file):
        """Checks that result.h5 beside the run file has the bits of one rank without Slurm, and that no other file is
        left."""
        self.assertEqual(differences(run_file.parent / "result.h5", self.run_undisturbed(1, run_file)), "")
        self.assertEqual(self.files_of_results(run_file.parent), ["direct.h5", "result.h5"])

    def noted(self, ranks, name):
        return [rank[name] for rank in ranks]

    def test_differences_are_seen(self):
        folder = self.new_account("generic").new_folder("work")
        (folder / "run.yaml").write_text(RUN)
        for name, scale in (("one", "0.1"), ("other", "0.1000001")):
            self.directly(1, "run", "run.yaml", "--set", f"output.file={name}.h5", "--set", f"attention.scale={scale}",
                          directory=folder)
        self.assertIn("differences found", differences(folder / "one.h5", folder / "other.h5"))

    def test_cpu(self):
        ranks, job = self.submit_run("generic", "cpu.sbatch")
        self.assertEqual(self.noted(ranks, "node"), ["n1", "n1", "n2", "n2"])
        self.assertEqual(set(self.noted(ranks, "OMP_NUM_THREADS")), {"16"})
        self.assertEqual(set(self.noted(ranks, "SLURM_MPI_TYPE")), {self.pmi})
        self.assertEqual(set(self.noted(ranks, "LOADEDMODULES")), {"gcc:openmpi:hdf5:cmake:kokkos"})
        self.assertIn(f"4 ranks of 16 threads on n[1-2], srun --mpi={self.pmi}\n", job.output())

    def test_gpu(self):
        ranks, job = self.submit_run("generic", "gpu.sbatch")
        self.assertEqual(self.noted(ranks, "node"), ["n1"] * 4 + ["n2"] * 4)
        self.assertEqual(self.noted(ranks, "CUDA_VISIBLE_DEVICES"), ["0", "1", "2", "3"] * 2)
        self.assertEqual(set(self.noted(ranks, "OMP_NUM_THREADS")), {"8"})

    # srun at these sites has a default PMI, so their scripts do not choose one.
    def test_perlmutter_cpu(self):
        ranks, _ = self.submit_run("perlmutter", "cpu.sbatch", "--account=m0000", SLURM_MPI_TYPE=self.pmi)
        self.assertEqual(self.noted(ranks, "node"), ["n1"] * 8 + ["n2"] * 8)
        self.assertEqual(set(self.noted(ranks, "OMP_NUM_THREADS")), {"16"})

    def test_perlmutter_gpu(self):
        ranks, _ = self.submit_run("perlmutter", "gpu.sbatch", "--account=m0000_g", SLURM_MPI_TYPE=self.pmi)
        self.assertEqual(self.noted(ranks, "CUDA_VISIBLE_DEVICES"), ["3", "2", "1", "0"] * 2)

    def test_lumi_cpu(self):
        ranks, job = self.submit_run("lumi", "cpu.sbatch", "--account=project_0", SLURM_MPI_TYPE=self.pmi)
        self.assertEqual(self.noted(ranks, "node"), ["n1"] * 8 + ["n2"] * 8)
        self.assertEqual(job.get("Partition"), "standard")

    def test_lumi_gpu(self):
        ranks, job = self.submit_run("lumi", "gpu.sbatch", "--account=project_0", SLURM_MPI_TYPE=self.pmi)
        self.assertEqual(self.noted(ranks, "ROCR_VISIBLE_DEVICES"), ["4", "5", "2", "3", "6", "7", "0", "1"] * 2)
        self.assertEqual(set(self.noted(ranks, "OMP_NUM_THREADS")), {"7"})
        self.assertEqual(job.get("Partition"), "standard-g")

    def test_sweep(self):
        account = self.new_account("generic")
        folder = account.new_folder("work")
        (folder / "sweep.yaml").write_text(SWEEP)
        measured = []
        for _ in range(2):  # the second job finds nothing to do
            job = self.submit(account, "generic/sweep.sbatch", "sweep.yaml", directory=folder)
            job.wait_for("COMPLETED", 120)
            self.assertEqual(len(job.states()), 4)
            measured.append(self.column(folder / "sweep.h5", "/cases/attention_seconds_min"))
        self.assertEqual(len(set(measured[0])), 6, measured)
        self.assertEqual(measured[0], measured[1])
        for name, values in (("status", {"ok"}), ("ranks", {"2"}), ("distribution.strategy", {"ring", "rotation"}),
                             ("input.generate.sequence", {"512", "1024", "2048"})):
            self.assertEqual(set(self.column(folder / "sweep.h5", f"/cases/{name}")), values, name)

    def test_long(self):
        account = self.new_account("generic")
        folder = account.new_folder("work")
        (folder / "run.yaml").write_text(RUN.replace("strategy: ring", "strategy: stream").replace(
            "reproducible: true", "reproducible: true, memory_limit: 8MiB").replace("2048", "16384"))
        job = self.submit(account, "generic/long.sbatch", "run.yaml", directory=folder, options=["--array=0-3"])
        job.wait_for("COMPLETED", 120)
        self.assertEqual(len(job.states()), 4)
        self.expect_same_as_direct(folder / "run.yaml")

    def test_train(self):
        account = self.new_account("generic")
        folder = account.new_folder("work")
        self.make_layer(folder)
        self.submit(account, "generic/train.sbatch", "layer.yaml", directory=folder).wait_for("COMPLETED", 120)
        self.assertEqual(self.losses(folder / "result.h5"), self.direct_losses(folder, ranks=4))

    def test_spaces_and_a_run_file_elsewhere(self):
        account = self.new_account("generic")
        folder, submitted = account.new_folder("my runs"), account.new_folder("submit from here")
        (folder / "my run.yaml").write_text(RUN)
        job = self.submit(account, "generic/cpu.sbatch", "../my runs/my run.yaml", "--set", "attention.scale=0.1",
                          directory=submitted, options=["--job-name=first try"]).wait_for("COMPLETED", 60)
        self.assertTrue((submitted / f"first try.{job.number}.out").exists())
        self.assertEqual(self.files_of_results(submitted), [])
        direct = self.run_undisturbed(2, folder / "my run.yaml", "--set", "attention.scale=0.1")
        self.assertEqual(differences(folder / "result.h5", direct), "")

    def test_the_documented_way_to_submit(self):
        account = self.new_account("generic")
        (account.home / "annulus.profile").unlink()
        said = self.cluster.run("bash", "-ec", self.documented_block("submit"), directory=account.clone,
                                **account.variables())
        numbers = re.findall(r"^Submitted batch job (\d+)$", said, re.MULTILINE)
        jobs = [Job(self.cluster, number, account.clone) for number in numbers]
        for job in jobs:
            self.addCleanup(job.cancel)
            job.wait_for("COMPLETED", 60)
        self.assertEqual([job.get("NumNodes") for job in jobs], ["2", "1"])
        for result, ranks in (("build/quickstart.h5", 4), ("input/one_node.h5", 2)):
            direct = self.run_undisturbed(ranks, account.clone / "input/quickstart.yaml")
            self.assertEqual(differences(account.clone / result, direct), "")

    def test_mistakes_end_the_job_with_a_message(self):
        account = self.new_account("generic")
        folder = account.new_folder("work")
        for words, variables, code, said in (
                (["absent.yaml"], {}, "2:0", "absent.yaml"),
                ([], {}, "2:0", "file is required"),
                (["run.yaml"], {"ANNULUS_PROFILE": "/absent/profile"}, "1:0", "/absent/profile: No such file")):
            job = self.submit(account, "generic/cpu.sbatch", *words, directory=folder, **variables)
            job.wait_for("FAILED", 60)
            self.assertEqual(job.get("ExitCode"), code)
            self.assertIn(said, job.output())

    def test_a_rank_is_bound_to_its_own_cores(self):
        account = self.new_account("generic")
        folder = account.new_folder("work")
        (folder / "run.yaml").write_text(RUN)
        with Cluster(self.scratch / "real_cores", real_cores=True) as cluster:
            of_nodes = {}
            for ranks, cores in ((2, 1), (1, cluster.cpus)):
                job = cluster.submit(f"--ntasks-per-node={ranks}", f"--cpus-per-task={cores}",
                                     account.script("generic/cpu.sbatch"), "run.yaml", "--set", "output.overwrite=true",
                                     directory=folder, **account.variables()).wait_for("COMPLETED", 60)
                for node in ("n1", "n2"):
                    of_nodes[node, ranks] = [cpus_of(rank) for rank in account.ranks(job) if rank["node"] == node]
        for node in ("n1", "n2"):
            self.assertEqual([len(cpus) for cpus in of_nodes[node, 2]], [1, 1])
            self.assertEqual(len(set.union(*of_nodes[node, 2])), 2, of_nodes)
            self.assertEqual([len(cpus) for cpus in of_nodes[node, 1]], [cluster.cpus], "what --cpus-per-task says")

    def test_a_requeued_run_is_not_restarted(self):
        """Without Slurm: an srun that prints its arguments stands for that of Slurm."""
        srun, profile = self.folder / "srun", self.folder / "profile"
        srun.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
        srun.chmod(0o755)
        profile.write_text(f'ANNULUS=true PATH="{self.folder}:$PATH"\n')
        variables = {"HOME": self.folder, "PATH": "/usr/bin:/bin", "ANNULUS_PROFILE": profile, "SLURM_JOB_ID": "1",
                     "SLURM_NTASKS": "1", "SLURM_CPUS_PER_TASK": "2", "SLURM_JOB_NODELIST": "n1"}
        scripts = [path for path in (self.source / "job_scripts").glob("*/*.sbatch") if ' run "$@"' in path.read_text()]
        self.assertEqual(len(scripts), 7)
        for script in scripts:
            for requeued, kept in (({}, "<--restart>"), ({"SLURM_RESTART_COUNT": "0"}, "<--restart>"),
                                   ({"SLURM_RESTART_COUNT": "1"}, "")):
                done = subprocess.run(["bash", script, "my run.yaml", "--restart", "--set", "a.b=1 2"], text=True,
                                      capture_output=True, timeout=30, env={**variables, **requeued})
                self.assertEqual((done.returncode, done.stderr), (0, ""), script)
                self.assertTrue(done.stdout.endswith(f"<run><my run.yaml>{kept}<--set><a.b=1 2>"), done.stdout)

    def test_shellcheck_finds_nothing(self):
        files = sorted(path for path in (self.source / "job_scripts").glob("*/*") if path.is_file())  # not modules/annulus/
        done = subprocess.run(["shellcheck", "--shell=bash", *files], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout + done.stderr, "")
        self.assertGreater(len(files), 8)
