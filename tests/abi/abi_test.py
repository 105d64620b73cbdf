#!/usr/bin/env python3
"""Every declaration of src/driver against NVIDIA's cuda.h, and every function there that concerns memory classified."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
DRIVER = SOURCE / "src/driver"
HEADERS = ["cuda_abi.hpp", "cuda_copy_abi.hpp", "cuda_graph_abi.hpp", "cuda_share_abi.hpp"]
# Shapes of our own, made for code that is written once for two of NVIDIA's; and types whose layout we do not use.
OWN_TYPES = {"GraphCopyParams", "CUuuid", "CUDA_KERNEL_NODE_PARAMS", "CUDA_KERNEL_NODE_PARAMS_v2"}


def memory_words():
    """What src/driver/memory_words.hpp says: a function with one of these words in its name may concern device memory."""
    text = (DRIVER / "memory_words.hpp").read_text()
    lists = {name: re.findall(r'"(\w+)"', body) for name, body in re.findall(r"(k\w+Words)\[\] = \{(.*?)\}", text, re.S)}
    harmless = "|".join(lists["kHarmlessWords"])
    return re.compile(f"(?!{harmless})(?:{'|'.join(lists['kMemoryWords'])})")


CONCERNS_MEMORY = memory_words()
# Of NVML, the name of a function, of a structure that it takes or of a member of that structure.
TELLS_MEMORY = re.compile(r"mem(?!oryErr|Cl|ber)|fb(?!c)|bar1", re.I)


def find_header(header):
    """The folder of that header, or None."""
    places = [pathlib.Path(os.environ["RATION_CUDA_INCLUDE"])] if "RATION_CUDA_INCLUDE" in os.environ else []
    places += sorted((SOURCE / "build/wheels").glob("**/include")) + [pathlib.Path("/usr/local/cuda/include"), pathlib.Path("/usr/include")]
    for place in places:
        if (place / header).exists():
            return place
    return None


def headers_by_release(header):
    """Every header of that name that ./dev test has fetched, with the CUDA release of its wheel: 12000 is 12.0."""
    for path in sorted((SOURCE / "build").glob(f"wheels*/**/{header}")):
        wheel = next(path.parents[depth] for depth in range(len(path.parents)) if list(path.parents[depth].glob("*.dist-info")))
        major, minor = re.search(r"-(\d+)\.(\d+)", next(wheel.glob("*.dist-info")).name).groups()
        yield path, int(major) * 1000 + int(minor) * 10


def table(name):
    """Of each function in a table the release since which it is there."""
    rows = [line.split("\t") for line in (DRIVER / f"{name}_api.tsv").read_text().splitlines() if line and not line.startswith("#")]
    return {row[0]: int(row[-3] if name == "driver" else row[1]) for row in rows}


def functions_that_tell_memory(path):
    """Functions of an nvml.h that have memory in their names, in the structures that they take or in what those have."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(errors="replace"), flags=re.S)
    telling = {name for body, name in re.findall(r"typedef struct(?:\s+\w+)?\s*\{(.*?)\}\s*(\w+);", text, re.S)
               if TELLS_MEMORY.search(name) or any(TELLS_MEMORY.search(member) for member in re.findall(r"(\w+)(?:\[[^]]*\])*\s*;", body))}
    for name, other in re.findall(r"typedef\s+(\w+)\s+(\w+);", text):
        telling |= {other} if name in telling else set()
    declared = re.findall(r"\bnvmlReturn_t\s+(?:DECLDIR\s+)?(nvml\w+)\s*\((.*?)\)\s*;", text, re.S)
    return {name for name, parameters in declared if TELLS_MEMORY.search(name) or telling & set(re.findall(r"\w+", parameters))}


