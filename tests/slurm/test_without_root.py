"""An ordinary user of a cluster: a clone, modules, CMake, a job. No tools/setup, no root rights, no cache."""
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from account import Account
from case import ClusterTest
from cluster import Cluster

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
SOURCES = ("CMakeLists.txt", "CMakePresets.json", "src", "tools")


class WithoutRoot(ClusterTest):
    def setUp(self):
        super().setUp()
        self.as_user = NOBODY if os.geteuid() == 0 else []
        self.account = Account(self.folder / "account", self.source, self.program)
        self.account.build_afresh(self.source, SOURCES)

    def give_to_user(self):
        self.folder.chmod(0o755)
        if self.as_user:
            subprocess.run(["chown", "-R", "65534:65534", self.account.folder], check=True, timeout=60)

    def in_login_shell(self, commands, seconds):
        """What the user sees if the commands are typed in the clone, with only the system's PATH."""
        variables = self.account.variables(PATH="/usr/bin:/bin", LANG="C.UTF-8", CMAKE_BUILD_PARALLEL_LEVEL="2")
        shell = subprocess.Popen([*self.as_user, "bash", "-lec", commands], cwd=self.account.clone, env=variables,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            said, _ = shell.communicate(timeout=seconds)
        finally:
            if shell.poll() is None:  # ends the compilers that the shell started, too
                os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
        self.assertEqual(shell.returncode, 0, said[-4000:])
        return said

    def test_from_a_clone_to_a_result(self):
        kokkos = self.copy_of_kokkos()
        self.account.add_module("kokkos", kokkos)
        shutil.copy(Path(__file__).parent / "quick_build.cmake", self.account.folder)
        self.give_to_user()
        # Without optimization, because compiling is then quick; other tests show that the program is fast.
        quick = f"-DCMAKE_PROJECT_annulus_INCLUDE={self.account.folder}/quick_build.cmake"
        commands = self.documented_block("build").replace("cmake --preset", f"cmake {quick} --preset")
        said = self.in_login_shell(commands, 1500)
        self.assertIn(f"in {kokkos}", said)
        with Cluster(self.scratch / "users_cluster", as_user=self.as_user) as cluster:
            options = ["--ntasks-per-node=1", "--cpus-per-task=1", "--job-name=first"]
            job = cluster.submit(*options, "job_scripts/generic/cpu.sbatch", "input/quickstart.yaml",
                                 directory=self.account.clone, **self.account.variables()).wait_for("COMPLETED", 60)
            self.assertEqual(job.get("UserId").split("(")[0], cluster.run("id", "-un").strip())
        self.assertIn("build/quickstart.h5", job.output())
        self.in_login_shell("build/release/annulus verify input/quickstart.yaml", 300)

    def copy_of_kokkos(self):
        """Copies Kokkos to where the user can read it, as a site's module would."""
        cache = (self.program.parent / "CMakeCache.txt").read_text()
        config = Path(re.search(r"^Kokkos_DIR:PATH=(.*)$", cache, re.MULTILINE)[1])
        prefix = self.account.folder / "kokkos"
        shutil.copytree(config.parent.parent.parent, prefix)
        return prefix
