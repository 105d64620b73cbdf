"""One node of a real Kubernetes in namespaces of its own: etcd, API server, controllers, scheduler, kubelet and containerd; and ration on it, with a
simulated card. Nothing of the machine is changed, and nothing outlives the program that starts it but a folder of logs: several can run at once.
For `ration demo --scenario kubernetes`, and for the tests."""
import contextlib
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
import time
import uuid

KUBERNETES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "containerd", "ctr", "containerd-shim-runc-v2")
TOOLS = ("runc", "ip", "unshare", "setpriv", "openssl")
ADAPTER = "ration-kubernetes"
NODE, ADDRESS, API = "n1", "10.99.0.1", "https://127.0.0.1:26443"
INSIDE = "RATION_IN_NAMESPACES_OF"
# What programs of a node keep where every program looks: a file system in memory for each, which ends with the namespaces.
PRIVATE = ("/run", "/tmp", "/var/lib/kubelet", "/var/log", "/opt", "/etc/cdi", "/etc/cni", "/etc/ration", "/var/lib/ration", "/usr/libexec/kubernetes")
PATIENCE = 150  # seconds; a kubelet that was started again gives claims back after a minute
DRIVER = "gpu-memory.ration.sh"
MANIFESTS = pathlib.Path(__file__).resolve().parents[1] / "kubernetes"
WORKLOAD = "ration.test/workload:1"  # an image


def program(name):
    """The file of a program: of Kubernetes's and ration-kubernetes in the folders KUBERNETES_BIN, where that is set; else on PATH. None: it is not there."""
    return shutil.which(name, path=None if name in TOOLS else os.environ.get("KUBERNETES_BIN"))


def missing():
    """What is not there; empty: a cluster can be started."""
    return [name for name in (*KUBERNETES, *TOOLS, ADAPTER) if not program(name)]


def hierarchies():
    """Of control groups: all are one in version 2."""
    root = pathlib.Path("/sys/fs/cgroup")
    return [root] if (root / "cgroup.controllers").exists() else list(root.iterdir())


def in_own_namespaces():
    """Starts this program again in mount, process and network namespaces of its own, unless it is there already or they cannot be made."""
    if INSIDE in os.environ or os.geteuid() != 0 or missing():
        return
    os.environ[INSIDE] = str(os.getpid())
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


def as_nobodys(entry):
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def write_image(out, name, folder, words):
    """Of the files in `folder`, to start `words`, as an archive of the OCI image layout. The same files give the same bytes."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for path in sorted(pathlib.Path(folder).iterdir()):
            archive.add(path, path.name, filter=as_nobodys)
    blobs = {}

    def blob(data, kind):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    files = blob(layer.getvalue(), "layer.v1.tar")
    configuration = blob({"architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()], "os": "linux", "config": {"Entrypoint": list(words), "Env": ["PATH=/bin:/usr/bin"]},
                          "rootfs": {"type": "layers", "diff_ids": [files["digest"]]}}, "config.v1+json")
    manifest = blob({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": configuration, "layers": [files]}, "manifest.v1+json")
    manifest["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    parts = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()}
    parts |= {f"blobs/sha256/{digest}": data for digest, data in blobs.items()}
    with tarfile.open(out, "w") as archive:
        for path, data in parts.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def files_of(root, *programs):
    """Puts programs of this machine into the /bin of `root`, and the libraries that the loader finds for them, and that ration's guard needs, where they are here."""
    (root / "bin").mkdir(parents=True)
    for file in programs:
        shutil.copy(file, root / "bin")
        for found in map(pathlib.Path, re.findall(r"(/\S+) \(0x", run("ldd", file).stdout)):
            beside = ("libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1") if found.name == "libc.so.6" else ()
            for library in (found, *map(found.with_name, beside)):
                os.makedirs(f"{root}{library.parent}", exist_ok=True)
                shutil.copy(library, f"{root}{library}")


