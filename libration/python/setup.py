"""Adds the parts that are not Python to the package: the C library, the guard, the simulated GPU and the commands. They come
from RATION_PACKAGE (the folder of an unpacked package of ration) or from the build of the source tree."""
import os
import pathlib
import re
import shutil

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from wheel.bdist_wheel import bdist_wheel
except ImportError:  # needed only to build a wheel
    bdist_wheel = None

HERE = pathlib.Path(__file__).resolve().parent
VERSION = os.environ.get("RATION_VERSION") or (HERE.parents[1] / "VERSION").read_text().strip()

# The parts by their path in an unpacked package, each with its path in the build.
PARTS = {"bin/ration": "bin/ration", "bin/ration-workload": "bin/ration-workload", "bin/ration-sim-truth": "bin/ration-sim-truth",
         "lib/libration.so.1": "lib/libration.so.1",
         "lib/ration/shim": "shim", "lib/ration/sim": "sim", "share/ration/schema": "../../share/ration/schema",
         "share/ration/traces": "../../share/ration/traces", "share/ration/scenarios": "../../share/ration/scenarios",
         "share/ration/slurm": "../../share/ration/slurm"}
# Parts that only an unpacked package has.
BESIDE = ["share/doc/ration/licences", "share/doc/ration/site", "share/doc/ration/examples", "LICENSE"]
# The files that other programs look for below the environment's own folder.
FOR_OTHERS = ["share/man", "share/bash-completion", "share/zsh", "share/fish"]


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        package = os.environ.get("RATION_PACKAGE")
        parts = {**PARTS, **{part: part for part in BESIDE if package}}
        for part, built in parts.items():
            source = pathlib.Path(package, part) if package else HERE.parents[1] / "build/release" / built
            if not source.exists():
                raise SystemExit(f"{source} is not there: run ./dev build first, or set RATION_PACKAGE")
            target = pathlib.Path(self.build_lib, "ration/native", part)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True, ignore=lambda _, names: [
                    name for name in names if name.startswith("CMake") or name.endswith((".cmake", ".a"))])
            else:
                shutil.copy(source.resolve(), target)


class WithNativeCode(Distribution):
    def has_ext_modules(self):
        return True  # the wheel is for this platform


def description():
    """Returns the README for a package index: links to pages of the manual, which is in the package, become commands."""
    text = (HERE / "README.md").read_text()
    return re.sub(r"\[[^]]+\]\(\.\./\.\./docs/(?:scenarios/)?([\w-]+)\.md\)", r"`ration docs \1`", text)


def data_files():
    """Returns the files to install outside the package, by folder of the environment."""
    files = {"share/jupyter/labextensions/ration-jupyter": ["ration_jupyter/labextension/package.json"],
             "share/jupyter/labextensions/ration-jupyter/static": ["ration_jupyter/labextension/static/remoteEntry.js"],
             "etc/jupyter/jupyter_server_config.d": ["ration_jupyter/jupyter-config/ration_jupyter.json"]}
    package = os.environ.get("RATION_PACKAGE")
    for part in FOR_OTHERS if package else ():
        for path in sorted(pathlib.Path(package, part).rglob("*")):
            if path.is_file():
                files.setdefault(str(path.parent.relative_to(package)), []).append(str(path))
    return sorted(files.items())


commands = {"build_py": BuildWithLibrary}
if bdist_wheel is not None:
    class ForEveryPython(bdist_wheel):
        """A wheel for any Python 3, because the library is called through ctypes. RATION_WHEEL_PLATFORM names its platform."""

        def get_tag(self):
            return ("py3", "none", os.environ.get("RATION_WHEEL_PLATFORM") or super().get_tag()[2])

    commands["bdist_wheel"] = ForEveryPython

setup(version=VERSION, cmdclass=commands, distclass=WithNativeCode, data_files=data_files(), long_description=description(), long_description_content_type="text/markdown")
