#!/usr/bin/env python3
"""What `./dev package` makes: unpacked anywhere it works, it needs nothing but glibc 2.17, and it says what is in it."""
import hashlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ["SOURCE"])
DIST = SOURCE / "build/dist"
HERE = os.uname().machine
VERSION = (SOURCE / "VERSION").read_text().strip()
TARBALLS = sorted(DIST.glob(f"ration-*-linux-{HERE}.tar.gz"))
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# `./dev test` packages for this machine's alone.
PACKAGED = [name for name in DEBIAN if (DIST / f"ration-{VERSION}-linux-{name}.tar.gz").exists()]
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
# Its parts that one has linked with before; the loader is one of them.
LIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def elf_files(folder):
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            yield path


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

    def test_it_works_where_it_lies(self):
        done = self.ration("run", "--sim=T4:4GiB", "--limit", "1GiB", "--", str(self.root / "bin/ration-workload"), "probe", "64")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.ration("doctor", "--sim=T4:4GiB", "--probe")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.ration("help", "schema", "ps").returncode, 0)

    def test_the_simulated_runtime_is_preloaded_through_a_link(self):
        environment = json.loads(self.ration("sim", "env", "--sim=T4", "--sim-cuda", "13", "-o", "json").stdout)["data"]["sets"]
        self.assertNotIn(" ", environment["LD_PRELOAD"])
        self.assertEqual(len(environment["LD_PRELOAD"].split(":")), 11)
        done = subprocess.run(["true"], env={**self.environment, **environment}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_where_nothing_can_be_preloaded_nothing_runs_unguarded(self):
        self.environment["RATION_RUNTIME_DIR"] = str(self.root / "has space")
        done = self.ration("run", "--sim=T4", "--limit", "1GiB", "--", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("E1424", done.stderr)

    def test_the_guard_exports_the_drivers_names_the_ways_to_find_them_and_to_start_programs_and_what_the_library_asks_it(self):
        finds = {"dlopen", "dlmopen", "dlsym"}
        starts = {"execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "execveat", "fexecve", "posix_spawn", "posix_spawnp", "pidfd_spawn",
                  "pidfd_spawnp", "system", "popen", "wordexp"}
        for library, prefix, others in (("libcuda.so.1", ("cu", "ration_shim"), finds | starts), ("libnvidia-ml.so.1", "nvml", finds)):
            listed = subprocess.run(["nm", "-D", "--defined-only", self.root / "lib/ration/shim" / library], capture_output=True, text=True, check=True).stdout
            names = {line.split()[-1] for line in listed.splitlines()}
            self.assertEqual({name for name in names if not name.startswith(prefix)} - others, set())

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
        classes = self.root / "share/ration/cxx"
        subprocess.run(["g++", "-std=c++20", "-I", self.root / "include", "-I", classes, program, classes / "ration.cpp", "-o", self.root / "program",
                        "-pthread", "-ldl"], check=True)
        environment = dict(self.environment, RATION_SIM="T4", LD_LIBRARY_PATH=str(self.root / "lib/ration/sim"))
        done = subprocess.run([self.root / "program"], env=environment, capture_output=True, text=True)
        self.assertEqual(done.stdout, "refused\n", done.stderr)

    def test_a_scenario_that_is_a_program_can_be_run(self):
        done = self.ration("demo", "--scenario", "slurm", "--dry-run")
        self.assertIn(str(self.root / "share/ration/scenarios/slurm"), done.stdout, done.stderr)

    def test_the_plugin_for_slurm_is_built_with_what_lies_in_it(self):
        if not pathlib.Path("/usr/include/slurm/spank.h").exists():
            self.skipTest("no libslurm-dev")
        (line,) = re.findall(r"^\$ (g\+\+ .*ration_spank.*)$", (self.root / "share/doc/ration/docs/scenarios/slurm.md").read_text(), flags=re.M)
        plugin = self.root / "plugin.so"
        words = [{"/usr/lib/ration/ration_spank.so": plugin}.get(word, word.replace("/usr/share", f"{self.root}/share")) for word in line.split()]
        subprocess.run(words, check=True)
        listed = subprocess.run(["readelf", "-dW", plugin], capture_output=True, text=True, check=True).stdout
        self.assertEqual(re.findall(r"NEEDED.*\[(.*)\]", listed), ["libc.so.6"])

    def test_the_library_can_be_loaded_late(self):
        """The thread-local part of what Python opens has to fit what glibc keeps for libraries that come late: 1,664
        bytes for all of them together."""
        listed = subprocess.run(["readelf", "-lW", self.root / "lib/libration.so.1"], capture_output=True, text=True, check=True).stdout
        (size,) = re.findall(r"TLS +\S+ +\S+ +\S+ +\S+ +(0x[0-9a-f]+)", listed)
        self.assertLessEqual(int(size, 16), 256)

    def test_what_other_programs_read_is_there(self):
        for name in ("openapi.json", "grafana/ration.json", "grafana/fleet.json", "prometheus/alerts.yml", "prometheus/recording.yml", "schema/snapshot.json"):
            self.assertTrue((self.root / "share/ration" / name).stat().st_size > 500, name)
        self.assertNotIn('"schema/', (self.root / "share/ration/openapi.json").read_text(), "it stands by itself")

    def test_every_page_that_the_help_points_to_is_there(self):
        topics = re.findall(r"^  ration help (\S+)", self.ration("help").stdout, re.M)
        errors = re.findall(r"E\d{4}", self.ration("help", "errors").stdout)
        pages = {named for name in topics + errors for named in re.findall(r"ration docs (?:--text )?(\w[\w./-]+)", self.ration("help", name).stdout)}
        self.assertGreater(len(pages), 3)
        for named in pages:
            done = self.ration("docs", named)
            self.assertTrue(done.returncode == 0 and pathlib.Path(done.stdout.strip()).is_relative_to(self.root), named + done.stderr)
            self.assertRegex(self.ration("docs", "--text", named).stdout, r"\A.*\w.*\n=+\n", "the page itself")
        self.assertEqual(self.ration("docs", "oom").stdout, self.ration("docs", "out-of-memory").stdout)
        self.assertEqual(self.ration("docs", "tensorflw").returncode, 3)
        for listed in self.ration("docs", "--list").stdout.splitlines():
            name, title = listed.split(maxsplit=1)
            text = self.ration("docs", "--text", name).stdout
            self.assertTrue(text.startswith(f"{title}\n="), listed)
            self.assertEqual([line for line in text.splitlines() if not line.startswith("    ") and (len(line) > 100 or re.match(r"[|#<]|```", line))], [], name)

    def test_the_manual_is_there(self):
        self.assertTrue((self.root / "share/man/man1/ration-run.1").stat().st_size > 500)
        self.assertTrue((self.root / "share/man/man7/ration-exit-codes.7").exists())
        self.assertTrue((self.root / "share/man/man5/ration.toml.5").exists())

    @unittest.skipUnless(shutil.which("man"), "no man here")
    def test_man_finds_the_manual_as_the_pages_say(self):
        """Of the unpacked package, by its folder in PATH; of one in /opt, by the links."""
        (line,) = re.findall(r"^\$ sudo (cp -rs /opt/ration/share/man/\. .*?) *#", (SOURCE / "docs/node.md").read_text(), re.M)
        with tempfile.TemporaryDirectory() as folder:
            line = line.replace("/opt/ration/share/man/.", shlex.quote(f"{self.root}/share/man/.")).replace("/usr/local", folder)
            pathlib.Path(folder, "share/man").mkdir(parents=True)
            subprocess.run(["sh", "-c", line], check=True)
            for place in (str(self.root), folder):
                for name, page in (("ration", "man1/ration.1"), ("ration-run", "man1/ration-run.1"), ("ration.toml", "man5/ration.toml.5")):
                    done = subprocess.run(["man", "-w", name], env={"PATH": f"{place}/bin:{os.environ['PATH']}"}, capture_output=True, text=True)
                    self.assertEqual(pathlib.Path(done.stdout.strip()).resolve(), (self.root / "share/man" / page).resolve(), done.stderr)


class EveryArchitecture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tarballs(self):
        for architecture in PACKAGED:
            with self.subTest(architecture):
                with tarfile.open(DIST / f"ration-{VERSION}-linux-{architecture}.tar.gz") as archive:
                    archive.extractall(self.folder)
                yield architecture, self.folder / f"ration-{VERSION}-linux-{architecture}"

    def needs_only_an_old_libc(self, architecture, path):
        header = subprocess.run(["readelf", "-hW", path], capture_output=True, text=True, check=True).stdout
        self.assertIn(MACHINES[architecture], header, path)
        dynamic = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
        self.assertLessEqual(set(re.findall(r"NEEDED.*\[(.*?)\]", dynamic)), LIBC, path)
        self.assertNotRegex(dynamic, "R(UN)?PATH")
        symbols = subprocess.run(["readelf", "-VW", path], capture_output=True, text=True, check=True).stdout
        newest = max((tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(2(?:\.\d+)+)", symbols)), default=(0,))
        self.assertLessEqual(newest, (2, 17), path)

    def test_each_file_needs_glibc_2_17_and_nothing_else(self):
        for architecture, root in self.tarballs():
            files = list(elf_files(root))
            self.assertGreater(len(files), 25)
            for path in files:
                self.needs_only_an_old_libc(architecture, path)

    def test_the_guard_and_the_library_do_for_every_architecture(self):
        for architecture in DEBIAN:
            built = SOURCE / "build/portable" / architecture
            files = [path for part in ("shim", "lib") for path in elf_files(built / part)]
            names = {path.name.partition(".so")[0] for path in files}
            self.assertEqual(names, {"libcuda", "libnvidia-ml", "libration-audit", "libration-nvtx", "libration"}, architecture)
            for path in files:
                self.needs_only_an_old_libc(architecture, path)

    def test_no_path_of_the_machine_that_made_it_is_inside(self):
        for _, root in self.tarballs():
            for path in root.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    self.assertNotIn(str(SOURCE).encode(), path.read_bytes(), path)

    def test_the_wheel_has_the_same_files(self):
        for architecture, root in self.tarballs():
            (wheel,) = DIST.glob(f"ration-{VERSION}-py3-none-*_{architecture}.whl")
            self.assertIn(f"manylinux_2_28_{architecture}", wheel.name)
            with zipfile.ZipFile(wheel) as archive:
                names = archive.namelist()
                for path in [*elf_files(root / "lib"), root / "bin/ration", root / "bin/ration-workload", root / "share/ration/scenarios/slurm"]:
                    inside = f"ration/native/{path.relative_to(root)}"
                    self.assertIn(inside, names)
                    self.assertEqual(archive.read(inside), path.read_bytes(), inside)

    def test_the_wheel_has_pages_manual_and_completions(self):
        for architecture, root in self.tarballs():
            (wheel,) = DIST.glob(f"ration-{VERSION}-py3-none-*_{architecture}.whl")
            with zipfile.ZipFile(wheel) as archive:
                names = set(archive.namelist())
                commands = archive.read(f"ration-{VERSION}.dist-info/entry_points.txt").decode().split("[console_scripts]")[1].split("[")[0]
            self.assertEqual(set(re.findall(r"= *(\S+)", commands)), {"ration_command:main"}, "the package ration makes a workload of who imports it")
            for part, place in (("share/doc/ration/site", "ration/native"), ("share/doc/ration/examples", "ration/native"), ("share/man", f"ration-{VERSION}.data/data"),
                                ("share/bash-completion", f"ration-{VERSION}.data/data"), ("share/zsh", f"ration-{VERSION}.data/data"),
                                ("share/fish", f"ration-{VERSION}.data/data")):
                files = {f"{place}/{path.relative_to(root)}" for path in (root / part).rglob("*") if path.is_file()}
                self.assertGreater(len(files), 0)
                self.assertEqual(files - names, set())

    def test_the_wheel_describes_itself_without_links_into_the_sources(self):
        for architecture in PACKAGED:
            (wheel,) = DIST.glob(f"ration-{VERSION}-py3-none-*_{architecture}.whl")
            with zipfile.ZipFile(wheel) as archive:
                (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
                text = archive.read(name).decode()
            self.assertNotIn("](../", text)
            self.assertIn("`ration docs tensorflow`", text)
            self.assertIn("Classifier: Operating System :: POSIX :: Linux", text)

    def test_tarball_and_debian_package_have_the_python_package_of_the_wheel(self):
        for architecture, root in self.tarballs():
            (wheel,) = DIST.glob(f"ration-{VERSION}-py3-none-*_{architecture}.whl")
            with zipfile.ZipFile(wheel) as archive:
                wanted = {name for name in archive.namelist() if name.endswith((".py", "remoteEntry.js")) and ".data/" not in name and "native/" not in name}
            here = {str(path.relative_to(root / "lib/ration/python")) for path in (root / "lib/ration/python").rglob("*") if path.is_file()}
            self.assertEqual(wanted - here, set())
            listed = subprocess.run(["dpkg-deb", "--contents", DIST / f"ration_{VERSION}_{DEBIAN[architecture]}.deb"], capture_output=True, text=True, check=True).stdout
            for name in wanted:
                self.assertIn(f" ./usr/lib/ration/python/{name}\n", listed)
            self.assertIn(" ./usr/lib/python3/dist-packages/ration -> ", listed)

    def test_the_debian_packages_have_no_errors(self):
        if shutil.which("lintian") is None:
            self.skipTest("lintian is not here")
        for architecture in (DEBIAN[name] for name in PACKAGED):
            done = subprocess.run(["lintian", "--fail-on", "error", "--allow-root", DIST / f"ration_{VERSION}_{architecture}.deb"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)

    def images(self):
        """Of each architecture: the manifest, and what reads a blob and holds it to its digest."""
        with tarfile.open(DIST / f"ration-{VERSION}-oci.tar") as archive:
            archive.extractall(self.folder)

        def blob(entry):
            content = (self.folder / "blobs" / entry["digest"].replace(":", "/")).read_bytes()
            self.assertEqual((hashlib.sha256(content).hexdigest(), len(content)), (entry["digest"].split(":")[1], entry["size"]))
            return content

        (both,) = json.loads((self.folder / "index.json").read_text())["manifests"]
        return {each["platform"]["architecture"]: json.loads(blob(each)) for each in json.loads(blob(both))["manifests"]}, blob

    def test_the_image_is_a_layout_whose_digests_are_true(self):
        manifests, blob = self.images()
        self.assertEqual(set(manifests), {DEBIAN[name] for name in PACKAGED})
        for architecture, manifest in manifests.items():
            self.assertEqual(json.loads(blob(manifest["config"]))["architecture"], architecture)
            for layer in manifest["layers"]:
                blob(layer)

    @unittest.skipIf(os.geteuid() != 0, "only root may change the root of a program")
    def test_the_image_puts_its_package_on_a_node(self):
        manifests, blob = self.images()
        root = self.folder / "root"
        (layer,) = manifests[DEBIAN[HERE]]["layers"]
        with tarfile.open(fileobj=io.BytesIO(blob(layer))) as archive:
            archive.extractall(root)
        (root / "proc").mkdir()
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", f"--mount-proc={root}/proc", "chroot", root, "/usr/bin/ration", "copy-package", "/opt/ration"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("bin/ration", "lib/ration/shim/libcuda.so.1", "share/doc/ration/site/index.html"):
            self.assertEqual((root / "opt/ration" / name).read_bytes(), (root / "usr" / name).read_bytes())

    def test_the_sums_and_the_bill_of_materials_are_complete(self):
        listed = dict(reversed(line.split("  ")) for line in (DIST / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(set(listed), {path.name for path in DIST.iterdir()} - {"SHA256SUMS", "NOTES.md"})
        for name, expected in listed.items():
            self.assertEqual(hashlib.sha256((DIST / name).read_bytes()).hexdigest(), expected, name)
        bill = json.loads((DIST / f"ration-{VERSION}.spdx.json").read_text())
        named = {package["name"]: package for package in bill["packages"]}
        for name in ("libevent", "SQLite", "libsodium", "ncurses", "zlib", "fmt", "libcxx", "preact"):
            self.assertTrue(named[name]["versionInfo"] and named[name]["licenseDeclared"], name)
        for _, root in self.tarballs():
            self.assertGreater(len(list((root / "share/doc/ration/licences").iterdir())), 14)


if __name__ == "__main__":
    if not TARBALLS:
        print("skipped: no packages here (./dev package makes them)")
        sys.exit(77)
    unittest.main()
