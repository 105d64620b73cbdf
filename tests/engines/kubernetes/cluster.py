"""One node of a real Kubernetes in namespaces of its own: etcd, API server, controllers, scheduler, kubelet and containerd, from programs that
`./dev test kubernetes` makes. Nothing of the machine is changed, and nothing outlives the test but its folder: several can run at once."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import time
import uuid

SOURCE = pathlib.Path(os.environ["SOURCE"])
MINOR = os.environ.get("RATION_TEST_KUBERNETES")  # as 1.36; the newest where it says none
PROGRAMS = SOURCE / "build/kubernetes" / (f"cluster-{MINOR}" if MINOR else "cluster")
LOGS = SOURCE / "build/kubernetes/log" / PROGRAMS.name / pathlib.Path(sys.argv[0]).stem  # of every program, until the test runs again
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "containerd", "ctr", "containerd-shim-runc-v2")
NODE, ADDRESS, API = "n1", "10.99.0.1", "https://127.0.0.1:26443"
INSIDE = "RATION_TEST_IN_NAMESPACES"
# What programs of a node keep where every program looks: a file system in memory for each, which ends with the test.
PRIVATE = ("/run", "/tmp", "/var/lib/kubelet", "/var/log", "/opt", "/etc/cdi", "/etc/cni", "/etc/ration", "/var/lib/ration", "/usr/libexec/kubernetes")
PATIENCE = 150  # seconds; a kubelet that was started again gives claims back after a minute


def missing():
    """What is not there; empty: a cluster can be started."""
    lost = [part for part in PARTS if not (PROGRAMS / part).exists()]
    lost += [tool for tool in ("runc", "ip", "unshare") if not shutil.which(tool)]
    return lost if os.geteuid() == 0 else ["root"]


def in_own_namespaces():
    """Starts this program again in mount, process and network namespaces of its own, unless it is there already."""
    if INSIDE in os.environ or missing():
        return
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", sys.executable, *sys.argv])


def until(condition, what, patience=PATIENCE):
    last = None
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except (OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as problem:
            last = problem
        time.sleep(0.1)
    raise AssertionError(f"not within {patience} s: {what() if callable(what) else what} ({last})")


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, **options)


class Cluster:
    def __init__(self, folder="/tmp/cluster", feature_gates=None):
        """`feature_gates` of its programs, by their names."""
        self.folder, self.feature_gates = pathlib.Path(folder), feature_gates or {}
        self.processes = {}
        self.groups = f"ration-test-{uuid.uuid4().hex[:8]}"  # pods' control groups: a kubelet ends those in /kubepods that it does not know
        shutil.rmtree(LOGS, ignore_errors=True)
        LOGS.mkdir(parents=True)
        self.environment = dict(os.environ, PATH=f"{PROGRAMS}:{os.environ['PATH']}", KUBECONFIG=str(self.folder / "kubeconfig"))

    # ------------------------------------------------------------------------------------------------------------ the machine

    def make_private(self):
        run("mount", "--make-rprivate", "/", check=True)
        for place in PRIVATE:
            os.makedirs(place, exist_ok=True)
            run("mount", "-t", "tmpfs", "none", place, check=True)
        for part in ("etcd", "certs", "containerd"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        run("mount", "--make-rshared", "/", check=True)  # the kubelet wants its mounts to be seen
        for name, text in (("hosts", f"127.0.0.1 localhost\n{ADDRESS} {NODE} {os.uname().nodename}\n"), ("resolv.conf", "nameserver 127.0.0.1\n")):
            (self.folder / name).write_text(text)
            run("mount", "--bind", self.folder / name, f"/etc/{name}", check=True)
        for words in ("link set lo up", "link add node0 type veth peer name node1", "link set node1 up", f"addr add {ADDRESS}/24 dev node0",
                      "link set node0 up", "route add default dev node0"):
            run("ip", *words.split(), check=True)
        for hierarchy in pathlib.Path("/sys/fs/cgroup").iterdir():
            (hierarchy / self.groups).mkdir()

    def start(self, part, *words, name=None):
        name = name or part
        program = PROGRAMS / part if (PROGRAMS / part).exists() else part
        gates = [f"--feature-gates={self.feature_gates[part]}"] if part in self.feature_gates else []
        with open(LOGS / name, "ab") as log:
            self.processes[name] = subprocess.Popen([str(word) for word in (program, *words, *gates)], stdout=log, stderr=log, env=self.environment, start_new_session=True)
        return self.processes[name]

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def kubectl(self, *words, **options):
        return run(PROGRAMS / "kubectl", *words, env=self.environment, **options)

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json", check=True).stdout)

    def apply(self, text):
        done = self.kubectl("apply", "-f", "-", input=textwrap.dedent(text))
        assert done.returncode == 0, done.stderr

    # ------------------------------------------------------------------------------------------------------------ its parts

    def start_containerd(self):
        self.start("containerd", "-c", self.folder / "containerd.toml")

    def start_kubelet(self):
        until(pathlib.Path("/run/containerd/containerd.sock").exists, "containerd is there: without it the kubelet ends")
        self.start("kubelet", f"--config={self.folder}/kubelet.yaml", f"--kubeconfig={self.folder}/kubeconfig", f"--cert-dir={self.folder}/certs",
                   f"--hostname-override={NODE}")

    def up(self):
        self.make_private()
        (self.folder / "tokens").write_text('secret,admin,admin,"system:masters"\n')
        (self.folder / "kubeconfig").write_text(self.kubeconfig("secret"))
        (self.folder / "containerd.toml").write_text(CONTAINERD.replace("@FOLDER@", str(self.folder)))
        (self.folder / "kubelet.yaml").write_text(KUBELET + f"cgroupRoot: /{self.groups}\n")
        run("openssl", "genrsa", "-out", self.folder / "certs/sa.key", "2048", check=True)
        os.makedirs("/etc/cni/net.d", exist_ok=True)
        pathlib.Path("/etc/cni/net.d/10-lo.conflist").write_text('{"cniVersion":"1.0.0","name":"lo","plugins":[{"type":"loopback"}]}')
        self.start("etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", "http://127.0.0.1:26379", "--advertise-client-urls", "http://127.0.0.1:26379",
                   "--listen-peer-urls", "http://127.0.0.1:26380", "--initial-advertise-peer-urls", "http://127.0.0.1:26380",
                   "--initial-cluster", "default=http://127.0.0.1:26380", "--unsafe-no-fsync", "--log-level", "warn")
        self.start_containerd()
        self.start("kube-apiserver", "--etcd-servers=http://127.0.0.1:26379", "--secure-port=26443", "--bind-address=127.0.0.1", f"--cert-dir={self.folder}/certs",
                   f"--token-auth-file={self.folder}/tokens", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
                   "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={self.folder}/certs/sa.key",
                   f"--service-account-signing-key-file={self.folder}/certs/sa.key", "--allow-privileged=true")
        until(lambda: self.kubectl("get", "--raw", "/readyz").returncode == 0, "the API server is ready")
        client = f"--kubeconfig={self.folder}/kubeconfig"
        self.start("kube-controller-manager", client, "--leader-elect=false", "--bind-address=127.0.0.1", f"--service-account-private-key-file={self.folder}/certs/sa.key",
                   f"--root-ca-file={self.folder}/certs/apiserver.crt", "--controllers=*,-bootstrap-signer-controller,-token-cleaner-controller")
        self.start("kube-scheduler", client, "--leader-elect=false", "--bind-address=127.0.0.1")
        self.start_kubelet()
        until(lambda: any(condition["type"] == "Ready" and condition["status"] == "True" for condition in self.get("node", NODE)["status"]["conditions"]), "the node is ready")
        until(lambda: self.get("serviceaccount", "default"), "pods are admitted")

    def down(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        run("ip", "link", "delete", "node0")  # for a next cluster in these namespaces
        # What lies in the machine's control groups outlives namespaces.
        until(lambda: all(self.removed(hierarchy / self.groups) for hierarchy in pathlib.Path("/sys/fs/cgroup").iterdir()), "the pods' control groups are removed")

    def end_containers(self):
        """All of them at once, as when the node loses its power."""
        for hierarchy in pathlib.Path("/sys/fs/cgroup").iterdir():
            self.end_processes(hierarchy / self.groups)

    @staticmethod
    def end_processes(group):
        for procs in group.rglob("cgroup.procs"):
            for pid in procs.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), 9) if int(pid) else None

    @classmethod
    def removed(cls, group):
        """Whether this control group is gone, after one more try to end what runs in it."""
        cls.end_processes(group)
        for folder in sorted([group, *group.rglob("*")], key=lambda path: -len(path.parts)):
            if folder.is_dir():
                with contextlib.suppress(OSError):
                    folder.rmdir()
        return not group.exists()

    def kubeconfig(self, token):
        return textwrap.dedent(f"""\
            apiVersion: v1
            kind: Config
            clusters: [{{name: c, cluster: {{server: "{API}", insecure-skip-tls-verify: true}}}}]
            users: [{{name: u, user: {{token: "{token}"}}}}]
            contexts: [{{name: d, context: {{cluster: c, user: u}}}}]
            current-context: d
            """)

    def import_image(self, root, name, entry):
        """Of the files in `root`, as an OCI layout: no registry has it."""
        archive = self.folder / (name.replace("/", "_").replace(":", "_") + ".tar")
        run(sys.executable, pathlib.Path(__file__).with_name("image.py"), archive, name, root, *entry, check=True)
        done = run(PROGRAMS / "ctr", "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import", "--local", "--snapshotter", "native",
                   "--digests=false", archive)
        assert done.returncode == 0, done.stderr


KUBELET = f"""
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
address: {ADDRESS}
port: 26250
readOnlyPort: 0
healthzPort: 0
cgroupDriver: cgroupfs
failCgroupV1: false
oomScoreAdj: 0
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enforceNodeAllocatable: []
evictionHard: {{memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}}
localStorageCapacityIsolation: false
maxOpenFiles: 20000
clusterDomain: ""
resolvConf: /etc/resolv.conf
syncFrequency: 5s
nodeStatusUpdateFrequency: 3s
"""

CONTAINERD = """
version = 3
root = "@FOLDER@/containerd/root"
state = "/run/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "/run/containerd/containerd.sock"
[ttrpc]
  address = "/run/containerd/containerd.sock.ttrpc"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "ration.test/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  cdi_spec_dirs = ["/run/cdi"]
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        BinaryName = "runc"
        SystemdCgroup = false
[plugins."io.containerd.nri.v1.nri"]
  disable = true
"""
