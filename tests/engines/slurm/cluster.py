"""A real Slurm with everything of it in one folder: munged, slurmctld, two slurmd of this machine, and where accounting is wanted slurmdbd with MariaDB.
Runs where this process has mounts and a host name of its own (in_own_mounts)."""
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess

from node_client import SOURCE, free_ports, until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacct", "sacctmgr")
GPU_MIB = 144384  # 141 GiB
NODES = {"n1": 2, "n2": 1}  # GPUs


def in_own_mounts(arguments, root=None):
    """/run and /etc/hosts its own, and a host name that resolves; what slurmd makes in /etc is gone with it, and so is every process. With `root` that
    system is the file system, with this source tree and what the kernel has, and nothing in it is changed."""
    steps = ["set -e"]
    if root:
        steps += ["mount -t tmpfs none /run", "mkdir /run/upper /run/work /run/root",
                  f"mount -t overlay overlay -o lowerdir={root},upperdir=/run/upper,workdir=/run/work /run/root", "cd /run/root", f"mkdir -p .{SOURCE}", f"mount --bind {SOURCE} .{SOURCE}",
                  *(f"mount --rbind /{place} {place}" for place in ("dev", "proc", "sys")), "pivot_root . tmp", "cd /", "umount -l /tmp", "mount -t tmpfs none /tmp"]
    steps += ["mount -t tmpfs none /run", "mkdir -p /run/lock", "hostname ration-slurm", "cp -a /etc /run/etc", "mount --bind /run/etc /etc",
              "echo '127.0.0.1 localhost ration-slurm' > /etc/hosts", 'exec "$@"']
    os.execvp("unshare", ["unshare", "-m", "-u", "-p", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "sh", "-c", "\n".join(steps), "sh", *arguments])


def missing(programs):
    return [program for program in programs if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None]


def has_device_groups():
    return os.path.exists("/sys/fs/cgroup/devices/devices.list") and os.access("/sys/fs/cgroup/devices", os.W_OK)