class Cluster:
    def __init__(self, logs, folder="/tmp/cluster", feature_gates=None):
        """`logs`: the folder of every program's. `feature_gates` of its programs, by their names."""
        self.logs, self.folder, self.feature_gates = pathlib.Path(logs), pathlib.Path(folder), feature_gates or {}
        self.processes = {}
        self.groups = f"ration-{uuid.uuid4().hex[:8]}"  # pods' control groups: a kubelet ends those in /kubepods that it does not know
        self.environment = dict(os.environ, PATH=f"{os.environ.get('KUBERNETES_BIN', '')}:{os.environ['PATH']}".strip(":"), KUBECONFIG=str(self.folder / "kubeconfig"))

    # ------------------------------------------------------------------------------------------------------------ the machine

    def make_private(self):
        run("mount", "--make-rprivate", "/", check=True)
        for place in PRIVATE:
            os.makedirs(place, exist_ok=True)
            run("mount", "-t", "tmpfs", "none", place, check=True)
        for folder in (self.logs, *(self.folder / part for part in ("etcd", "certs", "containerd"))):
            folder.mkdir(parents=True, exist_ok=True)
        run("mount", "--make-rshared", "/", check=True)  # the kubelet wants its mounts to be seen
        for name, text in (("hosts", f"127.0.0.1 localhost\n{ADDRESS} {NODE} {os.uname().nodename}\n"), ("resolv.conf", "nameserver 127.0.0.1\n")):
            (self.folder / name).write_text(text)
            run("mount", "--bind", self.folder / name, f"/etc/{name}", check=True)
        for words in ("link set lo up", "link add node0 type veth peer name node1", "link set node1 up", f"addr add {ADDRESS}/24 dev node0",
                      "link set node0 up", "route add default dev node0"):
            run("ip", *words.split(), check=True)
        for hierarchy in hierarchies():
            (hierarchy / self.groups).mkdir()

    def start(self, part, *words, name=None):
        name = name or part
        gates = [f"--feature-gates={self.feature_gates[part]}"] if part in self.feature_gates else []
        with open(self.logs / name, "ab") as log:
            self.processes[name] = subprocess.Popen([str(word) for word in (program(part) or part, *words, *gates)], stdout=log, stderr=log, env=self.environment, start_new_session=True)
        return self.processes[name]

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def kubectl(self, *words, **options):
        return run(program("kubectl"), *words, env=self.environment, **options)

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
        until(lambda: all(self.removed(hierarchy / self.groups) for hierarchy in hierarchies()), "the pods' control groups are removed")

    def end_containers(self):
        """All of them at once, as when the node loses its power."""
        for hierarchy in hierarchies():
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
        write_image(archive, name, root, entry)
        done = run(program("ctr"), "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import", "--local", "--snapshotter", "native",
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

CLAIM = f"devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: {DRIVER}, capacity: {{requests: {{memory: 4Gi}}}}}}}}]}}"
TEMPLATE = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: four}}
spec: {{spec: {{{CLAIM}}}}}
"""


def pod(name, words, resources, folders=(), **spec):
    """Of one container. It reads those folders of the node at the same places."""
    folders = {f"folder-{number}": str(folder) for number, folder in enumerate(folders)}
    container = {"name": "main", "image": WORKLOAD, "imagePullPolicy": "Never", "command": list(words), "resources": resources,
                 "volumeMounts": [{"name": name, "mountPath": folder, "readOnly": True} for name, folder in folders.items()]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                       "spec": {"hostNetwork": True, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container],
                                "volumes": [{"name": name, "hostPath": {"path": folder}} for name, folder in folders.items()], **spec}})


def claiming_pod(name, words, claim="four", folders=(), **spec):
    return pod(name, words, {"claims": [{"name": "gpu"}]}, folders, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": claim}], **spec)


class GovernedCluster(Cluster):
    """With rationd on its node, and ration-kubernetes."""
    node = "T4:16GiB:context=64MiB"  # what rationd simulates

    def __init__(self, ration, logs, **options):
        """`ration`: the program."""
        super().__init__(logs, **options)
        self.ration = ration

    def begin(self, put_files, daemon=True):
        """What is there before ration is installed in the cluster: the node, with its rationd if it has the package, and an image to run, files of which
        `put_files` puts into a folder: ration-workload, /bin/sleep, and the C library."""
        super().up()
        image = pathlib.Path("/tmp/root")
        put_files(image)
        self.import_image(image, WORKLOAD, ["/bin/sh"])
        self.import_image(image, "ration.test/pause:1", ["/bin/sleep", "1000000"])
        os.mkdir("/run/simulated")
        self.environment["RATION_SIM_DIR"] = "/run/simulated"
        if daemon:
            self.start_daemon()

    def drive(self):
        """ration.yaml, and the driver as a program of the node."""
        self.apply((MANIFESTS / "ration.yaml").read_text())
        token = self.kubectl("-n", "ration-system", "create", "token", "ration", "--bound-object-kind=Node", f"--bound-object-name={NODE}", check=True).stdout.strip()
        (self.folder / "driver.kubeconfig").write_text(self.kubeconfig(token))
        self.start_driver()
        self.await_policy()

    def await_policy(self):
        """The API server takes up a new policy a moment after it has it."""
        unlimited = TEMPLATE.replace(", capacity: {requests: {memory: 4Gi}}", "")
        until(lambda: "says how much memory" in self.kubectl("create", "--dry-run=server", "-f", "-", input=unlimited).stderr, "claims are checked")

    def offered(self):
        return [device for entry in self.get("resourceslices")["items"] for device in entry["spec"].get("devices", [])]

    def start_daemon(self):
        self.start(self.ration, "serve", f"--sim={self.node}", "--state", "/var/lib/ration", "--listen", "", name="rationd")

    def start_driver(self):
        self.start(ADAPTER, "dra", "--node", NODE, "--kubeconfig", self.folder / "driver.kubeconfig", "--gpu-kind", "", name="driver")
