"""PyTorch learns of a denial by an exception of its own, which leaves the library's function: in the library of the build and in the package's, which
has an unwinder of its own."""
import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
BUILD = pathlib.Path(os.environ["BUILD"])
BIN = BUILD / "bin"

# PyTorch's function for failed checks, as its libc10.so has it.
CHECKS = """
#include <cstdint>
#include <stdexcept>
#include <string>
namespace c10::detail {
[[noreturn]] void torchCheckFail(const char*, const char*, std::uint32_t, const char* text) { throw std::runtime_error(std::string(text)); }
}
"""
PROGRAM = """
#include <dlfcn.h>
#include <cstddef>
#include <cstdio>
#include <exception>
int main(int, char** given) {
  if (dlopen("libc10.so", RTLD_NOW) == nullptr) return 2;
  void* library = dlopen(given[1], RTLD_NOW);
  if (library == nullptr) return std::puts(dlerror()), 3;
  const auto allocate = reinterpret_cast<void* (*)(std::ptrdiff_t, int, void*)>(dlsym(library, "ration_torch_alloc"));
  if (allocate(1 << 20, 0, nullptr) == nullptr) return 4;
  for (int turn = 0; turn < 2; ++turn) {
    try {
      allocate(std::ptrdiff_t{8} << 30, 0, nullptr);
      return 5;
    } catch (const std::exception& error) {
      std::puts(error.what());
    }
  }
}
"""


class TorchFailure(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, text, options in (("libc10.so", CHECKS, ["-shared", "-fPIC"]), ("program", PROGRAM, ["-ldl"])):
            subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-x", "c++", "-", "-o", f"{self.folder.name}/{name}", *options], input=text, text=True, check=True)

    def denied(self, library):
        told = subprocess.run([BIN / "ration", "run", "--sim=T4", "--limit", "4GiB", "--", f"{self.folder.name}/program", library], text=True, capture_output=True, timeout=60,
                              env={**os.environ, "LD_LIBRARY_PATH": self.folder.name, "RATION_RUNTIME_DIR": self.folder.name, "RATION_SIM_DIR": self.folder.name})
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        lines = told.stdout.splitlines()
        denials = [line for line in lines if line.startswith("CUDA out of memory. 8.00 GiB denied on GPU:0")]
        self.assertEqual(len(denials), 2, told.stdout)
        self.assertTrue(all("Raise the limit: ration.limit('8GiB')." in line and "config." not in line for line in denials), told.stdout)

    def test_an_exception_of_pytorchs_leaves_the_library(self):
        self.denied(BUILD / "lib/libration.so.1")

    def test_an_exception_of_pytorchs_leaves_the_packages_library(self):
        tarball = next((SOURCE / "build/dist").glob(f"ration-*-linux-{os.uname().machine}.tar.gz"), None)
        if tarball is None:
            self.skipTest("no tarball here (./dev package makes one)")
        with tarfile.open(tarball) as packed:
            member = next(each for each in packed.getmembers() if each.isfile() and "/lib/libration.so.1" in each.name)
            pathlib.Path(self.folder.name, "libration.so.1").write_bytes(packed.extractfile(member).read())
        self.denied(f"{self.folder.name}/libration.so.1")


if __name__ == "__main__":
    unittest.main()
