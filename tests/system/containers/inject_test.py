#!/usr/bin/env python3
"""`ration inject oci` and `compose`, and `ration jupyter`: what they write and start, held against the programs that take it. No container runs here."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node.node_case import Case  # noqa: E402
from node_client import BIN, own_folder, environment_in  # noqa: E402


class Recorded:
    """A program of a name on PATH that writes down what it was asked."""

    def __init__(self, folder, name, script=""):
        self.asked, self.place = folder / f"{name}.asked", folder / "bin"
        self.place.mkdir(exist_ok=True)
        program = self.place / name
        program.write_text(f'#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done >> {self.asked}; printf "\\n" >> {self.asked}\n{script}\n')
        program.chmod(0o755)
        self.path = f"{self.place}:{os.environ['PATH']}"

    def calls(self):
        return [line.split("\0")[:-1] for line in self.asked.read_text().splitlines()] if self.asked.exists() else []


class Inject(Case):
    node = "--sim=T4:16GiB:context=64MiB"

    def setUp(self):
        super().setUp()
        self.specifications = self.folder / "cdi"
        with open(self.folder / "ration.toml", "a", encoding="utf-8") as more:
            more.write(f'[containers]\ncdi = "{self.specifications}"\n[[tenant]]\nname = "nlp"\nlimit = "4GiB"\n')

    def inject(self, *words, **more):
        return self.ration("inject", self.node, *words, **more)

    # --------------------------------------------------------------------------------------------------------------- oci

    def bundle(self):
        folder = self.folder / "bundle"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({
            "ociVersion": "1.0.2", "process": {"args": ["sh"], "env": ["A=1"]}, "root": {"path": "rootfs"}, "mounts": [],
            "linux": {"namespaces": [{"type": "mount"}]}}))
        (folder / "config.json").chmod(0o640)
        return folder

    def test_a_configuration_gets_the_limit_once(self):
        folder = self.bundle()
        file = folder / "config.json"
        before = file.read_text()
        shown = self.inject("oci", folder, "--limit", "4GiB", "--dry-run")
        self.assertEqual((shown.returncode, file.read_text()), (0, before), shown.stderr)
        done = self.inject("oci", folder, "--limit", "4GiB")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(file.read_text(), shown.stdout)
        self.assertEqual(file.stat().st_mode & 0o777, 0o640)
        self.assertEqual(os.listdir(folder), ["config.json"])
        self.assertEqual(self.inject("oci", file, "--limit", "4GiB").returncode, 0)
        self.assertEqual(file.read_text(), shown.stdout)
        self.assertEqual(self.inject("oci", file, "--tenant", "nlp").returncode, 0)
        hooks = json.loads(file.read_text())["hooks"]
        self.assertEqual([hook["args"][-1] for each in hooks.values() for hook in each], ["tenant=nlp"])

    def test_the_edits_are_those_of_the_device(self):
        recorded = Recorded(self.folder, "docker")
        self.assertEqual(self.inject("docker", "--limit", "3GiB", "--", "run", "image", env={"PATH": recorded.path}).returncode, 0)
        self.assertEqual(recorded.calls()[-1], ["run", "--device", "ration.sh/limit=3GiB-gpu0", "image"])
        device = json.loads((self.specifications / "ration-limit-3GiB-gpu0.json").read_text())
        configured = json.loads(self.inject("oci", self.bundle(), "--limit", "3GiB", "--dry-run", env={"PATH": recorded.path}).stdout)
        edits = device["containerEdits"]
        self.assertEqual([(mount["source"], mount["destination"], mount["options"]) for mount in configured["mounts"]],
                         [(mount["hostPath"], mount["containerPath"], mount["options"]) for mount in edits["mounts"]])
        self.assertEqual(configured["process"]["env"], ["A=1", *edits["env"]])
        for hook in device["devices"][0]["containerEdits"]["hooks"]:
            self.assertEqual(configured["hooks"][hook.pop("hookName")], [hook])

    def test_a_link_to_the_configuration_stays_one(self):
        folder = self.bundle()
        (folder / "config.json").rename(folder / "real.json")
        (folder / "config.json").symlink_to("real.json")
        self.assertEqual(self.inject("oci", folder, "--limit", "1GiB").returncode, 0)
        self.assertTrue((folder / "config.json").is_symlink())
        self.assertIn("limit=1GiB-gpu0", (folder / "real.json").read_text())

    def test_what_is_no_configuration_is_left_alone(self):
        for text in ("", "services:\n", "{}", '{"kind":"Pod"}', (self.bundle() / "config.json").read_text().replace('"mount"', '"pid"')):
            file = self.folder / "other.json"
            file.write_text(text)
            done = self.inject("oci", file, "--limit", "1GiB")
            self.assertEqual((done.returncode, done.stderr[:5], file.read_text()), (2, "E1710", text), done.stderr)
            self.assertIn(str(file), done.stderr.splitlines()[0])
        for words in (["oci", "--limit", "1GiB"], ["oci", self.folder / "nowhere", "--limit", "1GiB"], ["oci", self.folder, "--limit", "1GiB", "--", "run"]):
            self.assertEqual(self.inject(*words).stderr[:5], "E1710", words)
        os.mkfifo(self.folder / "pipe")
        with open(self.folder / "sparse", "wb") as sparse:
            sparse.truncate(50 << 30)
        for odd in (self.folder / "pipe", "/dev/zero", self.folder / "sparse"):
            self.assertEqual(self.inject("oci", odd, "--limit", "1GiB").stderr[:5], "E1710", odd)
        for tenant in ("nlp\nprivileged: true", "$(id)", "a b", "../x"):
            self.assertEqual(self.inject("oci", self.folder / "bundle", "--tenant", tenant).stderr[:5], "E1409", tenant)
        self.assertEqual(self.inject("docker", self.folder, "--limit", "1GiB", "--", "run", "image").stderr[:5], "E1707")
        self.stop()
        self.assertEqual(self.inject("oci", self.folder / "bundle", "--limit", "1GiB").stderr[:5], "E1501")

    # ----------------------------------------------------------------------------------------------------------- compose

    def test_every_service_gets_the_device(self):
        recorded = Recorded(self.folder, "docker", 'case "$*" in *services) echo warned >&2; echo train; echo web-1;; esac')
        words = ["compose", "--limit", "4GiB", "--", "-p", "x", "-f", "a b.yaml", "up", "-d"]
        shown = self.inject("--dry-run", *words, env={"PATH": recorded.path})
        self.assertEqual(shown.returncode, 0, shown.stderr)
        line, _, override = shown.stdout.split("\n", 2)
        self.assertEqual(list(self.folder.glob("compose-*")) + list(self.specifications.glob("*")), [])
        done = self.inject(*words, env={"PATH": recorded.path})
        self.assertEqual(done.returncode, 0, done.stderr)
        (file,) = self.folder.glob("compose-*")
        self.assertEqual(recorded.calls()[-2:], [["compose", "-p", "x", "-f", "a b.yaml", "config", "--services"],
                                                 ["compose", "-p", "x", "-f", "a b.yaml", "-f", str(file), "up", "-d"]])
        self.assertEqual(line, f"docker compose -p x -f 'a b.yaml' -f {file} up -d")
        self.assertEqual(file.read_text(), override)
        self.assertEqual(override, "".join(["services:\n", *(f'  "{name}":\n    devices:\n      - ration.sh/limit=4GiB-gpu0\n' for name in ("train", "web-1"))]))
        self.assertTrue((self.specifications / "ration-limit-4GiB-gpu0.json").exists())

    def test_named_services_are_not_asked_for(self):
        recorded = Recorded(self.folder, "docker")
        done = self.inject("compose", "--tenant", "nlp", "--service", "a", "--service", "b", "--", "-f", "x.yaml", "up", env={"PATH": recorded.path})
        self.assertEqual((done.returncode, len(recorded.calls())), (0, 1), done.stderr)
        self.assertEqual(next(self.folder.glob("compose-*")).read_text().count("ration.sh/tenant=nlp"), 2)

    def test_what_compose_lacks_is_said(self):
        broken = Recorded(self.folder, "docker", "echo 'no such file' >&2; exit 14")
        for words, text in ((["up"], "no compose file"), (["-f", "x.yaml"], "command of docker compose is missing"), (["-f", "x.yaml", "up"], "does not list the services")):
            done = self.inject("compose", "--limit", "1GiB", "--", *words, env={"PATH": broken.path})
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("E1711", done.stderr)
            self.assertIn(text, done.stderr)
        self.assertIn("no such file", done.stderr)
        self.assertEqual([call[-1] for call in broken.calls()], ["--services"], "nothing else was started")


class Jupyter(unittest.TestCase):
    def setUp(self):
        self.folder = own_folder(self)
        (self.folder / "ration.toml").write_text("")
        self.environment = environment_in(self.folder)

    def jupyter(self, *words, **more):
        return subprocess.run([BIN / "ration", "jupyter", *words], env=dict(self.environment, **more), capture_output=True, text=True, timeout=60)

    def test_the_python_that_has_jupyter_is_asked(self):
        python = Recorded(self.folder, "python3", f'echo "$RATION_PROGRAM" > {self.folder}/program')
        done = self.jupyter("install", "--limit", "4GiB", "--name", "small", "--display-name", "a b", "--user", "--", "--on-deny", "wait:30s", PATH=python.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(python.calls()[-1], ["-m", "ration_jupyter", "install", "--limit", "4GiB", "--name", "small", "--display-name", "a b", "--user", "--",
                                              "--on-deny", "wait:30s"])
        self.assertEqual((self.folder / "program").read_text().strip(), str((BIN / "ration").resolve()))
        for words, asked in ((["list"], ["list"]), (["uninstall", "small"], ["uninstall", "small"])):
            self.assertEqual(self.jupyter(*words, PATH=python.path).returncode, 0)
            self.assertEqual(python.calls()[-1], ["-m", "ration_jupyter", *asked])

    def test_the_module_takes_these_words(self):
        shown = self.jupyter("install", "--dry-run", "--limit", "4GiB", "--name", "x", "--display-name", "y", "--prefix", "/p", "--", "--on-deny", "fail")
        self.assertEqual(shown.stdout.split()[:4], ["python3", "-m", "ration_jupyter", "install"])
        sys.path.insert(0, str(pathlib.Path(os.environ["SOURCE"]) / "libration/python"))
        from ration_jupyter.__main__ import parser
        taken = shown.stdout.split()[3:]
        given = parser().parse_args(taken[:taken.index("--")])
        self.assertEqual((given.limit, given.name, given.display_name, given.prefix), ("4GiB", "x", "y", "/p"))
        self.assertEqual(parser().parse_args(["uninstall", "x"]).name, "x")
        self.assertTrue(parser().parse_args(["list", "--json"]).json)

    def test_without_the_module_it_is_said_what_to_type(self):
        python = Recorded(self.folder, "python3", "exit 1")
        done = self.jupyter("list", PATH=python.path)
        self.assertEqual((done.returncode, done.stderr[:5]), (1, "E1712"))
        self.assertIn("pip install", done.stderr)
        missing = self.jupyter("list", "--python", "/no/python")
        self.assertEqual((missing.returncode, missing.stderr[:5]), (1, "E1712"))
        self.assertIn("/no/python", missing.stderr)
        self.assertEqual(self.jupyter("install").stderr[:5], "E1712")
        self.assertEqual(self.jupyter("uninstall").stderr[:5], "E1712")


if __name__ == "__main__":
    unittest.main(verbosity=2)
