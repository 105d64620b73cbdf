#!/usr/bin/env python3
"""Where a driver lies, on the machines and in the containers that people have: folders are laid out like theirs, with the
simulated driver's files in them. What a program loads there by itself is what is held under `ration run`, and `ration
doctor` names it. Each layout is one row of LAYOUTS.

A machine of its own is this one with other files in /usr, /etc and /run, in a mount namespace."""
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import waiting  # noqa: E402, F401
from own_machine import CHECKOUT  # noqa: E402

HERE = pathlib.Path(__file__).parent
BIN = pathlib.Path(os.environ["BUILD_BIN"])
SIM = BIN.parent / "sim"
MACHINE = platform.machine()
MULTIARCH = f"{MACHINE}-linux-gnu"
LIB = f"/usr/lib/{MULTIARCH}"

# $0: an empty folder; $1: shell lines that lay out the driver; the rest is run.
ENTER = CHECKOUT + r"""
set -e
hold_checkout
mount -t tmpfs tmpfs "$0"
for folder in usr etc; do
  mkdir "$0/$folder" "$0/$folder.work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$0/$folder,workdir=$0/$folder.work" "/$folder"
done
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /opt
put_checkout_back
rm -rf /usr/local/nvidia /usr/local/cuda* /usr/lib/wsl
find /usr/lib /usr/lib64 /lib64 -name 'libcuda.so*' -delete -o -name 'libnvidia-ml.so*' -delete 2>/dev/null || true
# files FOLDER [library...]: the driver's two libraries (or those that are named) as a package has them.
files() {
  local folder=$1 library; shift
  mkdir -p "$folder"
  for library in ${@:-libcuda libnvidia-ml}; do
    cp "$SIM/$library.so.1" "$folder/$library.so.580.65.06"
    ln -sf "$library.so.580.65.06" "$folder/$library.so.1"
    ln -sf "$library.so.1" "$folder/$library.so"
  done
}
# known FOLDER...: to the dynamic linker.
known() { printf '%s\n' "$@" >/etc/ld.so.conf.d/00-driver.conf; }
eval "$1"
[ "$LINKER" = without-cache ] || ldconfig
shift
exec "$@"
"""

ONE_AFTER_THE_OTHER = """
import json, subprocess, sys
done = [subprocess.run(command, capture_output=True, text=True, timeout=100) for command in json.loads(sys.argv[1])]
print(json.dumps([[one.args, one.returncode, one.stdout, one.stderr] for one in done]))
"""

# One function that answers as the toolkit's stubs do, under every name that the driver has.
STUB = """
#include <stdio.h>
int answer(void) { %s return %d; }
"""
NVML_SAYS = ("libnvidia-ml.so in GDK package is a stub library that is attached only for\\n"
             "build purposes (e.g. machine that you build your application doesn't have\\nto have Display Driver installed).\\n")


