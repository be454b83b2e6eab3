"""Jobs that are interrupted: warned, requeued, cancelled, out of time, or with a dead rank."""
import os
import signal
import time

from account import differences
from case import RUN, ClusterTest
from cluster import KILL_WAIT, SlurmError, until

# This run takes some seconds on two slow cores.
LONG = RUN.replace("sequence: 2048", "sequence: 64000").replace("[256, all]", "[all]").replace("[1, 4]", "[1]")
TWO_RANKS = ["--ntasks-per-node=1"]


class InterruptedJob(ClusterTest):
    """A run of some seconds in a folder of its own, on one rank of each node."""

    def setUp(self):
        super().setUp()
        self.account = self.new_account()
        self.work = self.account.new_folder("work")
        (self.work / "run.yaml").write_text(LONG)

    def submit_run(self, *words, options=(), **variables):
        return self.submit(self.account, "generic/cpu.sbatch", "run.yaml", *words, directory=self.work,
                           options=[*TWO_RANKS, *options], **variables)

    def submit_training(self, *words, options=(), **variables):
        return self.submit(self.account, "generic/train.sbatch", "layer.yaml", *words, directory=self.work,
                           options=[*TWO_RANKS, *options], **variables)

    def wait_for_words(self, job, words, seconds=60):
        until(seconds, lambda: words in job.output(), lambda: f"job {job.number} to say '{words}'\n{job.output()}")

    def processes(self, job, restart=0):
        """{rank: process id} of the job's ranks."""
        return {rank: int(noted["pid"]) for rank, noted in enumerate(self.account.ranks(job, restart))}

    def expect_nothing_left(self, job, files=()):
        """Checks that no process of a rank is left, and no file except these."""
        until(KILL_WAIT, lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in self.processes(job).values()),
              "the end of the ranks")
        self.assertEqual(self.files_of_results(self.work), sorted(files))


class Warned(InterruptedJob):
    """Jobs that get the warning USR1."""

    def test_a_warned_training_saves_and_goes_back_to_the_queue(self):
        self.make_layer(self.work, steps=2000)  # the warning comes after about 5 s of steps
        job = self.submit_training()
        self.wait_for_words(job, "step 10 ")
        self.do_as_documented("scancel --batch --signal=USR1 JOB", job)
        until(90, lambda: job.get("Restarts") == "1", lambda: f"the requeue, not {job.states()}\n" + job.output())
        self.wait_for_words(job, "stopped on request after step ")
        saved = len(self.losses(self.work / "checkpoint.h5"))
        self.assertGreater(saved, 10)
        job.wait_for("COMPLETED", 120)
        self.assertIn(f"goes on from {self.work}/checkpoint.h5 after step {saved}\n", job.output())
        self.assertIn("restart 1\n", job.output())
        self.assertEqual(self.losses(self.work / "result.h5"), self.direct_losses(self.work, ranks=2))

    def test_a_warning_that_comes_before_the_ranks_listen_is_heard(self):
        self.make_layer(self.work, steps=1000000)
        with open(self.account.home / "annulus.profile", "a") as profile:
            profile.write("if [ -z \"${SLURM_RESTART_COUNT-}\" ]; then echo in the profile; sleep 5; fi\n")
        job = self.submit_training()
        self.wait_for_words(job, "in the profile")
        job.cluster.run("scancel", "--batch", "--signal=USR1", job.number)
        until(90, lambda: job.get("Restarts") == "1", lambda: f"the requeue, not {job.states()}\n" + job.output())
        self.wait_for_words(job, "goes on from")

    def test_a_warned_run_ends_with_75_and_says_that_nothing_was_kept(self):
        job = self.submit_run()
        self.wait_for_words(job, " %  ")
        self.do_as_documented("scancel --batch --signal=USR1 JOB", job)
        job.wait_for("FAILED", 30)
        self.assertEqual(job.get("ExitCode"), "75:0")
        self.assertEqual(job.output().count("stopped on request by signal USR1; nothing was kept but"), 1, job.output())
        self.expect_nothing_left(job)

    def test_a_warned_run_in_blocks_goes_back_to_the_queue_and_on(self):
        blocks = ("--set", "distribution.strategy=stream", "--set", "compute.memory_limit=24MiB")
        job = self.submit(self.account, "generic/long.sbatch", "run.yaml", "--restart", *blocks, directory=self.work,
                          options=["--nodes=2", *TWO_RANKS])
        self.wait_for_words(job, " %  ")
        self.do_as_documented("scancel --batch --signal=USR1 JOB", job)
        until(90, lambda: job.get("Restarts") == "1", lambda: f"the requeue, not {job.states()}\n" + job.output())
        self.wait_for_words(job, "are finished and stay so; run again to continue")
        job.wait_for("COMPLETED", 120)
        self.assertIn("restart 1\n", job.output())
        for restart, is_given in ((0, True), (1, False)):
            for rank in self.account.ranks(job, restart):
                self.assertEqual("--restart" in rank["arguments"], is_given)
        direct = self.run_undisturbed(1, self.work / "run.yaml", *blocks)
        self.assertEqual(differences(self.work / "result.h5", direct), "")
        self.expect_nothing_left(job, ["direct.h5", "result.h5"])

    def test_a_warning_to_one_rank_ends_all_with_75(self):
        job = self.submit_run()
        self.wait_for_words(job, " %  ")
        os.kill(self.processes(job)[1], signal.SIGUSR1)
        job.wait_for("FAILED", KILL_WAIT)
        self.assertEqual(job.get("ExitCode"), "75:0")
        self.assertIn("annulus: rank 1: stopped on request by signal USR1; nothing was kept but", job.output())
        self.expect_nothing_left(job)


