#!/usr/bin/env python3
"""Runs tests of the command line with an installed package, beside a driver that is found as on a server with a GPU: in the
linker's cache, and with no word about it in the environment.

    installed.py wheel|tarball|deb TEST.py...

Each package is installed as people do it, on a machine whose /usr, /etc and /var take changes that nobody else sees. The tests
get BUILD_BIN, the folder of its programs; BUILD_PARTS, where its libraries lie; BUILD_TOOLS, where the tests' own programs
are; and INSTALLED_PYTHON, how to run a Python that has its package."""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["SOURCE"])
DIST = SOURCE / "build/dist"
MACHINE = os.uname().machine
SKIPPED = 77

# $PLACE: an empty folder. The driver is the simulated one of the package that is tested.
ENTER = r"""
set -e
mount -t tmpfs tmpfs "$PLACE"
for folder in usr etc var; do
  mkdir "$PLACE/$folder" "$PLACE/$folder.work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$PLACE/$folder,workdir=$PLACE/$folder.work" "/$folder"
done
chmod 755 "$PLACE"
mkdir "$PLACE/installed"
find /usr/lib /usr/lib64 -name 'libcuda.so*' -delete -o -name 'libnvidia-ml.so*' -delete 2>/dev/null || true
%s
for library in libcuda libnvidia-ml; do
  cp "$BUILD_PARTS/sim/$library.so.1" "/usr/lib/$MACHINE-linux-gnu/$library.so.580.65.06"
  ln -sf "$library.so.580.65.06" "/usr/lib/$MACHINE-linux-gnu/$library.so.1"
done
ldconfig
ldconfig -p | grep -q libcuda.so.1
export BUILD_BIN BUILD_PARTS INSTALLED_PYTHON
for test in "$@"; do
  echo "== $INSTALLED: ${test##*/}"
  status=0; "$PYTHON" "$test" -v || status=$?
  [ $status = 0 ] || [ $status = 77 ] || failed="$failed ${test##*/}"
done
[ -z "$failed" ] || { echo "failed with the $INSTALLED:$failed"; exit 1; }
"""
INSTALL = {
    "wheel": r"""
"$PYTHON" -m venv "$PLACE/installed"
"$PLACE/installed/bin/python" -m pip install --quiet --no-index --no-deps --disable-pip-version-check "$PACKAGE"
BUILD_BIN=$PLACE/installed/bin INSTALLED_PYTHON=$PLACE/installed/bin/python
BUILD_PARTS=$(echo "$PLACE"/installed/lib/python3*/site-packages/ration/native/lib/ration)
""",
    "tarball": r"""
tar -xzf "$PACKAGE" -C "$PLACE/installed" --strip-components=1
BUILD_BIN=$PLACE/installed/bin BUILD_PARTS=$PLACE/installed/lib/ration
INSTALLED_PYTHON="env PYTHONPATH=$PLACE/installed/lib/ration/python $PYTHON"
""",
    "deb": r"""
dpkg --install --force-unsafe-io "$PACKAGE" >/dev/null
BUILD_BIN=/usr/bin BUILD_PARTS=/usr/lib/ration INSTALLED_PYTHON=/usr/bin/python3
""",
}
PACKAGES = {"wheel": f"ration-*_{MACHINE}.whl", "tarball": f"ration-*-linux-{MACHINE}.tar.gz", "deb": "ration_*_{}.deb"}


def main(form, tests):
    debian = {"x86_64": "amd64", "aarch64": "arm64"}[MACHINE]
    packages = sorted(DIST.glob(PACKAGES[form].format(debian)))
    if not packages or os.getuid() != 0:
        print("skipped: " + ("no packages here (./dev package makes them)" if not packages else "needs root for a machine of its own"))
        return SKIPPED
    own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "PYTHON"))}
    with tempfile.TemporaryDirectory(dir="/dev") as place:
        environment = dict(own, PLACE=place, PACKAGE=str(packages[-1]), INSTALLED=form, MACHINE=MACHINE, PYTHON=sys.executable, failed="",
                           BUILD_TOOLS=str(SOURCE / "build/release/bin"),
                           PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER % INSTALL[form], "installed", *tests],
                              env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
