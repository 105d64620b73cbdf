"""A real Slurm of several nodes on one machine: for each node a slurmd beside a rationd on simulated cards, and munged, slurmctld, and where accounting is
wanted slurmdbd with MariaDB. Its configuration is what `ration snippet slurm --node` prints. Used by `ration demo --scenario slurm` and by the tests.
It runs where this process has a file system, a network and process numbers of its own (in_own_system), and ends with it."""
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacct", "sacctmgr")
PATIENCE = 120  # seconds until a condition that is polled counts as never
HOST = "ration-slurm"
CONTROL_PORT, DATABASE_PORT, SQL_PORT, FIRST_NODE_PORT = 6817, 6819, 3306, 6820
SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "slurm"
DEVICES = ("full", "null", "random", "tty", "urandom", "zero", "fd", "stdin", "stdout", "stderr")  # what every program may look for
PRIVILEGED = os.pathsep + os.pathsep.join(("/usr/sbin", "/sbin"))


def own_system(words, root=None, shown=()):
    """The command that runs `words` with /run, /etc/hosts, a host name, a network and process numbers of their own: what is made there is gone with
    them, and so is every process. With `root` that system is the file system, beside the folders `shown`, and nothing in it is changed."""
    steps = ["set -e"]
    if root:
        steps += ["mount -t tmpfs none /run", "mkdir /run/upper /run/work /run/root",
                  f"mount -t overlay overlay -o lowerdir={root},upperdir=/run/upper,workdir=/run/work /run/root", "cd /run/root",
                  *(f"mkdir -p .{folder} && mount --bind {folder} .{folder}" for folder in shown), *(f"mount --rbind /{place} {place}" for place in ("dev", "proc", "sys")),
                  "pivot_root . tmp", "cd /", "umount -l /tmp", "mount -t tmpfs none /tmp"]
    steps += ["mount -t tmpfs none /run", "mkdir -p /run/lock", f"hostname {HOST}", "cp -a /etc /run/etc", "mount --bind /run/etc /etc",
              f"echo '127.0.0.1 localhost {HOST}' > /etc/hosts", 'exec "$@"']
    return ["unshare", "-m", "-u", "-n", "-p", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "sh", "-c", "\n".join(steps), "sh", *map(str, words)]


def raise_loopback():
    """Its second address: where 127.0.0.1 is the only one, the C library takes the machine for one without a network, and Slurm does not start."""
    set_address, set_flags, up = 0x8916, 0x8914, 1
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sH14x", b"lo", up))
        fcntl.ioctl(any_socket, set_address, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton("127.0.0.2")))


def missing(programs):
    return [program for program in programs if shutil.which(program, path=os.environ["PATH"] + PRIVILEGED) is None]


def until(condition, what):
    """`what`: a text, or what makes it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.01)  # the processors are for those it waits for
    raise AssertionError("never: " + (what() if callable(what) else what))


def has_device_groups():
    return os.path.exists("/sys/fs/cgroup/devices/devices.list") and os.access("/sys/fs/cgroup/devices", os.W_OK)


def parts_of(snippet):
    """The lines for each file of Slurm's, by its name; those that belong to the line of a node by `node`."""
    parts, lines = {}, []
    for line in snippet.splitlines():
        if line.startswith("# "):
            named = re.search(r"[a-z_]+\.(?:conf|lua)|\bnode\b", line)
            lines = parts.setdefault(named.group() if named else "", [])
        elif line:
            lines.append(line)
    return parts


