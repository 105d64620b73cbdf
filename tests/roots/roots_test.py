#!/usr/bin/env python3
"""The packages of `./dev package` on other servers' C libraries: in whole systems of Debian 11, 12 and 13, and on aarch64 under
qemu. `./dev test roots` runs it as root; what cannot be had (a mirror, root, binfmt_misc) is skipped and says why.

Each system is unpacked once into build/roots and entered with a copy of its own of everything that changes."""
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "packaging"))
import repositories  # noqa: E402
import tools  # noqa: E402

ROOTS = SOURCE / "build/roots"
DIST = SOURCE / "build/dist"
VERSION = (SOURCE / "VERSION").read_text().strip()
SYSTEMS = {"bullseye": "2.31", "bookworm": "2.36", "trixie": "2.41"}
HERE = platform.machine()
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
QEMU = "/usr/bin/qemu-aarch64-static"
# Where the kernel hands programs of aarch64 to qemu, which it keeps open, so that every root has it.
BINFMT = pathlib.Path("/proc/sys/fs/binfmt_misc")
RULE = rb":ration-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:" + QEMU.encode() + b":F\n"
# What a stranger does first, with what was just installed.
FIRST_MINUTE = """
set -e
export RATION_RUNTIME_DIR=/tmp/books RATION_SIM_DIR=/tmp/sim; mkdir /tmp/books /tmp/sim
ration version
ration demo --speed 10 --for 3s >/tmp/demo.txt 2>&1 || { cat /tmp/demo.txt; exit 1; }
test -s /tmp/demo.txt
ration doctor --sim=T4:16GiB --probe
! ration run --sim=T4:16GiB --limit 1GiB -- ration-workload steps 512MiB:10ms 2GiB:10ms 2>/tmp/denied.txt
grep denied /tmp/denied.txt
"""


def system(suite):
    """The unpacked system, or None with a word."""
    root = ROOTS / suite
    if not (root / "bin/sh").exists() or (root / "debootstrap").exists():
        if shutil.which("debootstrap") is None or os.geteuid() != 0:
            raise unittest.SkipTest("debootstrap as root makes the systems")
        shutil.rmtree(root, ignore_errors=True)
        ROOTS.mkdir(parents=True, exist_ok=True)
        mirror = next(iter(sorted(line.split()[2] for line in tools.debian_sources() if "security" not in line)))
        done = subprocess.run(["debootstrap", "--variant=minbase", "--include=python3,python3-pip,python3-venv", suite, root, mirror],
                              capture_output=True, text=True)
        if done.returncode != 0:
            shutil.rmtree(root, ignore_errors=True)
            raise unittest.SkipTest(f"Debian's {suite} cannot be had here: {done.stdout.strip().splitlines()[-1:]}")
    return root