CONFIGURATION = """
ClusterName=ration
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={control_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
{tracking}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,default_queue_depth=2000,sched_min_interval=0
MaxArraySize=2000
GresTypes=gpu,shard
ReturnToService=2
MailProg=/bin/true
MpiDefault=none
KillWait=2
PlugStackConfig={folder}/plugstack.conf
CliFilterPlugins=cli_filter/lua
JobSubmitPlugins=lua
PrologFlags=Alloc,Contain
{accounting}
{nodes}
PartitionName=gpu Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""
CGROUP = """CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainCores=no
ConstrainRAMSpace=no
ConstrainDevices=yes
"""
DATABASE = """AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={database_port}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql_port}
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
"""


class Cluster:
    """`spaces`: by node a process whose mounts its slurmd has."""

    def __init__(self, folder, plugin, spaces, accounting=False):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(mode=0o755)
        self.ports = free_ports(3 + len(NODES))
        self.control_port, self.database_port, self.sql_port = self.ports[:3]
        self.environment = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin", SLURM_CONF=str(self.folder / "slurm.conf"))
        self.processes, self.spaces = {}, spaces
        self.devices = has_device_groups()
        for name in ("state", "dev"):
            (self.folder / name).mkdir(mode=0o755)
        for number in range(sum(NODES.values())):
            os.mknod(self.folder / "dev" / f"nvidia{number}", 0o666 | stat.S_IFCHR, os.makedev(240, number))
            os.chmod(self.folder / "dev" / f"nvidia{number}", 0o666)
        self.configure(plugin, accounting)
        self.begin_munge()
        if accounting:
            self.begin_accounting()
        self.begin("slurmctld", "-D", "-c", "-f", self.folder / "slurm.conf")
        for name in NODES:
            self.begin_node(name)
        until(lambda: self.call("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == str(len(NODES)), "the nodes are idle: " + self.logs())

    def configure(self, plugin, accounting):
        nodes, gres, first = [], [], 0
        for (name, gpus), port in zip(NODES.items(), self.ports[3:]):
            nodes.append(f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs=32 RealMemory=64000 "
                         f"Gres=gpu:h200:{gpus},shard:{gpus * GPU_MIB} State=UNKNOWN")
            for number in range(first, first + gpus):
                gres.append(f"NodeName={name} Name=gpu Type=h200 File={self.folder}/dev/nvidia{number}")
                gres.append(f"NodeName={name} Name=shard Count={GPU_MIB} File={self.folder}/dev/nvidia{number}")
            first += gpus
        tracking = "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup" if self.devices else "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none"
        database = (f"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\nAccountingStoragePort={self.database_port}\n"
                    f"AccountingStoragePass={self.folder}/munge.socket\nAccountingStorageTRES=gres/gpu,gres/shard\n"
                    "AccountingStoreFlags=job_comment") if accounting else ""
        gres.sort(key=lambda line: "Name=shard" in line)
        (self.folder / "gres.conf").write_text("\n".join(gres) + "\n")
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=socket.gethostname(), folder=self.folder, control_port=self.control_port, tracking=tracking, accounting=database,
            nodes="\n".join(nodes), names=",".join(NODES)))
        if self.devices:
            (self.folder / "cgroup.conf").write_text(CGROUP)
        (self.folder / "plugstack.conf").write_text(f"required {plugin}\n")
        for script in ("cli_filter.lua", "job_submit.lua"):
            shutil.copy(SOURCE / "share/ration/slurm" / script, self.folder)

    def begin(self, program, *words, ready=None, inside=()):
        log = open(self.folder / f"{program}.out", "a")
        self.processes[program + str(words[-1] if program == "slurmd" else "")] = process = subprocess.Popen(
            [*inside, program, *map(str, words)], env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        if ready:
            until(lambda: process.poll() is not None or ready(), f"{program} is ready: {self.logs()}")
        return process

    def begin_node(self, name):
        self.begin("slurmd", "-D", "-f", self.folder / "slurm.conf", "-N", name, inside=["nsenter", "-t", str(self.spaces[name].pid), "-m"])

    def begin_munge(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self.begin("munged", "-F", "-f", f"--key-file={key}", f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                   f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munge.seed", ready=(self.folder / "munge.socket").exists)

    def begin_accounting(self):
        data = self.folder / "mysql"
        subprocess.run(["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--auth-root-authentication-method=normal"],
                       env=self.environment, check=True, capture_output=True)
        socket_path = self.folder / "mysql.socket"
        self.begin("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket_path}", f"--port={self.sql_port}",
                   "--bind-address=127.0.0.1", f"--pid-file={self.folder}/mysql.pid", ready=socket_path.exists)
        sql = "create database slurm_acct_db; create user slurm@'%' identified by 'x'; grant all on slurm_acct_db.* to slurm@'%'; " \
              "drop user if exists ''@'localhost', ''@'ration-slurm';"
        until(lambda: subprocess.run(["mariadb", "--no-defaults", f"--socket={socket_path}", "-uroot", "-e", sql], env=self.environment,
                                     capture_output=True).returncode == 0, "the database")
        path = self.folder / "slurmdbd.conf"
        path.write_text(DATABASE.format(folder=self.folder, database_port=self.database_port, sql_port=self.sql_port))
        path.chmod(0o600)
        self.begin("slurmdbd", "-D")
        until(lambda: self.call("sacctmgr", "-n", "show", "cluster").returncode == 0, f"slurmdbd answers: {self.logs()}")
        self.call("sacctmgr", "-i", "add", "cluster", "ration")

    def call(self, *words, **options):
        """A command of Slurm's hangs for minutes where its controller is not there."""
        options.setdefault("timeout", 60)
        try:
            return subprocess.run([str(word) for word in words], env=dict(self.environment, **options.pop("env", {})), capture_output=True, text=True,
                                  cwd=str(self.folder), **options)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{words} did not end: {late.stdout} {late.stderr} {self.logs()}") from None

    def logs(self):
        return "\n".join(f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-25:])
                         for path in sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out")))

    def end(self):
        subprocess.run(["scancel", "--state=RUNNING"], env=self.environment, capture_output=True, timeout=20)
        subprocess.run(["scancel", "--state=PENDING"], env=self.environment, capture_output=True, timeout=20)
        try:
            until(lambda: not self.call("squeue", "-h", timeout=10).stdout.strip(), "the jobs end")
        finally:
            for process in reversed(list(self.processes.values())):
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
