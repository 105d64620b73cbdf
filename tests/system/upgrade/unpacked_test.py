#!/usr/bin/env python3
"""A package that was unpacked where nobody would have thought: under a name with spaces, an apostrophe and other letters, on a
file system that cannot be written."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(os.environ["BUILD_BIN"])
NODE = "--sim=T4:16GiB:context=64MiB"

# $0: an empty folder. The package is put together as ./dev package does.
ENTER = r"""
set -e
mount -t tmpfs tmpfs "$0"
PACKAGE="$0/it's a 文件夹 \"here\"/ration"
mkdir -p "$PACKAGE/bin" "$PACKAGE/lib/ration/sim"
cp "$BIN/ration" "$BIN/ration-workload" "$PACKAGE/bin"
ln -s ration "$PACKAGE/bin/rationd"
cp -r "$BIN/../shim" "$PACKAGE/lib/ration/shim"
cp -r "$BIN/../sim/"{libcuda.so.1,libnvidia-ml.so.1,cuda12,cuda13} "$PACKAGE/lib/ration/sim"
mkdir -p "$PACKAGE/share/ration"; cp -r "$SOURCE/share/ration/scenarios" "$PACKAGE/share/ration"
mount -o remount,ro "$0"
for folder in /run /tmp; do mount -t tmpfs -o mode=1777 tmpfs "$folder"; done
export PACKAGE
cd /
exec bash -ec "$1"
"""


def does(script):
    with tempfile.TemporaryDirectory(dir="/dev") as folder:
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "XDG_"))}
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER, folder, script],
                              env=dict(own, BIN=str(BIN), NODE=NODE, HOME="/tmp"), capture_output=True, text=True, timeout=120)


class Unpacked(unittest.TestCase):
    def out(self, script):
        done = does(script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_it_cannot_be_written(self):
        self.assertIn("Read-only", does('touch "$PACKAGE/lib/x"').stderr)

    def test_a_limit_holds(self):
        done = does('"$PACKAGE/bin/ration" run $NODE --limit 1GiB -- "$PACKAGE/bin/ration-workload" hold 2GiB')
        self.assertIn("denied 2.00 GiB", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_a_program_finds_the_simulated_runtime(self):
        program = "import ctypes; print(ctypes.CDLL('libcudart.so.12').cudaFree(0))"
        self.assertEqual(self.out(f'"$PACKAGE/bin/ration" run $NODE --sim-cuda 12 --limit 1GiB -- python3 -c "{program}"'), "0\n")

    def test_what_it_prints_can_be_pasted_into_a_shell(self):
        printed = self.out('eval "$("$PACKAGE/bin/ration" sim env $NODE)"; python3 -c "import ctypes; print(ctypes.CDLL(\'libcuda.so.1\').cuInit(0))"')
        self.assertEqual(printed, "0\n")

    def test_doctor_finds_nothing_wrong(self):
        told = self.out('"$PACKAGE/bin/ration" doctor $NODE --probe --skip enforce.python')
        self.assertIn("· 0 fail", told)
        self.assertRegex(told, "OK +enforce.probe")
        self.assertIn("/it's a 文件夹 \"here\"/ration: ", told)

    def test_the_daemon_and_the_demo_run(self):
        shown = self.out("""
            mkfifo /tmp/said; "$PACKAGE/bin/rationd" $NODE --listen '' >/tmp/said & daemon=$!
            trap 'kill $daemon' EXIT
            read -r greeting </tmp/said
            "$PACKAGE/bin/ration" run $NODE --limit 1GiB --name job -- "$PACKAGE/bin/ration" ps $NODE
            "$PACKAGE/bin/ration" demo --speed 20 --for 3s </dev/null
            kill $daemon; wait $daemon || true; trap - EXIT""")
        self.assertIn("/job ", shown)
        self.assertIn("DENIED", shown)


if __name__ == "__main__":
    problem = "needs root for a read-only file system" if os.getuid() != 0 else does("true").stderr.strip()
    if problem:
        print(f"skipped: {problem}")
        sys.exit(77)
    unittest.main()
