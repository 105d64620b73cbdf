"""Puts the built C library into the package. It is taken from RATION_LIBRARY, or from the source tree's build."""
import os
import pathlib
import shutil

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from wheel.bdist_wheel import bdist_wheel
except ImportError:  # building a wheel asks for it; installing does not
    bdist_wheel = None

HERE = pathlib.Path(__file__).resolve().parent


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        library = pathlib.Path(os.environ.get("RATION_LIBRARY", HERE.parent / "build/release/lib/libration.so.1"))
        if not library.exists():
            raise SystemExit(f"{library} is not there: run ./dev build first, or set RATION_LIBRARY")
        target = pathlib.Path(self.build_lib) / "ration"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library.resolve(), target / "libration.so.1")


class WithNativeCode(Distribution):
    def has_ext_modules(self):
        return True  # the wheel is for this platform


commands = {"build_py": BuildWithLibrary}
if bdist_wheel is not None:
    class ForEveryPython(bdist_wheel):
        """The library is called through ctypes, so any Python 3 will do."""

        def get_tag(self):
            return ("py3", "none", super().get_tag()[2])

    commands["bdist_wheel"] = ForEveryPython

setup(cmdclass=commands, distclass=WithNativeCode)
