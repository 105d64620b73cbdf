#!/usr/bin/env python3
"""The daemon in the sandbox of the unit that `ration service` installs: it changes the books of users, wherever they have them, and describes its devices to
container engines. What the unit makes read-only is made so in a mount namespace, as systemd does it."""
import ctypes
import os
import pathlib
import re
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from node_client import BIN, own_folder, until  # noqa: E402

NODE = "--sim=T4:16GiB:context=64MiB"
USER = 65534
# Of ProtectSystem=full and =strict, by systemd.exec(5).
PROTECTED = {"full": ["/usr", "/boot", "/efi", "/etc"], "strict": ["/"]}
KEPT_OPEN = {"full": [], "strict": ["/dev", "/proc", "/sys"]}
CONFIGURATION = '[[tenant]]\nname = "nlp"\nlimit = "4GiB"\n'


def set_read_only(path, read_only):
    """mount_setattr(2) for a mount and everything below it."""
    attributes = struct.pack("QQQQ", int(read_only), int(not read_only), 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(442, -100, os.fsencode(path), 0x8000, attributes, len(attributes)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))


def bind(path):
    subprocess.run(["mount", "--rbind", path, path], check=True)


def enter(unit, folders):
    """Puts this process, which runs in a mount namespace of its own, into the unit's sandbox. `folders` of the unit are writable."""
    keys = dict(re.findall(r"^(\w+)=(.*)$", unit, re.M))
    protected = [path for path in PROTECTED[keys["ProtectSystem"]] if os.path.exists(path)]
    writable = [*folders, *KEPT_OPEN[keys["ProtectSystem"]], *(path.lstrip("-") for path in keys.get("ReadWritePaths", "").split())]
    writable = [path for path in writable if os.path.exists(path)]
    for path in [*protected, *writable]:
        if path != "/":
            bind(path)
    for path in protected:
        set_read_only(path, True)
    for path in writable:
        set_read_only(path, False)


@unittest.skipUnless(os.geteuid() == 0, "root runs the unit of the machine")
class Sandbox(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        self.folder.chmod(0o755)

    def test_the_daemon_of_the_unit_governs_the_programs_of_users(self):
        """In one process of its own, since it replaces /run and /var/lib."""
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, __file__, "inside", self.folder], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ["all is well"]), done.stdout + done.stderr)


def inside(folder):
    """A machine with /run, /tmp and /var/lib of its own, the daemon in its sandbox, and a user."""
    for place in ("/run", "/var/lib"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    for place in ("/run/ration", "/var/lib/ration", "/run/cdi", "/run/user/65534"):
        os.makedirs(place)
    os.chown("/run/user/65534", USER, USER)
    sim = "/dev/shm/ration-sandbox-test"
    subprocess.run(["rm", "-rf", sim], check=True)
    os.makedirs(sim)
    (folder / "ration.toml").write_text(CONFIGURATION)
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "XDG_"))}
    root = dict(plain, RATION_SIM_DIR=sim, RATION_CONFIG=str(folder / "ration.toml"), HOME="/root")
    ration = lambda *words: subprocess.run([BIN / "ration", *words], env=root, capture_output=True, text=True, timeout=60)  # noqa: E731
    unit = ration("service", "print").stdout

    def sandboxed():
        ctypes.CDLL(None).unshare(0x20000)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        enter(unit, ["/run/ration", "/var/lib/ration"])

    daemon = subprocess.Popen([BIN / "ration", "serve", NODE, "--listen", ""], env=root, preexec_fn=sandboxed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: ration("events", NODE).returncode == 0, "the daemon answers")
        subprocess.run(["chmod", "-R", "a+rwX", sim], check=True)
        as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", BIN / "ration", "run", NODE, "--limit", "2GiB"]
        for name, place in (("session", {"XDG_RUNTIME_DIR": "/run/user/65534"}), ("own", {"RATION_RUNTIME_DIR": str(folder / "books")})):
            (folder / "books").mkdir(exist_ok=True)
            os.chown(folder / "books", USER, USER)
            program = subprocess.Popen([*as_user, "--name", name, "--", BIN / "ration-workload", "hold", "1GiB"], env=dict(plain, RATION_SIM_DIR=sim, HOME="/nonexistent", **place),
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            line = program.stdout.readline()
            assert "holding" in line, line
            changed = ration("set", name, "--limit", "3GiB", NODE)
            assert "limit 2.00 GiB → 3.00 GiB" in changed.stdout, changed.stdout + changed.stderr
            program.terminate()
            program.wait(30)
        assert os.path.exists("/run/cdi/ration-tenant.json"), os.listdir("/run/cdi")
        lost = [line for line in ration("events", NODE).stdout.splitlines() if "guard_lost" in line]
        assert not lost, lost
        print("all is well")
    finally:
        daemon.terminate()
        daemon.wait(30)
        subprocess.run(["rm", "-rf", sim], check=False)


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        inside(pathlib.Path(sys.argv[2]))
    else:
        unittest.main(verbosity=2)
