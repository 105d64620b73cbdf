#!/usr/bin/env python3
"""What a release publishes: apt and pip get the packages of build/dist from its repositories on a web server of this machine, and the checksums are signed."""
import functools
import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
sys.path.insert(0, str(SOURCE / "packaging"))
import repositories  # noqa: E402

DIST = SOURCE / "build/dist"
VERSION = (SOURCE / "VERSION").read_text().strip()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Repositories(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=DIST.parent)  # the packages are linked
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.dist = self.folder / "dist"
        self.dist.mkdir()
        for path in DIST.iterdir():
            if path.is_file():
                (self.dist / path.name).hardlink_to(path)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=self.dist))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.at = f"http://127.0.0.1:{server.server_port}"

    def works(self, *words, **more):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    @unittest.skipUnless(shutil.which("apt-ftparchive"), "apt-ftparchive (apt-utils) makes the repository")
    def test_apt_gets_the_package_and_believes_its_checksum(self):
        repositories.make_apt(self.dist)
        own = self.folder / "apt"
        for name in ("lists/partial", "archives/partial", "preferences.d", "empty.d"):
            (own / name).mkdir(parents=True)
        (own / "status").write_text("")
        (own / "sources.list").write_text(f"deb [trusted=yes] {self.at}/apt stable main\n")
        (own / "apt.conf").write_text(f'Dir::State "{own}"; Dir::State::lists "{own}/lists"; Dir::State::status "{own}/status"; Dir::Cache "{own}"; Dir::Etc::sourcelist "{own}/sources.list";'
                                      f'Dir::Etc::sourceparts "{own}/empty.d"; Dir::Etc::preferencesparts "{own}/preferences.d"; APT::Sandbox::User "";')
        environment = dict(os.environ, APT_CONFIG=str(own / "apt.conf"))
        self.works("apt-get", "update", env=environment)
        self.assertIn(VERSION, self.works("apt-cache", "policy", "ration", env=environment))
        self.works("apt-get", "download", "ration", env=environment, cwd=own)
        (package,) = own.glob("*.deb")
        self.assertEqual(sha256(package), sha256(DIST / package.name))
        # A package that was changed on its way is rejected.
        package.unlink()
        (served,) = (self.dist / "apt/pool").glob("*_amd64.deb") if os.uname().machine == "x86_64" else (self.dist / "apt/pool").glob("*_arm64.deb")
        content = bytearray(served.read_bytes())
        served.unlink()
        content[-1] ^= 1
        served.write_bytes(content)
        self.assertNotEqual(subprocess.run(["apt-get", "download", "ration"], env=environment, cwd=own, capture_output=True).returncode, 0)

    def test_pip_installs_the_wheel_from_the_index(self):
        repositories.make_simple(self.dist)
        self.works(sys.executable, "-m", "venv", self.folder / "venv")
        python = self.folder / "venv/bin/python"
        self.works(python, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir", "--index-url", f"{self.at}/simple", "ration",
                   env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "PIP_CONFIG_FILE": os.devnull})
        self.assertEqual(self.works(self.folder / "venv/bin/ration", "version"), f"ration {VERSION}\n")

    @unittest.skipUnless(shutil.which("ssh-keygen"), "ssh-keygen signs")
    def test_the_signature_is_verified_as_the_page_says(self):
        key = self.folder / "key"
        self.works("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
        work = self.folder / "work"
        (work / "build").mkdir(parents=True)
        shutil.copytree(self.dist, work / "build/dist", ignore=shutil.ignore_patterns("apt", "simple", "*.tar", "*.deb", "*.gz"))
        self.works("bash", "-ec", f". {SOURCE}/dev; cd {work}; sign", env=dict(os.environ, RATION_RELEASE_KEY=str(key)))
        page = (SOURCE / "docs/SECURITY.md").read_text()
        (verify,) = [line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ ssh-keygen -Y verify")]
        self.works("sh", "-c", verify, cwd=work / "build/dist")
        (work / "build/dist/SHA256SUMS").write_text((work / "build/dist/SHA256SUMS").read_text() + "0  other\n")
        self.assertNotEqual(subprocess.run(["sh", "-c", verify], cwd=work / "build/dist", capture_output=True).returncode, 0)


if __name__ == "__main__":
    if not list(DIST.glob("*.whl")):
        print("there are no packages: ./dev package")
        sys.exit(77)
    unittest.main(verbosity=2)
