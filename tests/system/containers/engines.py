"""Container engines with everything of theirs in one folder, and an image made of this machine's C library and ration's programs."""
import json
import os
import pathlib
import shutil
import subprocess

from node_client import BIN, SOURCE, until

CONFIGURATION = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
netns = "none"
log_driver = "none"
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
"""
STORAGE = """[storage]
driver = "overlay"
graphroot = "{0}/images"
runroot = "{0}/run"
"""
TOOLS = "sh cat ls env mount umount su id mv cp rm echo sleep grep dd printf truncate".split()
LIBRARIES = "ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1".split()


def own_mounts():
    """Whether this process may have a mount namespace of its own, as the tests need it to keep away from the machine's folders."""
    return os.getuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


def in_own_mounts(arguments):
    """Starts this test again where /run is its own: engines look for devices in /run/cdi, wherever else they are told to look."""
    script = "mount -t tmpfs none /run && mkdir -p /run/cdi /run/lock && exec \"$@\""
    os.execvp("unshare", ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *arguments])


def root_file_system(folder):
    """The files of an image: busybox, this machine's glibc, ration-workload."""
    root = pathlib.Path(folder)
    for name in ("bin", "etc", "run", "tmp", "lib/x86_64-linux-gnu", "lib64", "var", "root", "usr/bin"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for tool in TOOLS:
        (root / "bin" / tool).symlink_to("busybox")
    for library in LIBRARIES:
        shutil.copy(pathlib.Path("/lib/x86_64-linux-gnu") / library, root / "lib/x86_64-linux-gnu" / library)
    (root / "lib64/ld-linux-x86-64.so.2").symlink_to("../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    shutil.copy(BIN / "ration-workload", root / "usr/bin/ration-workload")
    # A dynamic shell: busybox is static, and no static program is held.
    shutil.copy("/usr/bin/env", root / "usr/bin/env")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/tmp:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nalice:x:1000:\n")
    return root


class Engine:
    """What an engine's command line is asked here; every engine keeps all of its files in one folder."""
    name = ""
    environment = {}

    def command(self, *arguments):
        return [self.program, *map(str, arguments)]

    def call(self, *arguments, **options):
        options.setdefault("timeout", 120)
        return subprocess.run(self.command(*arguments), env=dict(os.environ, **self.environment), capture_output=True, text=True, **options)

    def make_image(self, root, name):
        archive = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
        made = subprocess.run(self.command("import", "-", name), stdin=archive.stdout, env=dict(os.environ, **self.environment), capture_output=True, text=True)
        archive.stdout.close()
        assert archive.wait() == 0 and made.returncode == 0, made.stderr


class Podman(Engine):
    """Debian's Podman with runc, rootful."""
    name = program = "podman"

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "podman"
        self.folder.mkdir()
        (self.folder / "containers.conf").write_text(CONFIGURATION)
        (self.folder / "storage.conf").write_text(STORAGE.format(self.folder))
        self.environment = {"CONTAINERS_CONF": str(self.folder / "containers.conf"), "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf")}

    @staticmethod
    def missing():
        return [program for program in ("podman", "runc", "busybox") if shutil.which(program) is None]

    def kill(self, name, with_its_keeper):
        """Kills the container's first process and, before it, what would clean up after it."""
        pid = int(self.call("inspect", "--format", "{{.State.Pid}}", name).stdout)
        keeper = int(pathlib.Path(self.call("inspect", "--format", "{{.ConmonPidFile}}", name).stdout.strip()).read_text())
        return [keeper, pid] if with_its_keeper else [pid]

    def remove(self, name):
        return self.call("rm", "--force", "--time", "0", name)

    def end(self):
        self.call("rm", "--all", "--force", "--time", "0")
        self.call("system", "reset", "--force")


class Docker(Engine):
    """Docker of Debian's next release, which knows CDI: unpacked by `./dev test` and started on a private socket."""
    name = "docker"
    place = SOURCE / "build/docker/usr"
    program = str(place / "bin/docker")

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "docker"
        self.folder.mkdir()
        socket = f"unix://{self.folder}/docker.sock"
        limits = {name: {"Name": name, "Soft": 20000, "Hard": 20000} for name in ("nofile", "nproc")}
        (self.folder / "daemon.json").write_text(json.dumps({
            "data-root": f"{self.folder}/data", "exec-root": f"{self.folder}/run", "pidfile": f"{self.folder}/pid", "hosts": [socket], "iptables": False,
            "ip6tables": False, "bridge": "none", "exec-opts": ["native.cgroupdriver=cgroupfs"], "features": {"cdi": True}, "cdi-spec-dirs": ["/run/cdi"],
            "default-ulimits": limits}))
        path = f"{self.place}/bin:{self.place}/sbin:{os.environ['PATH']}"
        self.log = open(self.folder / "log", "w")
        self.daemon = subprocess.Popen([self.place / "sbin/dockerd", "--config-file", self.folder / "daemon.json"], env=dict(os.environ, PATH=path),
                                       stdout=self.log, stderr=subprocess.STDOUT)
        self.environment = {"DOCKER_HOST": socket, "DOCKER_CONFIG": str(self.folder), "PATH": path}
        until(lambda: self.daemon.poll() is not None or self.call("version").returncode == 0, "dockerd answers")

    @classmethod
    def missing(cls):
        return [program for program in ("runc", "busybox") if shutil.which(program) is None] + ([] if os.access(cls.place / "sbin/dockerd", os.X_OK) else ["docker"])

    def command(self, *arguments):
        words = list(map(str, arguments))
        if words[0] == "run":
            words.insert(1, "--network=none")
        return [self.program, *words]

    def kill(self, name, with_its_keeper):
        pid = int(self.call("inspect", "--format", "{{.State.Pid}}", name).stdout)
        keeper = int((pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[1])
        return [keeper, pid] if with_its_keeper else [pid]

    def remove(self, name):
        return self.call("rm", "--force", name)

    def end(self):
        for container in self.call("ps", "--all", "--quiet").stdout.split():
            self.remove(container)
        self.daemon.terminate()
        self.daemon.wait()
        self.log.close()
