#!/usr/bin/env python3
"""A whole life of ration leaves nothing outside its own folders: what it writes is looked at from below, on a machine whose
every folder has a layer of its own for changes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from own_machine import CHECKOUT  # noqa: E402

BIN = pathlib.Path(os.environ["BUILD_BIN"])
NODE = "--sim=T4:16GiB:context=64MiB"
KEPT = ("proc", "sys", "dev")

# $0: an empty folder. What is run sees the machine; whatever it changes lies in $0/changes, and what is new is written to $NEW.
ENTER = CHECKOUT + r"""
set -e
hold_checkout
exec 3>"$NEW"  # before the layers
mount -t tmpfs tmpfs "$0"
for folder in $FOLDERS; do
  mkdir -p "$0/changes/$folder" "$0/work/$folder"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$0/changes/$folder,workdir=$0/work/$folder" "/$folder"
done
for folder in run tmp dev/shm; do
  mkdir -p "$0/changes/$folder"; chmod 1777 "$0/changes/$folder"
  mount --bind "$0/changes/$folder" "/$folder"
done
put_checkout_back
chmod 755 "$0/changes/run"
mkdir -p /home/somebody; chown 65534:65534 /home/somebody
find "$0/changes" | sort >"$0/before"
"$@" 3>&- || status=$?
find "$0/changes" | sort | comm -13 "$0/before" - | sed "s#^$0/changes##" >&3
exit ${status:-0}
"""

# A life: a program under a limit, a daemon, what people ask, a demo, and the end.
LIFE = r"""
set -ex
cd /
ration run NODE --name job --limit 2GiB -- ration-workload grab --steady 0.2GiB --peak 0.4GiB --quiet
ration run NODE --name greedy --limit 1GiB -- ration-workload hold 2GiB && exit 1
mkfifo "$HOME/said"; rationd NODE --listen '' >"$HOME/said" & daemon=$!
trap 'kill $daemon || true' EXIT
read -r greeting <"$HOME/said"; rm "$HOME/said"
ration run NODE --name other --limit 2GiB -- ration-workload grab --steady 0.2GiB --peak 0.4GiB --quiet
for words in ps "why greedy" events doctor "doctor --probe" "report" "fits 1GiB" "config print" "sim env"; do
  ration $words NODE >/dev/null
done
kill $daemon; wait $daemon || true
trap - EXIT
ration demo --speed 20 --for 3s </dev/null >&2
ration doctor NODE -o json --only folders
"""


def lived(user, **environment):
    """What a life of that user says at last, and the files and folders that are there after it and were not before."""
    folders = [each.name for each in pathlib.Path("/").iterdir() if each.is_dir() and not each.is_symlink() and each.name not in (*KEPT, "run", "tmp", "lost+found")]
    environment = {"PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/home/somebody", "SOURCE": os.environ["SOURCE"], "FOLDERS": " ".join(folders), **environment}
    drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    with tempfile.TemporaryDirectory(dir="/dev") as folder, tempfile.NamedTemporaryFile("r") as new:
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER, folder, *drop, "bash", "-c",
                               LIFE.replace("NODE", f"'{NODE}'")], env=dict(environment, NEW=new.name), capture_output=True, text=True, timeout=250)
        return done, new.read().splitlines()


class Life(unittest.TestCase):
    def check(self, user, runtime, state, simulated, **environment):
        done, new = lived(user, **environment)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        own = (runtime, state, simulated)
        outside = [path for path in new if not any(path == folder or path.startswith(folder + "/") or folder.startswith(path + "/") for folder in own)]
        self.assertEqual(outside, [])
        rows = {row["check"]: row for row in json.loads(done.stdout.splitlines()[-1])["data"]}
        for check, folder in zip(("folders.runtime", "folders.state", "folders.sim"), own):
            self.assertIn(folder, new, "the test did not see what it is about")
            self.assertEqual(rows[check]["path"], folder)
            self.assertGreater(rows[check]["size_bytes"], 4096)
            self.assertGreater(rows[check]["files"], 0)
        self.assertEqual(rows["folders.runtime"]["books"], len([path for path in new if path.endswith(".book")]))
        self.assertGreater(rows["folders.package"]["size_bytes"], 1 << 20)
        self.assertEqual(rows["folders.package"]["path"], str(BIN.parent))

    def test_of_root(self):
        self.check(0, "/run/ration", "/var/lib/ration", "/tmp/ration-sim-0")

    def test_of_a_user(self):
        self.check(65534, "/tmp/ration-65534", "/home/somebody/.local/state/ration", "/tmp/ration-sim-65534")


def why_not():
    if os.getuid() != 0:
        return "needs root for a machine with a layer for changes"
    with tempfile.TemporaryDirectory(dir="/dev") as folder:
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER, folder, "true"],
                              env=dict(os.environ, FOLDERS="usr", NEW="/dev/null"), capture_output=True, text=True)
    return "" if done.returncode == 0 else f"no mount namespace with layers: {done.stderr.strip()}"


if __name__ == "__main__":
    if problem := why_not():
        print(f"skipped: {problem}")
        sys.exit(77)
    unittest.main()
