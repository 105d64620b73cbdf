"""Container engines with everything of theirs in one folder, and an image made of this machine's C library and ration's programs."""
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess

import waiting
from node_client import BIN, SOURCE, until
from own_machine import CHECKOUT

PROGRAM_PATIENCE = 300  # seconds that a program in a container may take
waiting.CASE_SECONDS = 2 * PROGRAM_PATIENCE

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
CONTAINERD = """version = 2
root = "{0}/root"
state = "{0}/state"
disabled_plugins = [{1}"io.containerd.internal.v1.opt"]
[grpc]
address = "{0}/containerd.sock"
[ttrpc]
address = "{0}/containerd.sock.ttrpc"
"""
# The interface by which Kubernetes asks it for containers, where it reads the devices of CDI.
CRI = """[plugins."io.containerd.grpc.v1.cri"]
enable_cdi = true
cdi_spec_dirs = ["/run/cdi"]
sandbox_image = "localhost/ration-test:1"
disable_apparmor = true
restrict_oom_score_adj = true
"""
DOCKERS_CAPABILITIES = "CHOWN DAC_OVERRIDE FOWNER FSETID MKNOD SETFCAP SETGID SETPCAP SETUID".split()
TOOLS = "sh cat ls env mount umount su id mv cp rm echo sleep grep dd printf truncate".split()
LIBRARIES = "ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1".split()


def own_mounts():
    """Whether this process may have a mount namespace of its own, as the tests need it to keep away from the machine's folders."""
    return os.getuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


def in_own_mounts(arguments):
    """Starts this test again where /run is its own: engines look for devices in /run/cdi, wherever else they are told to look."""
    script = CHECKOUT + "hold_checkout && mount -t tmpfs none /run && put_checkout_back && mkdir -p /run/cdi /run/lock && exec \"$@\""
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

    def execute(self, name, *words, user="0"):
        """In a container that runs."""
        return self.call("exec", "--user", user, name, *words)

    def make_image(self, root, name, *options):
        archive = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
        made = subprocess.run(self.command("import", *options, "-", name), stdin=archive.stdout, env=dict(os.environ, **self.environment), capture_output=True, text=True)
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


