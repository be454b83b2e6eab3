"""What a job's ranks inherit (--export, CPUs of a rank), and which tasks of an array go back to the queue."""
from case import RUN, ClusterTest
from cluster import until

# Runs instead of the program. The task whose job number is the array's waits for a warning. The others end at once, and
# so does a task that was requeued.
WAITS_FOR_A_WARNING = """\
#!/bin/bash
if [ "$1" = info ]; then echo "srun --mpi=none"; exit; fi
if [ "$SLURM_JOB_ID" != "$SLURM_ARRAY_JOB_ID" ] || [ -n "${SLURM_RESTART_COUNT-}" ]; then exit 0; fi
trap 'exit 75' USR1
echo "task $SLURM_ARRAY_TASK_ID waits"
for _ in {1..120}; do sleep 0.5; done
exit 1
"""
ONE_RANK = ["--nodes=1", "--ntasks-per-node=1"]


class Environment(ClusterTest):
    def test_one_task_of_an_array_goes_back_to_the_queue(self):
        for script in ("long", "train"):
            with self.subTest(script):
                self.expect_one_task_requeued(script)

    def expect_one_task_requeued(self, script):
        account = self.new_account(folder=script)
        folder = account.new_folder("work")
        program = account.home / "waits"
        program.write_text(WAITS_FOR_A_WARNING)
        program.chmod(0o755)
        with open(account.home / "annulus.profile", "a") as profile:
            profile.write("export ANNULUS=$HOME/waits\n")
        job = self.submit(account, f"generic/{script}.sbatch", "run.yaml", directory=folder,
                          options=["--array=0-3", *ONE_RANK])
        until(60, lambda: len(job.details()) == 4 and sorted(job.states()) == ["COMPLETED"] * 3 + ["RUNNING"],
              lambda: f"three tasks to end and one to wait, not {job.states()}\n{job.output()}")
        # A running job's shell may not have reached its trap yet, and the signal would end it.
        until(60, lambda: " waits\n" in job.output(), lambda: "the task's first words\n" + job.output())
        (last,) = [each["ArrayTaskId"] for each in job.details() if each["JobState"] == "RUNNING"]
        self.cluster.run("scancel", "--batch", "--signal=USR1", f"{job.number}_{last}")
        until(60, lambda: any(each["Restarts"] == "1" for each in job.details()),
              lambda: "the requeue\n" + job.output())
        job.wait_for("COMPLETED", 60)
        restarts = {each["ArrayTaskId"]: each["Restarts"] for each in job.details()}
        self.assertEqual(restarts, {str(task): "1" if str(task) == last else "0" for task in range(4)})

    def test_ranks_get_the_scripts_variables_whatever_sbatch_exports(self):
        for export in ("NONE", "HOME,MODULEPATH,ANNULUS_PROFILE"):
            with self.subTest(export):
                account = self.new_account(folder=export.lower())
                folder = account.new_folder("work")
                (folder / "run.yaml").write_text(RUN)
                profile = account.home / "annulus.profile"
                # With --export=NONE the script's shell does not have the account's HOME.
                variables = "".join(f"export {name}='{value}'\n" for name, value in account.variables().items())
                profile.write_text(variables + profile.read_text())
                script = account.script("generic/cpu.sbatch")
                script.write_text(script.read_text().replace("$HOME/annulus.profile", str(profile)))
                job = self.submit(account, "generic/cpu.sbatch", "run.yaml", directory=folder,
                                  options=[f"--export={export}", *ONE_RANK], ANNULUS_PROFILE=str(profile))
                job.wait_for("COMPLETED", 60)
                (rank,) = account.ranks(job)
                self.assertEqual(rank["OMP_NUM_THREADS"], "16")
                self.assertEqual(rank["SLURM_MPI_TYPE"], self.pmi)
                self.assertEqual(rank["OMP_PLACES"], "cores")