class Node:
    """What one machine of a cluster has: /run/node is its own, and in it ration's folder, its cards and its daemon; and /dev, with its GPUs."""

    def __init__(self, folder, name, cards, ration):
        """`cards` as --sim has them; `ration`: the program."""
        self.name, self.cards, self.folder, self.program = name, cards, pathlib.Path(folder) / name, pathlib.Path(ration)
        for inside in ("ration", "sim", "state"):
            (self.folder / inside).mkdir(parents=True, mode=0o755)
        (self.folder / "sim").chmod(0o777)
        self.variables = {"RATION_RUNTIME_DIR": "/run/node/ration", "RATION_STATE_DIR": "/run/node/state", "RATION_CONFIG": "/run/node/ration/ration.toml",
                          "RATION_SIM_DIR": "/run/node/sim", "RATION_SIM": ",".join(cards)}
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_"))}
        self.environment = dict(own, **self.variables, HOME="/root", LC_ALL="C.UTF-8")
        (self.folder / "ration/ration.toml").write_text('[daemon]\nsample = "100ms"\nsample_idle = "100ms"\n')
        self.write_program("hook", *(f"export {key}='{value}'" for key, value in self.variables.items()), f'exec {shlex.quote(str(self.program))} "$@"')
        dev = self.folder / "dev"
        self.space = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-ec", "\n".join([
            f"mkdir -p /run/node {dev}", f"mount --bind {self.folder} /run/node", f"mount -t tmpfs -o mode=755 none {dev}",
            f"for each in {' '.join(DEVICES)}; do cp -a /dev/$each {dev}; done", f"mkdir {dev}/pts {dev}/shm", f"ln -s pts/ptmx {dev}/ptmx",
            f"mount --rbind /dev/pts {dev}/pts", f"mount -t tmpfs -o mode=1777 none {dev}/shm",
            # A number that no other device has: Slurm's control groups go by it.
            f"for each in {' '.join(map(str, range(len(cards))))}; do mknod -m 666 {dev}/nvidia$each c 240 $each; chmod 666 {dev}/nvidia$each; done",
            f"mount --rbind {dev} /dev", "touch /run/node/ready", "exec sleep infinity"])], stdin=subprocess.DEVNULL, start_new_session=True)
        until(lambda: (self.folder / "ready").exists() or self.space.poll() is not None, "the node's mounts")
        self.daemon = None
        self.begin()
        # Programs of every user share the simulated cards, as they share real ones.
        done = self.ration("run", "--limit", "1GiB", "--", "true")
        assert done.returncode == 0, done.stderr
        for place, _, files in os.walk(self.folder / "sim"):
            for path in [place, *(os.path.join(place, name) for name in files)]:
                os.chmod(path, 0o777)

    def write_program(self, name, *lines):
        path = self.folder / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)
        return path

    def inside(self, *words):
        return ["nsenter", "-t", str(self.space.pid), "-m", *map(str, words)]

    def begin(self):
        with open(self.folder / "rationd.log", "a") as log:
            self.daemon = subprocess.Popen(self.inside(self.program.with_name("rationd"), "--state", "/run/node/state", "--listen", "127.0.0.1:0"),
                                           env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        line = self.daemon.stdout.readline()
        assert "ration" in line, (self.folder / "rationd.log").read_text()

    def end(self, how=signal.SIGTERM):
        if self.daemon is not None:
            self.daemon.send_signal(how)
            self.daemon.wait()
            self.daemon.stdout.close()
            self.daemon = None

    def close(self):
        self.end()
        self.space.kill()
        self.space.wait()

    def ration(self, *words, **options):
        return subprocess.run(self.inside(self.program, *words), env=self.environment, capture_output=True, text=True, timeout=PATIENCE, **options)


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
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,default_queue_depth=2000,sched_min_interval=0
MaxArraySize=2000
ReturnToService=2
MailProg=/bin/true
MpiDefault=none
KillWait=2
PlugStackConfig={folder}/plugstack.conf
{lines}
PartitionName=gpu Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""
CGROUP = ("CgroupPlugin=cgroup/v1", "CgroupMountpoint=/sys/fs/cgroup", "ConstrainCores=no", "ConstrainRAMSpace=no")
ACCOUNTS = ("AccountingStorageType=accounting_storage/slurmdbd", "AccountingStorageHost=127.0.0.1", f"AccountingStoragePort={DATABASE_PORT}",
            "AccountingStoragePass={folder}/munge.socket", "AccountingStoreFlags=job_comment")
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
    def __init__(self, folder, nodes, plugin, accounting=False, devices=False):
        """`nodes`: by their names. `devices`: control groups keep jobs from GPUs that they were not granted."""
        self.folder, self.nodes, self.devices = pathlib.Path(folder), nodes, devices
        self.folder.mkdir(mode=0o755)
        (self.folder / "state").mkdir(mode=0o755)
        self.environment = dict(os.environ, PATH=os.environ["PATH"] + PRIVILEGED, SLURM_CONF=str(self.folder / "slurm.conf"))
        self.processes = {}
        self.configure(plugin, accounting)
        self.begin_munge()
        if accounting:
            self.begin_accounting()
        self.begin("slurmctld", "-D", "-c", "-f", self.folder / "slurm.conf")
        for name in nodes:
            self.begin_node(name)
        until(lambda: self.call("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == str(len(nodes)), lambda: "the nodes are idle: " + self.logs())

    def configure(self, plugin, accounting):
        told = {name: parts_of(node.ration("snippet", "slurm", "--node", name).stdout) for name, node in self.nodes.items()}
        parts = next(iter(told.values()))
        lines = parts["slurm.conf"]
        if not self.devices:
            lines = [{"ProctrackType": "ProctrackType=proctrack/linuxproc", "TaskPlugin": "TaskPlugin=task/none"}.get(line.split("=")[0], line) for line in lines]
        if accounting:
            lines = lines + [line.format(folder=self.folder) for line in ACCOUNTS]
        else:  # slurmctld does not start with it alone
            lines = [line for line in lines if not line.startswith("AccountingStorage")]
        lines = lines + [f"{told[name]['node'][0]} NodeHostname={HOST} NodeAddr=127.0.0.1 Port={FIRST_NODE_PORT + number} CPUs=32 RealMemory=64000 State=UNKNOWN"
                         for number, name in enumerate(self.nodes)]
        texts = {"slurm.conf": [CONFIGURATION.format(host=HOST, folder=self.folder, control_port=CONTROL_PORT, lines="\n".join(lines), names=",".join(self.nodes))],
                 "gres.conf": sorted((line for each in told.values() for line in each["gres.conf"]), key=lambda line: "Name=shard" in line),
                 "plugstack.conf": [f"required {plugin} ration=/run/node/hook"],
                 "cli_filter.lua": [(SCRIPTS / "cli_filter.lua").read_text()],
                 "job_submit.lua": [*parts["job_submit.lua"], (SCRIPTS / "job_submit.lua").read_text()]}
        # Without devices, too: slurmd loads what fits the machine, and that of control groups v2 wants systemd; this one does nothing by itself.
        texts["cgroup.conf"] = [*CGROUP, *(parts["cgroup.conf"] if self.devices else ())]
        for name, text in texts.items():
            (self.folder / name).write_text("\n".join(text) + "\n")

    def begin(self, program, *words, ready=None, inside=()):
        with open(self.folder / f"{program}.out", "a") as log:
            self.processes[program + str(words[-1] if program == "slurmd" else "")] = process = subprocess.Popen(
                [*inside, program, *map(str, words)], env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        if ready:
            until(lambda: process.poll() is not None or ready(), lambda: f"{program} is ready: {self.logs()}")
        return process

    def begin_node(self, name):
        self.begin("slurmd", "-D", "-f", self.folder / "slurm.conf", "-N", name, inside=self.nodes[name].inside())

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
        self.begin("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket_path}", f"--port={SQL_PORT}",
                   "--bind-address=127.0.0.1", f"--pid-file={self.folder}/mysql.pid", ready=socket_path.exists)
        sql = "create database slurm_acct_db; create user slurm@'%' identified by 'x'; grant all on slurm_acct_db.* to slurm@'%'; " \
              f"drop user if exists ''@'localhost', ''@'{HOST}';"
        until(lambda: subprocess.run(["mariadb", "--no-defaults", f"--socket={socket_path}", "-uroot", "-e", sql], env=self.environment,
                                     capture_output=True).returncode == 0, "the database")
        path = self.folder / "slurmdbd.conf"
        path.write_text(DATABASE.format(folder=self.folder, database_port=DATABASE_PORT, sql_port=SQL_PORT))
        path.chmod(0o600)
        self.begin("slurmdbd", "-D")
        until(lambda: self.call("sacctmgr", "-n", "show", "cluster").returncode == 0, lambda: f"slurmdbd answers: {self.logs()}")
        self.call("sacctmgr", "-i", "add", "cluster", "ration")

    def call(self, *words, **options):
        """A command of Slurm's hangs for minutes where its controller is not there."""
        options.setdefault("timeout", 60)
        options.setdefault("cwd", str(self.folder))
        try:
            return subprocess.run([str(word) for word in words], env=dict(self.environment, **options.pop("env", {})), capture_output=True, text=True, **options)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{words} did not end: {late.stdout} {late.stderr} {self.logs()}") from None

    def states(self):
        """Of each job that has not ended its state, and its node where it has one."""
        lines = self.call("squeue", "-h", "-o", "%i %T %N").stdout.splitlines()
        return {line.split()[0]: line.split()[1:] for line in lines}

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