def names_of(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return [line.split()[2] for line in listed.splitlines() if line.split()[1] == "T"]


def compiled(output, source, *options):
    subprocess.run(["gcc", "-x", "c", "-", "-x", "none", "-o", output, *options], input=source, text=True, check=True, capture_output=True)


def made_stub(output, soname, answer, says=""):
    names = names_of(SIM / soname)
    source = STUB % (f'puts("{says}");' if says else "", answer)
    source += "".join(f'int {name}(void) __attribute__((alias("answer")));\n' for name in names)
    compiled(output, source, "-shared", "-fPIC", f"-Wl,-soname,{soname}")


def made_loader(output, soname, proper):
    """As WSL 2 has it: opens the driver proper, a file in another folder, and passes every call on."""
    jump = {"x86_64": "jmp *{0}(%rip)", "aarch64": r"adrp x16, {0}\nldr x16, [x16, :lo12:{0}]\nbr x16"}[MACHINE]
    names = names_of(SIM / soname)
    source = "#include <dlfcn.h>\n#include <stdlib.h>\n" + "".join(
        f'__attribute__((visibility("hidden"))) void* to_{name};\n'
        f'__asm__(".pushsection .text\\n.globl {name}\\n.type {name},%function\\n{name}:\\n{jump.format("to_" + name)}\\n.popsection\\n");\n'
        for name in names)
    source += "__attribute__((constructor)) static void open_it(void) {\n"
    source += f'  void* library = dlopen("{proper}", RTLD_NOW | RTLD_LOCAL);\n  if (library == NULL) abort();\n'
    source += "".join(f'  to_{name} = dlsym(library, "{name}");\n' for name in names) + "}\n"
    compiled(output, source, "-shared", "-fPIC", f"-Wl,-soname,{soname}")


DRIVERS_OF_WSL = "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0a1b2c3d4e5f6071"
WSL = f"""
mkdir -p /usr/lib/wsl/lib {DRIVERS_OF_WSL}
cp "$SIM/libcuda.so.1" {DRIVERS_OF_WSL}/libcuda.so.1.1
cp "$SIM/libnvidia-ml.so.1" {DRIVERS_OF_WSL}/libnvidia-ml.so.1
cp "$MADE"/wsl/libcuda.so.1 "$MADE"/wsl/libnvidia-ml.so.1 /usr/lib/wsl/lib/
"""
BASE = f"files {LIB}\n"
COMPAT = "files /usr/local/cuda-13.0/compat libcuda; ln -s cuda-13.0 /usr/local/cuda\n"
STUBS = """mkdir -p /usr/local/cuda-13.0/lib64/stubs; ln -s cuda-13.0 /usr/local/cuda
cp "$MADE"/stub/libcuda.so /usr/local/cuda/lib64/stubs/
ln -s libcuda.so /usr/local/cuda/lib64/stubs/libcuda.so.1
"""
OWN = "files /opt/own/lib libcuda\n"
OF_A_PACKAGE, NVML_OF_A_PACKAGE = f"{LIB}/libcuda.so.580.65.06", f"{LIB}/libnvidia-ml.so.580.65.06"
OF_ITS_OWN, OF_CUDA = "/opt/own/lib/libcuda.so.580.65.06", "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06"


class Layout:
    """`lay`: shell lines. `driver`, `nvml`: the files behind all links that are to be found; `nvml` None: there is none.
    `alone`: what a program loads there without ration, where that is not `driver`: None for nothing. `doctor`: what is found
    for the command line, where a program brings a driver of its own. `programs`: how the program finds its driver; `build`:
    how it is linked."""

    def __init__(self, lay, driver, nvml, *, alone="", doctor=None, programs=("linked", "open libcuda.so.1"), build=(), cwd="/", linker="", result="OK",
                 says="", **environment):
        self.lay, self.driver, self.nvml, self.alone, self.programs, self.build = lay, driver, nvml, driver if alone == "" else alone, programs, build
        self.doctor, self.cwd, self.linker, self.result, self.says = doctor or driver, cwd, linker, result, says
        self.environment = environment


LAYOUTS = {
    "Debian and Ubuntu": Layout(BASE, OF_A_PACKAGE, NVML_OF_A_PACKAGE),
    # libcuda1 and libnvidia-ml1 of Debian: links of update-alternatives lead to a folder of this driver.
    "Debian's own package": Layout(
        f"files {LIB}/nvidia/current; for library in libcuda libnvidia-ml; do\n"
        f"ln -s {LIB}/nvidia/current/$library.so.1 /etc/alternatives/glx--$library.so.1-{MULTIARCH}\n"
        f"ln -s /etc/alternatives/glx--$library.so.1-{MULTIARCH} {LIB}/$library.so.1; done",
        f"{LIB}/nvidia/current/libcuda.so.580.65.06", f"{LIB}/nvidia/current/libnvidia-ml.so.580.65.06"),
    "Debian's own package, in an image without its links": Layout(
        f"files {LIB}/nvidia/current", f"{LIB}/nvidia/current/libcuda.so.580.65.06", f"{LIB}/nvidia/current/libnvidia-ml.so.580.65.06", alone=None),
    "Red Hat": Layout("files /usr/lib64; known /usr/lib64", "/usr/lib64/libcuda.so.580.65.06", "/usr/lib64/libnvidia-ml.so.580.65.06"),
    "Red Hat, seen from an image of Debian": Layout("files /usr/lib64", "/usr/lib64/libcuda.so.580.65.06", "/usr/lib64/libnvidia-ml.so.580.65.06", alone=None),
    "Red Hat, in a folder of its own": Layout(
        "files /usr/lib64/nvidia; known /usr/lib64/nvidia", "/usr/lib64/nvidia/libcuda.so.580.65.06", "/usr/lib64/nvidia/libnvidia-ml.so.580.65.06"),
    "Red Hat, in a folder of its own, unknown to the linker": Layout(
        "files /usr/lib64/nvidia", "/usr/lib64/nvidia/libcuda.so.580.65.06", "/usr/lib64/nvidia/libnvidia-ml.so.580.65.06", alone=None),
    # Programs of nixpkgs have the folder as DT_RUNPATH; ration's own do not.
    "NixOS": Layout(
        "rm /etc/ld.so.cache; files /opt/store-x11-580.65.06/lib; mkdir -p /run/opengl-driver; ln -s /opt/store-x11-580.65.06/lib /run/opengl-driver/lib",
        "/opt/store-x11-580.65.06/lib/libcuda.so.580.65.06", "/opt/store-x11-580.65.06/lib/libnvidia-ml.so.580.65.06", linker="without-cache",
        build=("-Wl,--enable-new-dtags,-rpath,/run/opengl-driver/lib",)),
    "NixOS, a program from elsewhere": Layout(
        "rm /etc/ld.so.cache; files /opt/store-x11-580.65.06/lib; mkdir -p /run/opengl-driver; ln -s /opt/store-x11-580.65.06/lib /run/opengl-driver/lib",
        "/opt/store-x11-580.65.06/lib/libcuda.so.580.65.06", "/opt/store-x11-580.65.06/lib/libnvidia-ml.so.580.65.06", linker="without-cache", alone=None),
    "WSL 2": Layout(WSL + "known /usr/lib/wsl/lib", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"),
    "WSL 2, where ld.so.conf is the user's own": Layout(WSL, "/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1", alone=None),
    # L4T has no NVML before release 36.
    "Jetson, before JetPack 6": Layout(
        f"mkdir -p {LIB}/tegra; cp $SIM/libcuda.so.1 {LIB}/tegra/libcuda.so.1.1; ln -s libcuda.so.1.1 {LIB}/tegra/libcuda.so.1; known {LIB}/tegra",
        f"{LIB}/tegra/libcuda.so.1.1", None),
    "Jetson, unknown to the linker": Layout(
        f"mkdir -p {LIB}/tegra; cp $SIM/libcuda.so.1 {LIB}/tegra/libcuda.so.1.1; ln -s libcuda.so.1.1 {LIB}/tegra/libcuda.so.1",
        f"{LIB}/tegra/libcuda.so.1.1", None, alone=None),
    "Jetson, JetPack 6": Layout(
        f"mkdir -p {LIB}/nvidia; cp $SIM/libcuda.so.1 {LIB}/nvidia/libcuda.so.1.1; ln -s libcuda.so.1.1 {LIB}/nvidia/libcuda.so.1",
        f"{LIB}/nvidia/libcuda.so.1.1", None, alone=None),
    "Jetson, an image before its driver is mounted over the empty files": Layout(
        f"mkdir -p {LIB}/tegra {LIB}/nvidia; touch {LIB}/tegra/libcuda.so.1; cp $SIM/libcuda.so.1 {LIB}/nvidia/libcuda.so.1", f"{LIB}/nvidia/libcuda.so.1", None, alone=None),
    # Images made for nvidia-docker 1 still have the variable; neither folder is there.
    "a container of the NVIDIA toolkit": Layout(
        BASE, OF_A_PACKAGE, NVML_OF_A_PACKAGE, LD_LIBRARY_PATH="/usr/local/nvidia/lib:/usr/local/nvidia/lib64"),
    "GKE": Layout("files /usr/local/nvidia/lib64", "/usr/local/nvidia/lib64/libcuda.so.580.65.06", "/usr/local/nvidia/lib64/libnvidia-ml.so.580.65.06",
                  LD_LIBRARY_PATH="/usr/local/nvidia/lib:/usr/local/nvidia/lib64"),
    "GKE, an image without the variable": Layout(
        "files /usr/local/nvidia/lib64", "/usr/local/nvidia/lib64/libcuda.so.580.65.06", "/usr/local/nvidia/lib64/libnvidia-ml.so.580.65.06", alone=None),
    # The package cuda-compat has no NVML.
    "forward compatibility by LD_LIBRARY_PATH": Layout(BASE + COMPAT, OF_CUDA, NVML_OF_A_PACKAGE, LD_LIBRARY_PATH="/usr/local/cuda/compat"),
    "forward compatibility by ld.so.conf": Layout(BASE + COMPAT + "known /usr/local/cuda/compat", OF_CUDA, NVML_OF_A_PACKAGE),
    "forward compatibility that is installed and not used": Layout(BASE + COMPAT, OF_A_PACKAGE, NVML_OF_A_PACKAGE),
    "the toolkit's stub in front": Layout(
        BASE + STUBS, OF_A_PACKAGE, NVML_OF_A_PACKAGE, alone="/usr/local/cuda-13.0/lib64/stubs/libcuda.so", result="WARN",
        says="/usr/local/cuda/lib64/stubs/libcuda.so.1", LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs"),
    "Conda's stub, linked into its lib": Layout(
        BASE + 'mkdir -p /opt/conda/lib/stubs; cp "$MADE"/stub/libcuda.so /opt/conda/lib/stubs/; ln -s stubs/libcuda.so /opt/conda/lib/libcuda.so.1',
        OF_A_PACKAGE, NVML_OF_A_PACKAGE, alone="/opt/conda/lib/stubs/libcuda.so", result="WARN", says="/opt/conda/lib/libcuda.so.1",
        LD_LIBRARY_PATH="/opt/conda/lib"),
    # In the folder of stubs, but no stub.
    "a driver linked into the folder of stubs": Layout(
        "files /opt/driver; mkdir -p /usr/local/cuda/lib64/stubs; for library in libcuda libnvidia-ml; do\n"
        "ln -s /opt/driver/$library.so.580.65.06 /usr/local/cuda/lib64/stubs/$library.so.1; done",
        "/opt/driver/libcuda.so.580.65.06", "/opt/driver/libnvidia-ml.so.580.65.06", LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs"),
    # By its place it cannot be told from a driver.
    "stubs that were copied elsewhere": Layout(
        BASE + 'mkdir -p /opt/app/lib; cp "$MADE"/stub/libcuda.so /opt/app/lib/libcuda.so.1; cp "$MADE"/stub/libnvidia-ml.so /opt/app/lib/libnvidia-ml.so.1',
        OF_A_PACKAGE, NVML_OF_A_PACKAGE, alone="/opt/app/lib/libcuda.so.1", result="WARN", says="/opt/app/lib/libnvidia-ml.so.1",
        LD_LIBRARY_PATH="/opt/app/lib"),
    "DT_RUNPATH of the program": Layout(
        BASE + OWN, OF_ITS_OWN, NVML_OF_A_PACKAGE, doctor=OF_A_PACKAGE, build=("-Wl,--enable-new-dtags,-rpath,/opt/own/lib",)),
    "DT_RPATH of the program": Layout(
        BASE + OWN, OF_ITS_OWN, NVML_OF_A_PACKAGE, doctor=OF_A_PACKAGE, build=("-Wl,--disable-new-dtags,-rpath,/opt/own/lib",)),
    "DT_RPATH comes before LD_LIBRARY_PATH": Layout(
        BASE + OWN + COMPAT, OF_ITS_OWN, NVML_OF_A_PACKAGE, doctor=OF_CUDA, build=("-Wl,--disable-new-dtags,-rpath,/opt/own/lib",),
        LD_LIBRARY_PATH="/usr/local/cuda/compat"),
    "LD_LIBRARY_PATH comes before DT_RUNPATH": Layout(
        BASE + OWN + COMPAT, OF_CUDA, NVML_OF_A_PACKAGE, build=("-Wl,--enable-new-dtags,-rpath,/opt/own/lib",), LD_LIBRARY_PATH="/usr/local/cuda/compat"),
    "a DT_RUNPATH with $ORIGIN": Layout(
        BASE + OWN, OF_ITS_OWN, NVML_OF_A_PACKAGE, doctor=OF_A_PACKAGE, build=("-Wl,--enable-new-dtags,-rpath,$ORIGIN/../own/lib",)),
    "a DT_RUNPATH with $LIB": Layout(
        BASE + f"files /opt/own/lib/{MULTIARCH} libcuda", f"/opt/own/lib/{MULTIARCH}/libcuda.so.580.65.06", NVML_OF_A_PACKAGE, doctor=OF_A_PACKAGE,
        build=("-Wl,--enable-new-dtags,-rpath,/opt/own/${LIB}",)),
    "DT_RUNPATH of a library that the program opens": Layout(
        BASE + OWN + 'mkdir -p /opt/plugin; cp "$MADE"/libplugin.so /opt/plugin/', OF_ITS_OWN, NVML_OF_A_PACKAGE, doctor=OF_A_PACKAGE,
        programs=("plugin /opt/plugin/libplugin.so",)),
    "a driver that the program opens by its path": Layout(
        BASE + OWN, OF_ITS_OWN, NVML_OF_A_PACKAGE, doctor=OF_A_PACKAGE, programs=("open /opt/own/lib/libcuda.so.1", "open /opt/own/lib/libcuda.so")),
    "a link that leads nowhere": Layout(
        BASE + "mkdir -p /usr/local/nvidia/lib64; ln -s libcuda.so.535.1 /usr/local/nvidia/lib64/libcuda.so.1", OF_A_PACKAGE, NVML_OF_A_PACKAGE,
        LD_LIBRARY_PATH="/usr/local/nvidia/lib64"),
    "a driver of 32 bits in front": Layout(
        BASE + r"mkdir -p /opt/lib32; cp $SIM/libcuda.so.1 $SIM/libnvidia-ml.so.1 /opt/lib32/; "
        r"for library in /opt/lib32/*; do printf '\001' | dd of=$library bs=1 seek=4 conv=notrunc status=none; done",
        OF_A_PACKAGE, NVML_OF_A_PACKAGE, LD_LIBRARY_PATH="/opt/lib32"),
    "an empty entry in LD_LIBRARY_PATH": Layout(BASE + OWN, OF_ITS_OWN, NVML_OF_A_PACKAGE, cwd="/opt/own/lib", LD_LIBRARY_PATH=":/nonexistent"),
}


def can_lay_out():
    """Why not; empty: it can."""
    if os.getuid() != 0:
        return "needs root for a /usr of its own"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER, folder, "", "true"],
                              env=dict(os.environ, SIM=str(SIM), LINKER="without-cache"), capture_output=True, text=True)
    return "" if done.returncode == 0 else f"no mount namespace with a /usr of its own: {done.stderr.strip()}"


class DriverLocation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.made = pathlib.Path(folder.name)
        for name in ("stub", "wsl", "layer", "books", "node"):
            (cls.made / name).mkdir()
        made_stub(cls.made / "stub/libcuda.so", "libcuda.so.1", 34)
        made_stub(cls.made / "stub/libnvidia-ml.so", "libnvidia-ml.so.1", 1, NVML_SAYS)
        made_loader(cls.made / "wsl/libcuda.so.1", "libcuda.so.1", f"{DRIVERS_OF_WSL}/libcuda.so.1.1")
        made_loader(cls.made / "wsl/libnvidia-ml.so.1", "libnvidia-ml.so.1", f"{DRIVERS_OF_WSL}/libnvidia-ml.so.1")
        compiled(cls.made / "libplugin.so", "extern int cuInit(unsigned); int plugin(void) { return cuInit(0); }\n", "-shared", "-fPIC",
                 SIM / "libcuda.so.1", "-Wl,--enable-new-dtags,-rpath,/opt/own/lib")

    def on(self, layout, *commands):
        """What became of the commands, run one after the other on such a machine."""
        environment = {"PATH": os.environ["PATH"], "HOME": "/", "SOURCE": os.environ["SOURCE"], "SIM": str(SIM), "MADE": str(self.made), "LINKER": layout.linker,
                       "RATION_RUNTIME_DIR": str(self.made / "books"), "RATION_SIM_DIR": str(self.made / "node")}
        # The layout's variables are the programs', not the shell's.
        prefix = ["env", "--chdir", layout.cwd, *(f"{key}={value}" for key, value in layout.environment.items())]
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER, self.made / "layer",
                               layout.lay + '\nmkdir -p /opt/bin; find "$MADE" -maxdepth 1 -name "program*" -exec cp {} /opt/bin/ ";"\n', sys.executable, "-c", ONE_AFTER_THE_OTHER,
                               json.dumps([[*prefix, *map(str, command)] for command in commands])],
                              env=environment, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [subprocess.CompletedProcess(*one) for one in json.loads(done.stdout)]

    def program(self, layout, how):
        """The command of a program that is linked as the layout says."""
        kind = how.split()[0]
        options = ["-DLINKED", SIM / "libcuda.so.1"] if kind == "linked" else ["-ldl"]
        compiled(self.made / f"program-{kind}", (HERE / "program.c").read_text(), *options, *layout.build)
        return [f"/opt/bin/program-{kind}", *how.split()]

    def check_alone(self, layout, done):
        files = done.stdout.splitlines()[1:]
        if layout.alone is None:
            self.assertNotEqual(done.returncode, 0, "a driver that the linker finds by itself is another layout")
        elif layout.alone != layout.driver:
            self.assertEqual(done.stdout.splitlines(), ["34 34 34", layout.alone], done.stderr)
        else:
            self.assertEqual(done.stdout.splitlines()[:1], ["0 0 0"], done.stdout + done.stderr)
            self.assertIn(layout.driver, files)

    def check_held(self, layout, done):
        self.assertEqual(done.stdout.splitlines()[:1], ["0 0 2"], done.stdout + done.stderr)
        shim, drivers = str(BIN.parent / "shim/libcuda.so.1"), done.stdout.splitlines()[1:]
        self.assertEqual([file for file in drivers if file != shim and not file.startswith(DRIVERS_OF_WSL)], [layout.driver])
        self.assertIn(shim, drivers)

    def check_doctor(self, layout, done):
        driver, files = json.loads(done.stdout)["data"]
        self.assertEqual((driver["check"], files["check"]), ("gpu.driver", "gpu.files"))
        self.assertIn(f"libcuda.so.1: {layout.doctor}", files["message"])
        self.assertIn(f"libnvidia-ml.so.1: {layout.nvml or 'n/a (there is no libnvidia-ml.so.1)'}", files["message"])
        self.assertEqual(files["result"], layout.result, files)
        self.assertIn(layout.says, files["message"])
        self.assertEqual(driver["result"], "OK" if layout.nvml else "WARN", driver)
        self.assertIn("Tesla T4", driver["message"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def check(self, layout):
        programs = [self.program(layout, how) for how in layout.programs]
        *done, doctor = self.on(layout, *programs, *([BIN / "ration", "run", "--limit", "1GiB", "--", *program] for program in programs),
                                [BIN / "ration", "doctor", "--only", "gpu", "-o", "json"])
        for how, alone, held in zip(layout.programs, done, done[len(programs):]):
            with self.subTest(how, ration="without"):
                self.check_alone(layout, alone)
            with self.subTest(how, ration="with"):
                self.check_held(layout, held)
        with self.subTest("doctor"):
            self.check_doctor(layout, doctor)

    def test_a_jetson_without_nvml_has_everything_but_the_numbers_that_only_nvml_has(self):
        ration = BIN / "ration"
        inside, probe, who, others = self.on(
            LAYOUTS["Jetson, before JetPack 6"], [ration, "run", "--limit", "1GiB", "--name", "job", "--", ration, "ps"],
            [ration, "doctor", "--probe", "--skip", "sim"], [ration, "ps"], [ration, "doctor", "--only", "mem,enforce.preload"])
        for done in (inside, probe, who, others):
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("job", inside.stdout)
        self.assertRegex(probe.stdout, "OK +enforce.probe")
        self.assertIn("n/a (without NVML the processes are unknown)", others.stdout)

    def test_without_nvml_a_context_is_charged_by_estimate(self):
        denied, granted = self.on(LAYOUTS["Jetson, before JetPack 6"], *([BIN / "ration", "run", "--limit", limit, "--", BIN / "ration-workload", "steps", "100MiB:0s"]
                                                                         for limit in ("300MiB", "400MiB")))
        self.assertIn("44.0 MiB free of 300 MiB", denied.stderr)
        self.assertEqual(granted.returncode, 0, granted.stderr)

    def test_stubs_alone_are_no_driver(self):
        layout = Layout(STUBS + 'cp "$MADE"/stub/libnvidia-ml.so /usr/local/cuda/lib64/stubs/libnvidia-ml.so.1', None, None,
                        LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs")
        run, doctor = self.on(layout, [BIN / "ration", "run", "--limit", "1GiB", "--", "true"], [BIN / "ration", "doctor", "--only", "gpu.files"])
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn("E1403", run.stderr)
        self.assertIn("/usr/local/cuda/lib64/stubs/libcuda.so.1, which is only for linking", run.stderr)
        self.assertNotIn("GDK", run.stdout + run.stderr)
        self.assertEqual(doctor.returncode, 1, doctor.stdout)

    def test_a_change_of_the_variable_comes_too_late_as_it_does_for_the_linker(self):
        change = "import os, ctypes; os.environ['LD_LIBRARY_PATH'] = '/usr/local/cuda/compat'; ctypes.CDLL('libcuda.so.1').cuInit(0); "
        (done,) = self.on(Layout(BASE + COMPAT, None, None), [
            BIN / "ration", "run", "--limit", "1GiB", "--", "python3", "-c", change + "print(open('/proc/self/maps').read())"])
        self.assertIn(OF_A_PACKAGE, done.stdout, done.stderr)
        self.assertNotIn("/compat/", done.stdout)


for name, layout in LAYOUTS.items():
    setattr(DriverLocation, "test_" + "".join(letter if letter.isalnum() else "_" for letter in name), lambda self, layout=layout: self.check(layout))

if __name__ == "__main__":
    if problem := can_lay_out():
        print(f"skipped: {problem}")
        sys.exit(77)
    unittest.main()
