"""Configuration files of the pretend cluster, with {names} that cluster.py fills in."""
SLURM_CONF = """\
ClusterName=pretend
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
# A requeued job can begin again only when its credential has expired: here after 6 s, by default after 2 minutes.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
# The pretend nodes have the same host name. Without a folder for each, the shared-memory files of their ranks collide.
TmpFS={folder}/tmp.%n
TaskProlog={folder}/task_prolog
ProctrackType=proctrack/linuxproc
TaskPlugin={task_plugin}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
EnforcePartLimits=ALL
ReturnToService=2
GresTypes=gpu
KillWait={kill_wait}
OverTimeLimit=0
MinJobAge=3600
"""
NODE = "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} " \
       "RealMemory=500000 Gres=gpu:{gpus} Feature=cpu,gpu\n"
PARTITION = "PartitionName={name} Nodes=n[1-2] Default={default} MaxTime=INFINITE OverSubscribe=EXCLUSIVE State=UP\n"
GPUS = 8
GRES_CONF = "NodeName=n[1-2] Name=gpu File={folder}/gpu[0-7]\n"  # never opened
TASK_PROLOG = """\
#!/bin/sh
echo "export TMPDIR={folder}/tmp.$SLURMD_NODENAME"
echo "export OMPI_MCA_btl_vader_backing_directory={folder}/tmp.$SLURMD_NODENAME"
echo "export OMPI_MCA_btl_tcp_if_include=lo"
echo "export OMPI_MCA_mpi_yield_when_idle=1"
"""
