"""ReFrame's view of this machine: no batch system, ranks started by mpirun.

Copy it for a cluster and change `scheduler` to "slurm", `launcher` to "srun", and add partitions and their modules.
"""
site_configuration = {
    "systems": [
        {
            "name": "local",
            "descr": "this machine, no batch system",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "cpu",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["builtin"],
                    "max_jobs": 1,  # jobs at the same time would slow each other down
                }
            ],
        }
    ],
}