class Cancelled(InterruptedJob):
    """Jobs that scancel ends, in any state."""

    def test_whoever_cancels_a_training_lets_it_save_and_gets_no_new_one(self):
        self.make_layer(self.work, steps=1000000)
        job = self.submit_training()
        self.wait_for_words(job, "step 10 ")
        self.do_as_documented("scancel JOB", job)
        job.wait_for("CANCELLED", KILL_WAIT)
        self.wait_for_words(job, "stopped on request after step ")  # so it ended before Slurm's KILL
        self.assertGreater(len(self.losses(self.work / "checkpoint.h5")), 10)
        self.expect_nothing_left(job, ["checkpoint.h5", "layer.h5"])
        time.sleep(7)  # a requeued job would begin again after 6
        self.assertEqual((job.get("JobState"), job.get("Restarts")), ("CANCELLED", "0"))

    def test_cancelled_while_pending(self):
        job = self.submit_run(options=["--hold"])
        self.assertEqual(job.get("JobState"), "PENDING")
        job.cancel()
        job.wait_for("CANCELLED", 10)
        self.expect_nothing_left(job)

    def test_cancelled_while_reading_and_while_writing(self):
        self.directly(1, "generate", "--output", "in.h5", "--sequence", "2048", "--heads", "4", directory=self.work)
        for call, path in (("open", "in.h5"), ("a hanging fsync", "")):
            job = self.submit_run("--set", "input={file: in.h5}", PRELOADED=str(self.slow_calls), SLOW_CALL=call,
                                  SLOW_PATH=path, SLOW_RANK="0", SLOW_SECONDS="60")
            self.wait_for_words(job, "slow: sleeps")
            job.cancel()
            job.wait_for("CANCELLED", KILL_WAIT)
            self.expect_nothing_left(job, ["in.h5"])


class Interrupted(InterruptedJob):
    """Jobs that something other than the user interrupts."""

    def test_a_run_requeued_in_the_middle_gives_the_same_bits(self):
        job = self.submit_run()
        self.wait_for_words(job, " %  ")
        self.assertEqual(len(list(self.work.glob("result.h5.part"))), 1)
        self.do_as_documented("scontrol requeue JOB", job)
        until(60, lambda: job.get("Restarts") == "1", "the requeue")
        job.wait_for("COMPLETED", 120)
        self.assertEqual(len(self.account.ranks(job, restart=1)), 2)
        self.assertEqual(differences(self.work / "result.h5", self.run_undisturbed(3, self.work / "run.yaml")), "")
        self.expect_nothing_left(job, ["direct.h5", "result.h5"])

    def test_a_killed_rank_ends_the_job(self):
        job = self.submit_run()
        self.wait_for_words(job, " %  ")
        victim = self.account.ranks(job)[1]
        self.assertEqual(victim["node"], "n2")
        os.kill(int(victim["pid"]), signal.SIGKILL)
        job.wait_for("FAILED", KILL_WAIT)
        self.assertEqual(job.get("ExitCode"), "137:0")
        self.expect_nothing_left(job)
