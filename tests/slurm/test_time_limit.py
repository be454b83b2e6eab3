"""Jobs that reach their time limit. Slurm checks every 30 s: a limit of a minute ends a job within 90 s. Two jobs run
at the same time."""
from case import RUN, ClusterTest
from cluster import KILL_WAIT, until


class TimeLimit(ClusterTest):
    def test_a_minute(self):
        account = self.new_account()
        trained, stopped = account.new_folder("trained"), account.new_folder("stopped")
        self.make_layer(trained, steps=1000000)
        # One rank that sleeps, so that two jobs do not compete for this machine's cores.
        (stopped / "run.yaml").write_text(RUN)
        one_node = ["--nodes=1", "--ntasks-per-node=1"]
        run = self.submit(account, "generic/cpu.sbatch", "run.yaml", directory=stopped, options=[*one_node, "--time=1"],
                          PRELOADED=str(self.slow_calls), SLOW_CALL="a hanging fsync", SLOW_RANK="0",
                          SLOW_SECONDS="1000")
        training = self.submit(account, "generic/train.sbatch", "layer.yaml", directory=trained,
                               options=[*one_node, "--time=4"])

        # The script asks for a warning three minutes before the end. Here it comes 30 to 60 s after the start.
        until(120, lambda: training.get("Restarts") == "1",
              lambda: f"the requeue, not {training.states()}\n" + training.output())
        self.assertIn("stopped on request after step ", training.output())
        until(60, lambda: "goes on from" in training.output(), lambda: "the restart\n" + training.output())
        training.cancel()

        run.wait_for("TIMEOUT", 120)
        self.assertIn("DUE TO TIME LIMIT", run.output())
        self.assertEqual(run.output().count("annulus: error: ended by signal TERM; nothing was kept but"), 1,
                         run.output())
        self.assertEqual(self.files_of_results(stopped), [])