class PrivateDaemon(Engine):
    """Of Debian's next release, unpacked by `./dev test` and started on a private socket."""
    place = SOURCE / "build/docker/usr"

    def begin(self, program, *words, **environment):
        path = f"{self.place}/bin:{self.place}/sbin:{os.environ['PATH']}"
        self.environment = dict(environment, PATH=path)
        self.log = open(self.folder / "log", "w")
        self.daemon = subprocess.Popen([self.place / program, *words], env=dict(os.environ, PATH=path), stdout=self.log, stderr=subprocess.STDOUT)
        until(lambda: self.daemon.poll() is not None or self.call("version").returncode == 0, f"{program} answers")

    @staticmethod
    def keeper_of(pid):
        """Its parent, which would clean up after it."""
        return int((pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[1])

    def end(self):
        self.daemon.terminate()
        self.daemon.wait()
        self.log.close()


class Docker(PrivateDaemon):
    """It knows CDI."""
    name = "docker"
    program = str(PrivateDaemon.place / "bin/docker")

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "docker"
        self.folder.mkdir()
        socket = f"unix://{self.folder}/docker.sock"
        limits = {name: {"Name": name, "Soft": 20000, "Hard": 20000} for name in ("nofile", "nproc")}
        (self.folder / "daemon.json").write_text(json.dumps({
            "data-root": f"{self.folder}/data", "exec-root": f"{self.folder}/run", "pidfile": f"{self.folder}/pid", "hosts": [socket], "iptables": False,
            "ip6tables": False, "bridge": "none", "exec-opts": ["native.cgroupdriver=cgroupfs"], "features": {"cdi": True}, "cdi-spec-dirs": ["/run/cdi"],
            "default-ulimits": limits}))
        self.begin("sbin/dockerd", "--config-file", self.folder / "daemon.json", DOCKER_HOST=socket, DOCKER_CONFIG=str(self.folder))

    @classmethod
    def missing(cls):
        return [program for program in ("runc", "busybox") if shutil.which(program) is None] + ([] if os.access(cls.place / "sbin/dockerd", os.X_OK) else ["docker"])

    def call(self, *arguments, **options):
        """On a loaded machine Docker can lose what a container printed just before it ended (moby/moby#45689): one that printed nothing is run again."""
        done = super().call(*arguments, **options)
        lost = arguments[0] in ("run", "exec") and "--detach" not in arguments and (done.returncode, done.stdout, done.stderr) == (0, "", "")
        return super().call(*arguments, **options) if lost else done

    def command(self, *arguments):
        words = list(map(str, arguments))
        if words[0] == "run":
            words.insert(1, "--network=none")
        return [self.program, *words]

    def kill(self, name, with_its_keeper):
        pid = int(self.call("inspect", "--format", "{{.State.Pid}}", name).stdout)
        return [self.keeper_of(pid), pid] if with_its_keeper else [pid]

    def remove(self, name):
        return self.call("rm", "--force", name)

    def end(self):
        for container in self.call("ps", "--all", "--quiet").stdout.split():
            self.remove(container)
        super().end()


class Containerd(PrivateDaemon):
    """Asked by `ctr run --config`: it knows no devices of CDI, so `ration inject oci` writes what
    they are into the configuration. An image is a folder."""
    name = "container"
    program = str(PrivateDaemon.place / "bin/ctr")

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "containerd"
        self.folder.mkdir()
        self.socket = self.folder / "containerd.sock"
        self.bundles = 0
        (self.folder / "config.toml").write_text(self.configured())
        self.begin("bin/containerd", "--config", self.folder / "config.toml", CONTAINERD_ADDRESS=str(self.socket))

    @classmethod
    def missing(cls):
        return [program for program in ("runc", "busybox") if shutil.which(program) is None] + \
            [program for program in ("containerd", "ctr", "containerd-shim-runc-v2") if not os.access(cls.place / "bin" / program, os.X_OK)]

    def configured(self):
        return CONTAINERD.format(self.folder, '"io.containerd.grpc.v1.cri", ')

    def configuration(self, root, words, options=()):
        """As `runc spec` writes it, for these words. Options: those of Docker that tests use."""
        self.bundles += 1
        bundle = self.folder / f"bundle-{self.bundles}"
        bundle.mkdir()
        subprocess.run(["runc", "spec", "--bundle", bundle], check=True, capture_output=True)
        file = bundle / "config.json"
        spec = json.loads(file.read_text())
        spec["root"] = {"path": str(root), "readonly": "--read-only" in options}
        spec["process"].update(args=list(words), terminal=False, rlimits=[{"type": f"RLIMIT_{name}", "soft": 20000, "hard": 20000} for name in ("NOFILE", "NPROC")])
        for kind in ("bounding", "effective", "permitted"):
            spec["process"]["capabilities"][kind] += [f"CAP_{name}" for name in DOCKERS_CAPABILITIES]
        spec["process"]["env"] += [value for option, value in zip(options, options[1:]) if option == "-e"]
        for option, value in zip(options, options[1:]):
            if option == "--user":
                spec["process"]["user"] = dict(zip(("uid", "gid"), map(int, value.split(":"))))
            if option == "-v":
                source, destination = value.split(":")
                spec["mounts"].append({"destination": destination, "type": "bind", "source": source, "options": ["bind", "ro"]})
        spec["linux"]["cgroupsPath"] = f"/ration-test/{bundle.name}"
        file.write_text(json.dumps(spec))
        return file

    def run(self, ration, device, root, words, name=None, options=(), detach=False):
        """`ration`: how the case calls it."""
        file = self.configuration(root, words, options)
        kind, value = device.split("/", 1)[1].split("=", 1)
        done = ration("inject", "oci", file, *({"gpu": ["--slice", value], "tenant": ["--tenant", value]}.get(kind) or ["--limit", value]))
        if done.returncode != 0:
            return done
        return self.call("run", *(["--detach"] if detach else ["--rm"]), "--config", file, name or file.parent.name)

    def make_image(self, root, name):
        pass

    def execute(self, name, *words, user="0"):
        self.bundles += 1
        return self.call("task", "exec", "--exec-id", f"exec-{self.bundles}", "--user", user, name, *words)

    def pid(self, name):
        return next(int(line.split()[1]) for line in self.call("task", "ls").stdout.splitlines() if line.split()[0] == name)

    def kill(self, name, with_its_keeper):
        pid = self.pid(name)
        return [self.keeper_of(pid), pid] if with_its_keeper else [pid]

    def remove(self, name):
        self.call("task", "rm", "--force", name)
        return self.call("container", "rm", name)

    def end(self):
        for line in self.call("container", "ls", "--quiet").stdout.split():
            self.remove(line)
        super().end()


class Cri(Containerd):
    """The same containerd as Kubernetes asks it, by crictl, which `./dev test` makes where there is Go."""

    def __init__(self, folder):
        super().__init__(folder)
        self.environment = dict(self.environment, CONTAINER_RUNTIME_ENDPOINT=f"unix://{self.socket}", IMAGE_SERVICE_ENDPOINT=f"unix://{self.socket}")
        self.podman = Podman(folder)
        until(lambda: self.crictl("version").returncode == 0, "it answers as Kubernetes asks")

    @classmethod
    def missing(cls):
        return super().missing() + Podman.missing() + [program for program in ("crictl",) if not os.access(cls.place / "bin" / program, os.X_OK)]

    def configured(self):
        return CONTAINERD.format(self.folder, "") + CRI

    def crictl(self, *words):
        return subprocess.run([self.place / "bin/crictl", "--config", "/dev/null", *map(str, words)], env=dict(os.environ, **self.environment), capture_output=True,
                              text=True, timeout=120)

    def make_image(self, root, name):
        """With a command: a pod's own container is made of it, too."""
        self.podman.make_image(root, name, "--change", 'CMD ["/bin/sleep", "100000"]')
        file = self.folder / "image.tar"
        saved = self.podman.call("save", "--format", "oci-archive", "-o", file, name)
        assert saved.returncode == 0, saved.stderr
        imported = self.call("--namespace", "k8s.io", "images", "import", file)
        assert imported.returncode == 0, imported.stderr

    def pod(self, name, devices, image, *words, mounts=(), environment=()):
        """The pod, and what happened to its container when it was made and started. Mounts have the same name inside; the environment's entries are NAME=VALUE."""
        pod, container = self.folder / f"{name}.pod.json", self.folder / f"{name}.json"
        pod.write_text(json.dumps({"metadata": {"name": name, "namespace": "research", "uid": name}, "log_directory": str(self.folder / "logs"),
                                   "linux": {"security_context": {"namespace_options": {"network": 2}}}}))
        container.write_text(json.dumps({"metadata": {"name": "main"}, "image": {"image": image}, "command": words, "log_path": f"{name}.log",
                                         "mounts": [{"host_path": path, "container_path": path} for path in mounts],
                                         "envs": [dict(zip(("key", "value"), entry.split("=", 1))) for entry in environment],
                                         "CDI_devices": [{"name": device} for device in devices]}))
        made = self.crictl("runp", pod)
        assert made.returncode == 0, made.stderr
        done = self.crictl("create", made.stdout.strip(), container, pod)
        return made.stdout.strip(), done.stdout.strip(), done if done.returncode != 0 else self.crictl("start", done.stdout.strip())

    def exit_code(self, container):
        """Waits for the container's program, which may run for minutes on a busy machine, without looks that each start a process beside it."""
        pid = self.state(container)["info"].get("pid", 0)
        with contextlib.suppress(OSError):  # it has ended already: ESRCH of a pid that is free, EINVAL of 0
            program = os.pidfd_open(pid)
            ended, _, _ = select.select([program], [], [], PROGRAM_PATIENCE)
            os.close(program)
            assert ended, f"the program of {container} still runs after {PROGRAM_PATIENCE} s"
        until(lambda: self.state(container)["status"]["state"] == "CONTAINER_EXITED", "the engine has seen it end")
        return self.state(container)["status"]["exitCode"]

    def state(self, container):
        return json.loads(self.crictl("inspect", container).stdout)

    def end(self):
        for pod in self.crictl("pods", "--quiet").stdout.split():
            self.crictl("rmp", "--force", pod)
        super().end()
        self.podman.end()