def entered(root, script, *binds):
    """Runs `script` with sh in the system, which nothing that it does changes."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("upper", "work", "merged"):
            pathlib.Path(scratch, name).mkdir()
        lines = [f"mount -t tmpfs tmpfs {scratch}", f"mkdir {scratch}/upper {scratch}/work {scratch}/merged",
                 f"mount -t overlay overlay -o lowerdir={root},upperdir={scratch}/upper,workdir={scratch}/work {scratch}/merged", f"cd {scratch}/merged",
                 "mkdir -p proc dev tmp packages", "mount -t proc proc proc", "mount --rbind /dev dev", "mount -t tmpfs tmpfs tmp", "ip link set lo up 2>/dev/null || true",
                 f"mount --bind {DIST} packages", *(f"mkdir -p .{target}; mount --bind {source} .{target}" for source, target in binds),
                 'exec chroot . /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 /bin/sh -c "$1"']
        return subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-ec", "\n".join(lines), "-", script],
                              capture_output=True, text=True, timeout=600)


class InSystems(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("only root enters another system")

    def first_minute(self, install, *binds):
        for suite, glibc in SYSTEMS.items():
            with self.subTest(suite):
                done = entered(system(suite), "set -e\n" + install + FIRST_MINUTE, *binds)
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
                self.assertIn(f"glibc {glibc}", done.stdout)
                self.assertIn(" 0 fail", done.stdout)

    def test_the_tarball(self):
        self.first_minute(f"mkdir '/opt/a place'; tar -xzf /packages/ration-{VERSION}-linux-{HERE}.tar.gz -C '/opt/a place'\n"
                          f"PATH=\"/opt/a place/ration-{VERSION}-linux-{HERE}/bin:$PATH\"\n")

    def test_the_wheel(self):
        self.first_minute("python3 -m venv /opt/venv; /opt/venv/bin/pip install --quiet --no-index --disable-pip-version-check "
                          f"/packages/ration-{VERSION}-*_{HERE}.whl\n"
                          "/opt/venv/bin/python -c 'import ration; print(ration.__version__)'\nPATH=/opt/venv/bin:$PATH\n")

    def test_the_debian_package(self):
        self.first_minute(f"dpkg -i /packages/ration_{VERSION}_{DEBIAN[HERE]}.deb >/dev/null; ldconfig -p | grep -q libration\n"
                          "getent group ration >/dev/null; test -f /usr/share/man/man1/ration.1.gz\n")

    def test_the_repositories(self):
        """apt and pip, from the repositories that a release publishes, on a web server of this machine alone."""
        folder = tempfile.TemporaryDirectory(dir=DIST.parent)  # the packages are linked
        self.addCleanup(folder.cleanup)
        for path in [*DIST.glob("*.deb"), *DIST.glob("*.whl")]:
            pathlib.Path(folder.name, path.name).hardlink_to(path)
        repositories.make_apt(pathlib.Path(folder.name))
        repositories.make_simple(pathlib.Path(folder.name))
        serve = "(cd /repositories; exec python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1) &\n" \
                "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null; do sleep 0.1; done\n"
        self.first_minute(serve + f"""
            /usr/bin/python3 -m venv /opt/venv
            /opt/venv/bin/pip install --quiet --disable-pip-version-check --index-url http://127.0.0.1:8000/simple ration
            /opt/venv/bin/ration version
            echo 'deb [trusted=yes] http://127.0.0.1:8000/apt stable main' >/etc/apt/sources.list; rm -rf /etc/apt/sources.list.d
            apt-get -o APT::Sandbox::User=root update >/dev/null
            apt-get -o APT::Sandbox::User=root install -y ration >/dev/null 2>&1
            dpkg -s ration | grep -q 'Version: {VERSION}'
            """, (folder.name, "/repositories"))

    def test_what_the_debian_package_left(self):
        done = entered(system("bookworm"), f"""set -e
            find / -xdev | grep -vE '^/(tmp|packages|proc|dev|var/lib/dpkg|var/log|var/cache)' | sort >/tmp/before
            dpkg -i /packages/ration_{VERSION}_{DEBIAN[HERE]}.deb >/dev/null; ration version; dpkg --purge ration >/dev/null 2>&1
            find / -xdev | grep -vE '^/(tmp|packages|proc|dev|var/lib/dpkg|var/log|var/cache)' | sort >/tmp/after
            diff /tmp/before /tmp/after""")
        self.assertIn(f"ration {VERSION}", done.stdout, done.stderr)
        left = [line[2:] for line in done.stdout.splitlines() if line.startswith(">")]
        # Debian keeps the groups that packages made, and backups of the files that name them.
        self.assertEqual([path for path in left if path.removesuffix("-") not in ("/etc/group", "/etc/gshadow", "/etc/passwd", "/etc/shadow")], [], done.stderr)


# What qemu-user leaves out of the kernel: lists of robust mutexes (whoever is killed inside a lock keeps it), MADV_DONTFORK (a child keeps its
# parent's life lock). On a kernel of its own each of these passes.
NOT_EMULATED = ["SharedTest.WhoIsStoppedInsideDelaysNobodyForLongAndNothingIsLost", "SharedTest.KilledAnywhereProcessesLeaveNothingAndTheLimitHolds",
                "BookTest.AChildThatOutlivesItsParentDoesNotKeepItAlive",
                # They ask /proc of their own process, for which the emulator answers in the kernel's place.
                "BookTest.AProcessThatLivesInAnyWayStaysInTheFigures", "ContainerBooks.OneWhoseContainerRunsIsNotRetired",
                # They change how the root is mounted, which in a chroot is no mount.
                "ContainerBooks.ABookHasAFileSystemThatHasRoomForNothingElse", "ContainerBooks.WhereTheDaemonDoesNotSeeTheMountItIsAPlainFile",
                "ContainerBooks.OfAHookThatIsKilledNothingStays"]


class OnAarch64(unittest.TestCase):
    """In the tree of the container image, which has a C library and nothing else."""

    @classmethod
    def setUpClass(cls):
        cls.registered = False
        if HERE == "aarch64":
            return
        if os.geteuid() != 0 or not pathlib.Path(QEMU).exists():
            raise unittest.SkipTest("qemu-user-static as root runs programs of aarch64")
        if not (BINFMT / "register").exists():
            subprocess.run(["mount", "-t", "binfmt_misc", "none", BINFMT], capture_output=True)
        if not (BINFMT / "register").exists():
            raise unittest.SkipTest("binfmt_misc cannot be mounted here")
        if not any(path.name in ("qemu-aarch64", "ration-aarch64") for path in BINFMT.iterdir()):
            (BINFMT / "register").write_bytes(RULE)
            cls.registered = True

    @classmethod
    def tearDownClass(cls):
        if cls.registered:
            (BINFMT / "ration-aarch64").write_text("-1")

    def in_image(self, program, *arguments, binds=()):
        image = SOURCE / "build/package/image-aarch64"
        lines = [f"cd {image}", "mount -t tmpfs tmpfs tmp", "mkdir -p proc dev", "mount -t proc proc proc", "mount --rbind /dev dev", "mkdir tmp/books tmp/sim",
                 *(f"mkdir -p ./tmp{target}; mount --bind {source} ./tmp{target}" for source, target in binds),
                 'exec chroot . "$@"']
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "RATION_RUNTIME_DIR": "/tmp/books", "RATION_SIM_DIR": "/tmp/sim"}
        return subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-ec", "\n".join(lines), "-", program, *arguments],
                              capture_output=True, text=True, timeout=900, env=environment)

    def test_a_limit_holds(self):
        done = self.in_image("/usr/bin/ration", "doctor", "--sim=T4:16GiB", "--probe")
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertIn(" 0 fail", done.stdout)
        done = self.in_image("/usr/bin/ration", "run", "--sim=T4:16GiB", "--limit", "1GiB", "--", "/usr/bin/ration-workload", "steps", "512MiB:10ms", "2GiB:10ms")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("denied", done.stderr)

    def test_the_units(self):
        tests = SOURCE / "build/portable/aarch64-tests/bin"
        if not tests.exists():
            self.skipTest("the unit tests for aarch64 are not compiled: packaging/package.py --unit-tests")
        for name in ("book_test", "guard_state_test", "pool_test"):
            with self.subTest(name):
                done = self.in_image(f"/tmp/tests/{name}", "--gtest_brief=1", f"--gtest_filter=-{':'.join(NOT_EMULATED)}", binds=[(tests, "/tests")])
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-2000:])
                self.assertIn("PASSED", done.stdout)
                self.assertNotIn("SKIPPED", done.stdout)


if __name__ == "__main__":
    if not list(DIST.glob("*.tar.gz")):
        print("skipped: no packages here (./dev package makes them)")
        sys.exit(77)
    unittest.main()