def declared_functions(path, defines=()):
    """What programs that include the header may call. (An inline function of the header is not the library's.)"""
    text = subprocess.run([os.environ["CXX"], "-E", "-P", "-x", "c++", *defines, path], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^(?!static)[\w ]*\b(?:CUresult|nvmlReturn_t) +((?:cu|nvml)\w+) *\(", text, re.M))


HEADER = find_header("cuda.h")
MANAGEMENT_HEADER = find_header("nvml.h")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def structs(text):
    """Name and members of every plain struct."""
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", without_comments(text), re.M | re.S):
        members = []
        for declaration in re.sub(r"(union|struct)\s*\{.*?\}[^;]*;", "", body, flags=re.S).split(";"):
            words = re.sub(r"\[[^\]]*\]|=[^,]*", "", declaration)
            members += re.findall(r"(\w+)\s*(?=,|$)", words.strip()) if words.strip() and "(" not in words else []
        yield name, members


def enumerators(text):
    for body in re.findall(r"^enum \w+ : [\w ]+\{(.*?)\};", without_comments(text), re.M | re.S):
        yield from re.findall(r"\b(\w+)\s*=", body)


def functions(text):
    return re.findall(r"^using (cu\w+)_t =\s", text, re.M)


PROLOGUE = r"""
#include <type_traits>
template <typename T>
concept Complete = requires { sizeof(T); } && !std::is_function_v<T>;
template <typename Ours, typename Theirs>
constexpr bool same_pointee = true;  // handles, void and functions
template <typename Ours, typename Theirs>
  requires(Complete<Ours> && Complete<Theirs>)
constexpr bool same_pointee<Ours*, Theirs*> = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                                              std::is_class_v<Ours> == std::is_class_v<Theirs>;
template <typename Ours, typename Theirs>
constexpr bool same_argument = same_pointee<Ours, Theirs> && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs) && std::is_class_v<Ours> == std::is_class_v<Theirs> &&
                               std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
template <typename Ours, typename Theirs>
struct Same : std::false_type {};
template <typename R1, typename... Ours, typename R2, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct Same<R1(Ours...), R2(Theirs...)> : std::bool_constant<sizeof(R1) == sizeof(R2) && (... && same_argument<Ours, Theirs>)> {};
"""


class Abi(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.ours = "\n".join((DRIVER / name).read_text() for name in HEADERS)
        cls.theirs = (HEADER / "cuda.h").read_text(errors="replace")
        # What its macros make of it: the versions that programs are really bound to (cuMemAlloc is cuMemAlloc_v2).
        cls.expanded = subprocess.run([os.environ["CXX"], "-E", "-P", "-x", "c++", "-D__CUDA_API_VERSION_INTERNAL", HEADER / "cuda.h"],
                                      capture_output=True, text=True, check=True).stdout

    def check(self, assertions, headers=HEADERS, theirs="cuda.h", folder=HEADER):
        self.assertGreater(len(assertions), 10)
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "compare.cpp"
            path.write_text("#include <cstddef>\n" + "".join(f'#include "driver/{name}"\n' for name in headers) +
                            f"#define __CUDA_API_VERSION_INTERNAL\n#include <{theirs}>\n" + PROLOGUE + "\n".join(assertions) + "\n")
            done = subprocess.run([os.environ["CXX"], "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof", f"-I{SOURCE}/src", f"-I{folder}", path],
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])

    def test_structs_have_the_same_size_and_members_in_the_same_places(self):
        assertions = []
        for name, members in structs(self.ours):
            if name in OWN_TYPES or not re.search(rf"\b{name}\b", self.theirs):
                continue
            assertions.append(f'static_assert(sizeof(ration::cuda::{name}) == sizeof(::{name}), "size of {name}");')
            for member in (member for member in members if not member.startswith("reserved")):
                assertions.append(f'static_assert(!requires {{ sizeof(::{name}::{member}); }} || offsetof(ration::cuda::{name}, {member}) == '
                                  f'offsetof(::{name}, {member}), "{name}::{member}");')
        # A member that they do not have would make the assertion above hold for nothing: count those that they have.
        self.check([line for line in assertions if "offsetof" not in line or re.search(rf"\b{line.rsplit('::', 1)[1][:-3]}\b", self.theirs)])

    def test_enumerators_have_the_same_values(self):
        names = [name for name in enumerators(self.ours) if re.search(rf"\b{name}\b", self.theirs)]
        self.assertGreater(len(names), 60)
        self.check([f'static_assert(static_cast<int>(ration::cuda::{name}) == static_cast<int>(::{name}), "{name}");' for name in names])

    def test_functions_take_the_same_arguments(self):
        declared = set(re.findall(r"\bCUresult (cu\w+)\(", self.expanded))
        names = [name for name in functions(self.ours) if name in declared]
        self.assertGreater(len(names), 140)
        unknown = {name for name in functions(self.ours) if name not in declared}
        self.assertLess(len(unknown), 12, f"not in this cuda.h: {sorted(unknown)}")
        self.check([f'static_assert(Same<ration::cuda::{name}_t, std::remove_reference_t<decltype(::{name})>>::value, "{name}");' for name in names])

    def test_the_management_library_has_the_same_structs_and_codes(self):
        if MANAGEMENT_HEADER is None:
            self.skipTest("no nvml.h here (./dev test fetches one; or set RATION_CUDA_INCLUDE)")
        ours = (DRIVER / "nvml_abi.hpp").read_text()
        theirs_text = (MANAGEMENT_HEADER / "nvml.h").read_text()
        newer = {"nvmlSetMemoryLimits_v1_t", "nvmlGetMemoryLimits_v1_t"}  # of release 615
        names = {"nvmlProcessInfo_t": "nvmlProcessInfo_v2_t"}  # NVIDIA's plain name is the newest version's
        assertions = []
        for name, members in structs(ours):
            theirs = names.get(name, name)
            if name in newer and theirs not in theirs_text:
                continue
            assertions.append(f'static_assert(sizeof(ration::nvml::{name}) == sizeof(::{theirs}), "size of {name}");')
            assertions += [f'static_assert(offsetof(ration::nvml::{name}, {member}) == offsetof(::{theirs}, {member}), "{name}::{member}");'
                           for member in members]
        assertions += [f'static_assert(static_cast<int>(ration::nvml::{code}) == static_cast<int>(::{code}), "{code}");' for code in enumerators(ours)]
        self.check(assertions, headers=["nvml_abi.hpp"], theirs="nvml.h", folder=MANAGEMENT_HEADER)

    def test_the_simulated_runtime_has_the_layouts_and_arguments_of_the_real_one(self):
        for major, folder in ((12, next((SOURCE / "build/wheels12").glob("**/include"), None)), (13, find_header("cuda_runtime_api.h"))):
            with self.subTest(major):
                if folder is None or find_header("crt/host_defines.h") is None:
                    self.skipTest(f"no headers of CUDA {major} here")
                self.compare_runtime(major, folder)

    def compare_runtime(self, major, folder):
        def preprocessed(*arguments):
            return subprocess.run([os.environ["CXX"], "-E", "-P", *arguments], capture_output=True, text=True, check=True).stdout
        own = ["-std=c++20", f"-DRATION_CUDART={major}", f"-I{SOURCE}/src", f"-I{SOURCE}/sim", f"-I{SOURCE}/sim/cudart"]
        ours = preprocessed("-x", "c++", *own, SOURCE / "sim/cudart/runtime_abi.hpp").split("namespace ration::cudart", 1)[1]
        theirs = (folder / "driver_types.h").read_text()
        assertions = []
        for name, members in structs(ours):
            if not re.search(rf"\b{name}\b", theirs):
                continue
            assertions.append(f'static_assert(sizeof(ration::cudart::{name}) == sizeof(::{name}), "size of {name}");')
            for member in (member for member in members if member != "reserved"):
                assertions.append(f'static_assert(offsetof(ration::cudart::{name}, {member}) == offsetof(::{name}, {member}), "{name}::{member}");')
        self.assertGreater(len(assertions), 120)
        crt = f"-I{find_header('crt/host_defines.h')}"
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "layouts.cpp"
            path.write_text(f'#include <cstddef>\n#include <driver_types.h>\n#define RATION_CUDART {major}\n'
                            '#include "../sim/cudart/runtime_abi.hpp"\n' + "\n".join(assertions) + "\n")
            done = subprocess.run([os.environ["CXX"], "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof", f"-I{SOURCE}/src", f"-I{folder}", crt, path],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        header = preprocessed("-x", "c", f"-I{folder}", crt, folder / "cuda_runtime_api.h")
        source = "".join(preprocessed(*own, file) for file in sorted((SOURCE / "sim/cudart").glob("*.cpp")))

        def arity(arguments):
            arguments = re.sub(r"\([^()]*\)|<[^<>]*>", "", re.sub(r"\([^()]*\)", "", arguments)).strip()
            return 0 if arguments in ("", "void") else arguments.count(",") + 1
        balanced = r"\(((?:[^()]|\([^()]*\))*)\)"
        theirs = {name: arity(arguments) for name, arguments in re.findall(r"\b(cuda\w+)\s*" + balanced + r"\s*;", header)}
        mine = {name: arity(arguments) for name, arguments in re.findall(r"cudart::Error (cuda\w+)\s*" + balanced + r"\s*\{", source)}
        self.assertGreater(len(mine), 130)
        compared = {name: (count, theirs[name]) for name, count in mine.items() if name in theirs}
        self.assertGreater(len(compared), 110)
        self.assertEqual({name: both for name, both in compared.items() if both[0] != both[1]}, {})

    def test_our_memory_resource_models_the_one_of_libcudacxx(self):
        folders = [find_header(header) for header in ("cuda_runtime_api.h", "cccl/cuda/memory_resource", "crt/host_defines.h")]
        if None in folders:
            self.skipTest("no libcu++ here (./dev test fetches it)")
        folders.append(folders[1] / "cccl")
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "models.cpp"
            path.write_text('#include "ration/memory_resource.hpp"\n#include <cuda/memory_resource>\n'
                            "static_assert(cuda::mr::resource<ration::DeviceMemoryResource>);\n"
                            "static_assert(cuda::mr::resource_with<ration::DeviceMemoryResource, cuda::mr::device_accessible>);\n")
            done = subprocess.run([os.environ["CXX"], "-std=c++20", "-fsyntax-only", f"-I{SOURCE}/libration/include",
                                   *(f"-isystem{folder}" for folder in folders), path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])

    def test_every_function_that_a_release_declares_is_in_our_tables(self):
        variants = [(), ("-D__CUDA_API_VERSION_INTERNAL",), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",)]
        releases = {}
        for name, header in (("driver", "cuda.h"), ("nvml", "nvml.h")):
            listed = table(name)
            for path, release in headers_by_release(header):
                declared = set().union(*(declared_functions(path, defines) for defines in (variants if name == "driver" else variants[:1])))
                self.assertGreater(len(declared), 250, path)
                with self.subTest(header=str(path), release=release):
                    self.assertEqual(sorted(declared - set(listed)), [], f"add them to src/driver/{name}_api.tsv")
                    self.assertEqual(sorted(symbol for symbol in declared if listed.get(symbol, 0) > release), [], "they are older than the table says")
                releases.setdefault(name, set()).add(release // 1000)
        if releases != {"driver": {11, 12, 13}, "nvml": {11, 12, 13}}:
            self.skipTest(f"not every release's headers are here (./dev test fetches them): {releases}")

    def test_every_function_for_graphics_video_and_profilers_is_listed(self):
        listed, declared = table("driver"), set()
        for header in sorted(HEADER.glob("cuda*.h")):
            if header.name != "cuda.h" and "Typedefs" not in header.name:
                declared |= set(re.findall(r"\bCUresult\s+CUDAAPI\s+(cu\w+)\s*\(", header.read_text(errors="replace")))
        declared = {name for name in declared if not name.startswith("cuWGL")}  # for Windows
        self.assertGreater(len(declared), 25, "cudaGL.h, cudaEGL.h and cudaVDPAU.h declare more")
        self.assertEqual(sorted(declared - set(listed)), [], "add them to src/driver/driver_api.tsv")

    def test_every_function_that_concerns_memory_is_classified(self):
        classes = {}
        for line in (DRIVER / "driver_api.tsv").read_text().splitlines():
            if line and not line.startswith("#"):
                symbol, *_, kind = line.split("\t")
                classes[symbol] = kind
        reasons = [line.split("\t") for line in (DRIVER / "passed_on.tsv").read_text().splitlines() if line and not line.startswith("#")]
        self.assertTrue(all(len(row) == 2 and row[1] for row in reasons))
        unclassified = []
        for name in sorted(set(re.findall(r"\bCUresult (cu\w+)\(", self.expanded)) | set(classes)):
            if not CONCERNS_MEMORY.search(name) or classes.get(name) == "hook":
                continue
            if not any(re.fullmatch(pattern, name) for pattern, _ in reasons):
                unclassified.append(name)
        self.assertEqual(unclassified, [], "hook them in src/guard, or say in src/driver/passed_on.tsv why they are passed on")

    def test_every_function_of_nvml_that_tells_memory_is_hooked_or_listed(self):
        listed = subprocess.run(["nm", pathlib.Path(os.environ["SHIM"]) / "libnvidia-ml.so.1"], capture_output=True, text=True, check=True).stdout
        hooked = set(re.findall(r" [Tt] (nvml\w+)$", listed, re.M))
        reasons = [line.split("\t")[0] for line in (DRIVER / "passed_on.tsv").read_text().splitlines() if line.startswith("nvml")]
        telling = {name for name in table("nvml") if TELLS_MEMORY.search(name)}.union(*(functions_that_tell_memory(path) for path, _ in headers_by_release("nvml.h")))
        self.assertGreater(len(telling), 35)
        self.assertEqual(sorted(name for name in telling - hooked if not any(re.fullmatch(pattern, name) for pattern in reasons)), [],
                         "hook them in src/guard/nvml_hooks.cpp, or say in src/driver/passed_on.tsv why they are passed on")
        self.assertEqual([pattern for pattern in reasons if not any(re.fullmatch(pattern, name) for name in telling - hooked)], [], "reasons for nothing")

    def test_the_table_says_hook_exactly_where_the_shim_has_one(self):
        listed = subprocess.run(["nm", pathlib.Path(os.environ["SHIM"]) / "libcuda.so.1"], capture_output=True, text=True, check=True).stdout
        hooked = set(re.findall(r" [Tt] (cu\w+)$", listed, re.M))
        table = {line.split("\t")[0] for line in (DRIVER / "driver_api.tsv").read_text().splitlines() if line.endswith("\thook")}
        self.assertEqual(table, hooked)


if __name__ == "__main__":
    if HEADER is None:
        print("skipped: no cuda.h here (./dev setup fetches one; or set RATION_CUDA_INCLUDE)")
        sys.exit(77)
    unittest.main()
