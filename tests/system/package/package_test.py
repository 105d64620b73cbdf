#!/usr/bin/env python3
"""The tarball of `./dev package`: unpacked anywhere it works, and it needs nothing but glibc 2.36."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
TARBALLS = sorted((SOURCE / "build").glob("ration-*-linux-*.tar.gz"))


class Package(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="a folder ")  # with a space in its name
        self.addCleanup(folder.cleanup)
        subprocess.run(["tar", "-xzf", TARBALLS[-1], "-C", folder.name], check=True)
        (unpacked,) = pathlib.Path(folder.name).iterdir()
        self.root = pathlib.Path(folder.name) / "moved"
        unpacked.rename(self.root)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_"))}
        runtime = tempfile.TemporaryDirectory()
        self.addCleanup(runtime.cleanup)
        self.environment = dict(own, RATION_SIM_DIR=runtime.name, RATION_RUNTIME_DIR=runtime.name)

    def ration(self, *arguments):
        return subprocess.run([self.root / "bin/ration", *arguments], env=self.environment, capture_output=True, text=True, timeout=120)

    def binaries(self):
        return [*(self.root / "bin").iterdir(), *(self.root / "lib").rglob("*.so.1")]

    def test_it_works_where_it_lies(self):
        done = self.ration("run", "--sim=T4:4GiB", "--limit", "1GiB", "--", str(self.root / "bin/ration-workload"), "probe", "64")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.ration("doctor", "--sim=T4:4GiB", "--probe")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.ration("help", "schema", "ps").returncode, 0)

    def test_the_simulated_runtime_is_preloaded_through_a_link(self):
        environment = json.loads(self.ration("sim", "env", "--sim=T4", "--sim-cuda", "13", "-o", "json").stdout)["data"]["sets"]
        self.assertNotIn(" ", environment["LD_PRELOAD"])
        self.assertEqual(len(environment["LD_PRELOAD"].split(":")), 10)
        done = subprocess.run(["true"], env={**self.environment, **environment}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_where_nothing_can_be_preloaded_nothing_runs_unguarded(self):
        self.environment["RATION_RUNTIME_DIR"] = str(self.root / "has space")
        done = self.ration("run", "--sim=T4", "--limit", "1GiB", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("E1424", done.stderr)

    def test_it_needs_only_the_c_library(self):
        for path in self.binaries():
            dynamic = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
            needed = set(re.findall(r"NEEDED.*\[(.*?)\]", dynamic))
            self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, path)
            self.assertNotRegex(dynamic, "R(UN)?PATH")

    def test_it_runs_with_glibc_2_36(self):
        for path in self.binaries():
            symbols = subprocess.run(["readelf", "-VW", path], capture_output=True, text=True, check=True).stdout
            newest = max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(2\.\d+)", symbols))
            self.assertLessEqual(newest, (2, 36), path)

    def test_the_guard_exports_the_drivers_names_the_ways_to_find_them_and_what_the_library_asks_it(self):
        for library, prefix in (("libcuda.so.1", ("cu", "ration_shim")), ("libnvidia-ml.so.1", "nvml")):
            listed = subprocess.run(["nm", "-D", "--defined-only", self.root / "lib/ration/shim" / library], capture_output=True, text=True, check=True).stdout
            names = {line.split()[-1] for line in listed.splitlines()}
            self.assertEqual({name for name in names if not name.startswith(prefix)} - {"dlopen", "dlmopen", "dlsym"}, set())

    def test_a_cpp_program_is_built_with_what_lies_in_it(self):
        program = self.root / "program.cpp"
        program.write_text("""
            #include <cstdio>
            #include <ration/memory_resource.hpp>
            #include <ration/runtime.hpp>
            int main() {
              ration::Runtime runtime;
              runtime.set_memory_limit(runtime.list_physical_devices("GPU").at(0), "1GiB");
              runtime.deallocate(0, runtime.allocate(0, 1 << 20));
              try { (void)runtime.allocate(0, std::size_t{2} << 30); } catch (const ration::MemoryLimitExceeded& refused) {
                std::puts("refused");
              }
            }
        """)
        subprocess.run(["g++", "-std=c++20", "-I", self.root / "include", program, "-o", self.root / "program", "-L",
                        self.root / "lib", "-lration_cxx", "-pthread"], check=True)
        environment = dict(self.environment, RATION_SIM="T4", LD_LIBRARY_PATH=str(self.root / "lib/ration/sim"))
        done = subprocess.run([self.root / "program"], env=environment, capture_output=True, text=True)
        self.assertEqual(done.stdout, "refused\n", done.stderr)

    def test_the_library_can_be_loaded_late(self):
        """The thread-local part of what Python opens has to fit what glibc keeps for libraries that come late: 1,664
        bytes for all of them together."""
        listed = subprocess.run(["readelf", "-lW", self.root / "lib/libration.so.1"], capture_output=True, text=True, check=True).stdout
        (size,) = re.findall(r"TLS +\S+ +\S+ +\S+ +\S+ +(0x[0-9a-f]+)", listed)
        self.assertLessEqual(int(size, 16), 256)

    def test_what_other_programs_read_is_there(self):
        for name in ("openapi.json", "grafana/ration.json", "prometheus/alerts.yml", "prometheus/recording.yml", "schema/snapshot.json"):
            self.assertTrue((self.root / "share/ration" / name).stat().st_size > 500, name)
        self.assertNotIn('"schema/', (self.root / "share/ration/openapi.json").read_text(), "it stands by itself")

    def test_every_document_that_is_pointed_to_is_there(self):
        documents = [self.root / "README.md", self.root / "CHANGELOG.md", *(self.root / "share/doc/ration").rglob("*.md")]
        self.assertGreater(len(documents), 8)
        for document in documents:
            for link in re.findall(r"\]\((?!https?:)([^)#\s]+)|(?:src|srcset)=\"(?!https?:)([^\"]+)\"", document.read_text()):
                self.assertTrue((document.parent / (link[0] or link[1])).exists(), f"{document.name}: {link}")
        self.assertNotIn("./dev", (self.root / "README.md").read_text(), "that is in the source alone")
        for code in re.findall(r"E\d{4}", self.ration("help", "errors").stdout):
            for named in re.findall(r"docs/\S+\.md", self.ration("help", code).stdout):
                self.assertTrue((self.root / "share/doc/ration" / named).exists(), f"{code}: {named}")

    def test_the_manual_is_there(self):
        self.assertTrue((self.root / "share/man/man1/ration-run.1").stat().st_size > 500)
        self.assertTrue((self.root / "share/man/man7/ration-exit-codes.7").exists())
        self.assertTrue((self.root / "share/man/man5/ration.toml.5").exists())


if __name__ == "__main__":
    if not TARBALLS:
        print("skipped: no tarball here (./dev package makes one)")
        sys.exit(77)
    unittest.main()
