#!/usr/bin/env python3
"""Makes ration's packages for x86-64 and aarch64 into build/dist: the relocatable tarball, a wheel with everything in it,
the .deb, one OCI image layout of the daemon and the libraries for both, SHA256SUMS, and a bill of materials (SPDX).
Same sources and same versions of the libraries: same bytes.

    package.py [--architecture x86_64]... [--only tarball]... [--unit-tests | --guards]
"""
import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile

import tools

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BUILD = SOURCE / "build"
DIST = BUILD / "dist"
VERSION = (SOURCE / "VERSION").read_text().strip()
GLIBC = "2.17"  # of RHEL 7: older than any server with a driver that ration knows
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# manylinux_2_28 is the oldest that today's frameworks run on; the other names are for installers that know no newer ones.
WHEEL_PLATFORM = "manylinux_2_17_{0}.manylinux2014_{0}.manylinux_2_28_{0}"
CANNOT_BE_HAD = 69  # EX_UNAVAILABLE: `./dev test` goes on without packages
PROGRAMS = ["ration", "ration-workload", "ration-sim-truth", "ration-bench"]


def moment():
    """Seconds since 1970 that stand for all files: when the commit was made, so that two builds of it are the same."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    done = subprocess.run(["git", "-C", SOURCE, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, **options)


# ---------------------------------------------------------------------------------------------------------------- building

def compile_for(architecture, targets=("ration", "ration-workload", "ration-sim-truth", "ration-bench", "ration_guards", "ration_c", "sim/all"), tests=False):
    """Returns the build folder."""
    folder = tools.folder_of(SOURCE)
    libraries, _ = tools.libraries(folder, DEBIAN[architecture])
    build = BUILD / "portable" / (f"{architecture}-tests" if tests else architecture)
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run("cmake", "--log-level=ERROR", "-G", "Ninja", "-S", SOURCE, "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={SOURCE}/cmake/portable.cmake", f"-DRATION_ZIG={tools.zig(folder)}",
        f"-DRATION_TARGET={architecture}-linux-gnu.{GLIBC}", f"-DRATION_LIBRARIES={libraries}/root", f"-DRATION_TESTS={'ON' if tests else 'OFF'}",
        "-DRATION_UNITY=16", *launcher, stdout=subprocess.DEVNULL)
    log = build / "build.log"
    with log.open("w") as out:
        if subprocess.run(["cmake", "--build", build, "--target", *targets], stdout=out, stderr=subprocess.STDOUT).returncode != 0:
            sys.exit("\n".join(line for line in log.read_text().splitlines() if "error" in line or line.startswith("FAILED"))[-4000:] or f"see {log}")
    return build


def host_program(builds):
    """The program that writes its own manual and completions: one that runs here."""
    own = builds.get(platform.machine(), BUILD / "portable" / platform.machine()) / "bin/ration"
    if not own.exists():
        sys.exit(f"the manual is written by a program that runs here: --architecture {platform.machine()}, too")
    return own


# ----------------------------------------------------------------------------------------------------------------- staging

def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


READMES = ("README.md", "README.zh.md")


def readme(name):
    """What a README points to stands under share/doc; what it says of the source is left out."""
    text = re.sub(r"^<!-- source.*?^<!-- /source.*?\n|^<!-- follows.*?\n", "", (SOURCE / name).read_text(), flags=re.M | re.S)
    text = re.sub(r"([\]\[(\"`])(docs|examples|libration|sim)/", r"\1share/doc/ration/\2/", text)
    return text.replace("[examples]", "[share/doc/ration/examples]")


def pages(root):
    """Everything that people read, with the examples."""
    copy(SOURCE / "CHANGELOG.md", root / "CHANGELOG.md")
    for name in READMES:
        (root / name).write_text(readme(name))
    documents = root / "share/doc/ration"
    for name in ("docs", "examples"):
        shutil.copytree(SOURCE / name, documents / name, ignore=shutil.ignore_patterns("CMakeLists.txt", "*.mjs", "__pycache__", "site.py", "terminal.py", "mkdocs.yml"))
    for name in ("libration/python", "sim"):
        copy(SOURCE / name / "README.md", documents / name / "README.md")


def cxx_sources():
    """The C++ classes, to be compiled with the program that uses them: C++ has no binary interface that all compilers share.
    ration.cpp has all of it in one."""
    wanted = {"src/base": ("ration_base", "ration_fmt", "ration_text"), "src/driver": ("ration_driver",), "src/book": ("ration_book",),
              "libration/pool": ("ration_pool",), "libration/runtime": ("ration_runtime",)}
    rooms = {room: (SOURCE / room / "CMakeLists.txt").read_text() for room in wanted}
    return [SOURCE / room / name for room, text in rooms.items() for library in wanted[room]
            for name in re.search(rf"ration_library\({library} SOURCES ([^)]*?)(?:DEPENDS|\))", text, re.S).group(1).split()]


def scenario_programs(root):
    """Scenarios of `ration demo` that are programs."""
    return {path for path in (root / "share/ration/scenarios").iterdir() if not path.suffix}


def python_package(folder):
    """The Python package as an installation has it, with the entry points by which pytest and Jupyter find its parts."""
    metadata = folder / f"ration-{VERSION}.dist-info"
    described = (SOURCE / "libration/python/pyproject.toml").read_text()
    (packages,) = re.findall(r"^packages = \[(.*)\]", described, flags=re.M)
    for name in {each.split(".")[0] for each in re.findall(r'"([^"]+)"', packages)}:
        shutil.copytree(SOURCE / "libration/python" / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "native"))
    (modules,) = re.findall(r"^py-modules = \[(.*)\]", described, flags=re.M)
    for name in re.findall(r'"([^"]+)"', modules):
        copy(SOURCE / "libration/python" / f"{name}.py", folder / f"{name}.py")
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ration\nVersion: {VERSION}\n")
    points = re.findall(r'^\[project\.entry-points\."?([^"\]]+)"?\]\n((?:.+\n)+)', described, flags=re.M)
    (metadata / "entry_points.txt").write_text("\n".join(f"[{group}]\n" + lines.replace('"', "") for group, lines in points))


def stage(architecture, build, program):
    """The tree that the tarball, the wheel and the .deb have in common."""
    root = BUILD / "package" / f"ration-{VERSION}-linux-{architecture}"
    shutil.rmtree(root, ignore_errors=True)
    for name in PROGRAMS:
        copy(build / "bin" / name, root / "bin" / name)
    (root / "bin/rationd").symlink_to("ration")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libration-audit.so", "libration-nvtx.so"):
        copy(build / "shim" / name, root / "lib/ration/shim" / name)
    sim = build / "sim"
    for path in sorted(sim.rglob("*.so*")):
        if path.is_file() and "CMakeFiles" not in path.parts:
            copy(path, root / "lib/ration/sim" / path.relative_to(sim))
    for path in (SOURCE / "sim/drivers").glob("*.toml"):
        copy(path, root / "lib/ration/sim/drivers" / path.name)
    copy(build / "lib/libration.so.1", root / "lib/libration.so.1")
    (root / "lib/libration.so").symlink_to("libration.so.1")
    python_package(root / "lib/ration/python")
    shutil.copytree(SOURCE / "libration/include", root / "include")
    cxx = root / "share/ration/cxx"
    sources = cxx_sources()
    for room in {source.parent for source in sources}:
        for header in room.glob("*.hpp"):
            copy(header, cxx / room.name / header.name)
    for source in sources:
        copy(source, cxx / source.parent.name / source.name)
    shutil.copytree(tools.libraries(tools.folder_of(SOURCE), DEBIAN[architecture])[0] / "root/usr/include/fmt", cxx / "fmt")
    (cxx / "ration.cpp").write_text("// ration's C++ classes in one piece: compile it with the program that uses them.\n" +
                                    "".join(f'#include "{source.parent.name}/{source.name}"\n' for source in sources))
    for name in ("schema", "traces", "scenarios", "prometheus", "grafana", "kubernetes", "slurm"):
        shutil.copytree(SOURCE / "share/ration" / name, root / "share/ration" / name)
    copy(SOURCE / "src/adapters/slurm/spank.cpp", root / "share/ration/slurm/ration_spank.cpp")
    copy(build / "src/node/openapi.json", root / "share/ration/openapi.json")
    copy(SOURCE / "LICENSE", root / "LICENSE")
    pages(root)
    documents = root / "share/doc/ration"
    if not (BUILD / "docs/site/index.html").exists():
        sys.stderr.write("the documentation's pages are missing: ./dev docs\n")
        sys.exit(CANNOT_BE_HAD)
    shutil.copytree(BUILD / "docs/site", documents / "site")
    licences(architecture, documents / "licences")
    run(program, "manual", root / "share/man")
    for shell, place in (("bash", "bash-completion/completions/ration"), ("zsh", "zsh/site-functions/_ration"), ("fish", "fish/vendor_completions.d/ration.fish")):
        (root / "share" / place).parent.mkdir(parents=True)
        (root / "share" / place).write_bytes(subprocess.run([program, "completion", shell], check=True, capture_output=True).stdout)
    programs = scenario_programs(root)
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" or ".so" in path.name or path in programs else 0o644)
    return root


# --------------------------------------------------------------------------------------------------------------- materials

def components(architecture):
    """(name, version, licence, home page, file with the licence's text) of what is inside besides ration."""
    folder = tools.folder_of(SOURCE)
    place, versions = tools.libraries(folder, DEBIAN[architecture])
    for package, (name, licence, home) in tools.LIBRARIES.items():
        yield name, versions[package], licence, home, place / "root/usr/share/doc" / package / "copyright"
    of_zig = tools.zig(folder).parent
    for name in ("libcxx", "libcxxabi", "libunwind"):
        yield name, f"of zig {tools.ZIG}", "Apache-2.0 WITH LLVM-exception", "https://llvm.org", of_zig / "lib" / name / "LICENSE.TXT"
    yield "zig's compiler-rt", tools.ZIG, "MIT", "https://ziglang.org", of_zig / "LICENSE"
    wanted = json.loads((SOURCE / "web/package.json").read_text())["dependencies"]
    for name, version in sorted(wanted.items()):
        yield name, version, "MIT", f"https://www.npmjs.com/package/{name}", SOURCE / "web/node_modules" / name / "LICENSE"
    (theme,) = (BUILD / "docs/tools/lib").glob("python3*/site-packages/mkdocs_material-[0-9]*.dist-info")
    version = re.search(r"-([0-9.]+)\.dist-info", theme.name)[1]
    yield "Material for MkDocs", version, "MIT", "https://squidfunk.github.io/mkdocs-material/", theme / "licenses/LICENSE"


def licences(architecture, folder):
    for name, _, _, _, text in components(architecture):
        copy(text, folder / file_name(name))


def file_name(name):
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", name)


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", name)


def spdx(architectures):
    packages = [{"SPDXID": "SPDXRef-ration", "name": "ration", "versionInfo": VERSION, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                 "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-ration"}]
    place, versions = tools.libraries(tools.folder_of(SOURCE), DEBIAN[architectures[0]])
    beside = [(name, versions[package], licence, home, None) for package, (name, licence, home) in tools.BESIDE.items()]
    for name, version, licence, home, text in [*components(architectures[0]), *beside]:
        packages.append({"SPDXID": identifier(name), "name": name, "versionInfo": version, "homepage": home, "downloadLocation": "NOASSERTION",
                         "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION"})
        relations.append({"spdxElementId": "SPDXRef-ration", "relatedSpdxElement": identifier(name),
                          "relationshipType": "STATIC_LINK" if text is not None else "DEPENDS_ON"})
    when = subprocess.run(["date", "-u", "-d", f"@{moment()}", "+%Y-%m-%dT%H:%M:%SZ"], capture_output=True, text=True, check=True).stdout.strip()
    key = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"ration-{VERSION}",
            "documentNamespace": f"urn:ration:{VERSION}:{key}", "creationInfo": {"created": when, "creators": ["Tool: ration-package"]},
            "packages": packages, "relationships": relations}


# ---------------------------------------------------------------------------------------------------------------- packages

def tar_of(root, name):
    """`root` as a tar archive under `name`, the same bytes wherever and whenever it is made."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in [root, *sorted(root.rglob("*"))]:
            member = archive.gettarinfo(path, str(pathlib.PurePath(name) / path.relative_to(root)))
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = moment()
            with path.open("rb") if member.isfile() else io.BytesIO() as file:
                archive.addfile(member, file)
    return out.getvalue()


def tarball(architecture, root):
    target = DIST / f"{root.name}.tar.gz"
    target.write_bytes(gzip.compress(tar_of(root, root.name), 9, mtime=0))
    return target


def wheel(architecture, root):
    folder = BUILD / "package" / f"wheel-{architecture}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCE / "libration/python", folder, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    environment = dict(os.environ, RATION_PACKAGE=str(root), RATION_WHEEL_PLATFORM=WHEEL_PLATFORM.format(architecture), RATION_VERSION=VERSION,
                       SOURCE_DATE_EPOCH=str(moment()))
    done = subprocess.run(["/usr/bin/python3", "setup.py", "--quiet", "bdist_wheel", "-d", DIST], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[-4000:])
    return DIST / f"ration-{VERSION}-py3-none-{WHEEL_PLATFORM.format(architecture)}.whl"


def deb(architecture, root, program):
    name = f"ration_{VERSION}_{DEBIAN[architecture]}"
    tree = BUILD / "package" / name
    shutil.rmtree(tree, ignore_errors=True)
    usr = tree / "usr"
    for part in ("bin", "include", "lib", "share"):
        shutil.copytree(root / part, usr / part, symlinks=True)
    multiarch = usr / "lib" / f"{architecture}-linux-gnu"
    multiarch.mkdir()
    for path in sorted((usr / "lib").glob("libration.so*")):
        path.rename(multiarch / path.name)
    # Debian's own Python finds it; any other one is told: PYTHONPATH=/usr/lib/ration/python.
    found = usr / "lib/python3/dist-packages"
    found.mkdir(parents=True)
    for path in sorted((usr / "lib/ration/python").iterdir()):
        (found / path.name).symlink_to(f"../../ration/python/{path.name}")
    documents = usr / "share/doc/ration"
    for page in READMES:
        (documents / page).write_text((root / page).read_text().replace("share/doc/ration/", ""))
    parts = "".join(f"\nFiles: parts of {part} {version}\nLicense: {licence}\n The text: /usr/share/doc/ration/licences/{file_name(part)}\n"
                    for part, version, licence, _, _ in components(architecture))
    (documents / "copyright").write_text((SOURCE / "packaging/debian/copyright").read_text() + parts)
    (usr / "share/man/man1/rationd.1").write_text(".so man1/ration-serve.1\n")
    for path in [*(usr / "share/man").rglob("*.[1-8]")]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        path.unlink()
    when = subprocess.run(["date", "-u", "-R", "-d", f"@{moment()}"], capture_output=True, text=True, check=True).stdout.strip()
    maintainer = "ration's maintainers <maintainers@ration.example>"
    (documents / "changelog.gz").write_bytes(gzip.compress(
        f"ration ({VERSION}) unstable; urgency=medium\n\n  * See /usr/share/doc/ration/CHANGELOG.md.\n\n -- {maintainer}  {when}\n".encode(), 9, mtime=0))
    copy(SOURCE / "CHANGELOG.md", documents / "CHANGELOG.md")
    unit = subprocess.run([program, "service", "print"], check=True, capture_output=True, text=True).stdout
    unit = re.sub(r"^(Exec\w+)=\S+", r"\1=/usr/bin/ration", unit, flags=re.M)
    for target, text in (("lib/systemd/system/rationd.service", unit), ("usr/lib/sysusers.d/ration.conf", (SOURCE / "packaging/debian/sysusers.conf").read_text()),
                         ("usr/lib/tmpfiles.d/ration.conf", (SOURCE / "packaging/debian/tmpfiles.conf").read_text()),
                         ("usr/share/lintian/overrides/ration", (SOURCE / "packaging/debian/lintian-overrides").read_text())):
        (tree / target).parent.mkdir(parents=True, exist_ok=True)
        (tree / target).write_text(text)
    kib = sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    control = tree / "DEBIAN"
    control.mkdir()
    (control / "control").write_text((SOURCE / "packaging/debian/control").read_text().format(
        version=VERSION, architecture=DEBIAN[architecture], maintainer=maintainer, kib=kib, glibc=GLIBC))
    for script in ("postinst", "prerm", "postrm"):
        copy(SOURCE / "packaging/debian" / script, control / script)
    (control / "shlibs").write_text("libration 1 ration\n")
    (control / "triggers").write_text("activate-noawait ldconfig\n")
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n"
            for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink() and control not in path.parents]
    (control / "md5sums").write_text("".join(sums))
    programs = scenario_programs(usr)
    for path in tree.rglob("*"):
        if not path.is_symlink():
            runs = path.is_dir() or path.parent.name == "bin" or path.name in ("postinst", "prerm", "postrm") or path in programs
            path.chmod(0o755 if runs else 0o644)
            os.utime(path, (moment(), moment()))
    run("dpkg-deb", "--root-owner-group", "--threads-max=1", "--build", tree, DIST / f"{name}.deb",
        env=dict(os.environ, SOURCE_DATE_EPOCH=str(moment())), stdout=subprocess.DEVNULL)
    return DIST / f"{name}.deb"


def image(roots):
    """One OCI image layout for all architectures, as a tar archive: `podman load`, `docker load`, `skopeo copy oci-archive:`. Docker that keeps images itself reads no
    index: it has each architecture's under a tag of its own."""
    layout = BUILD / "package/oci"
    shutil.rmtree(layout, ignore_errors=True)
    blobs = layout / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(content, kind, **more):
        key = hashlib.sha256(content).hexdigest()
        (blobs / key).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{key}", "size": len(content), **more}

    name = f"localhost/ration:{VERSION}"
    manifests, of_docker = [], []
    for architecture, root in roots.items():
        tree = BUILD / "package" / f"image-{architecture}"
        shutil.rmtree(tree, ignore_errors=True)
        libc = tools.libraries(tools.folder_of(SOURCE), DEBIAN[architecture])[0] / "libc"
        for part in ("lib", "lib64"):
            if (libc / part).exists():
                shutil.copytree(libc / part, tree / part, symlinks=True)
        copy(libc / "usr/share/doc/libc6/copyright", tree / "usr/share/doc/libc6/copyright")
        for part in ("bin", "lib", "share"):
            shutil.copytree(root / part, tree / "usr" / part, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("man", "cxx", "docs", "examples"))
        for folder in ("etc", "tmp", "run/ration", "var/lib/ration"):
            (tree / folder).mkdir(parents=True)
        (tree / "tmp").chmod(0o1777)
        (tree / "etc/passwd").write_text("root:x:0:0:root:/:/usr/bin/ration\n")
        (tree / "etc/group").write_text("root:x:0:\n")
        layer = tar_of(tree, ".")
        packed = blob(gzip.compress(layer, 9, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
        config = {"architecture": DEBIAN[architecture], "os": "linux",
                  "config": {"Entrypoint": ["/usr/bin/ration"], "Cmd": ["serve"], "Env": ["PATH=/usr/bin"], "Volumes": {"/run/ration": {}, "/var/lib/ration": {}},
                             "Labels": {"org.opencontainers.image.title": "ration", "org.opencontainers.image.version": VERSION,
                                        "org.opencontainers.image.licenses": "Apache-2.0"}},
                  "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}
        described = blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json")
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": described, "layers": [packed]}
        config_file, layer_file = (f"blobs/{each['digest'].replace(':', '/')}" for each in (described, packed))
        of_docker.append({"Config": config_file, "RepoTags": [f"{name}-{DEBIAN[architecture]}"], "Layers": [layer_file]})
        manifests.append(blob(json.dumps(manifest).encode(), manifest["mediaType"], platform={"architecture": DEBIAN[architecture], "os": "linux"}))
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
    both = blob(json.dumps(index).encode(), index["mediaType"], annotations={"org.opencontainers.image.ref.name": VERSION, "io.containerd.image.name": name})
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "mediaType": index["mediaType"], "manifests": [both]}))
    (layout / "manifest.json").write_text(json.dumps(of_docker))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    target = DIST / f"ration-{VERSION}-oci.tar"
    target.write_bytes(tar_of(layout, "."))
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--architecture", action="append", choices=DEBIAN, help="only this one (both)")
    parser.add_argument("--only", action="append", choices=("tarball", "wheel", "deb", "image"), help="only this kind (all)")
    parser.add_argument("--unit-tests", action="store_true", help="no packages: the unit tests that ./dev test roots runs under qemu")
    parser.add_argument("--guards", action="store_true", help="no packages: the guard and libration alone")
    options = parser.parse_args()
    architectures = options.architecture or list(DEBIAN)
    kinds = options.only or ["tarball", "wheel", "deb", "image"]
    if not shutil.which("npm") or not (shutil.which("node") or shutil.which("nodejs")):
        sys.exit("the dashboard cannot be bundled: npm is not there (./dev setup installs it)")
    try:
        if options.unit_tests:
            for architecture in architectures:
                print(compile_for(architecture, ("book_test", "guard_state_test", "pool_test"), tests=True))
            return
        if options.guards:
            for architecture in architectures:
                print(compile_for(architecture, ("ration_guards", "ration_c")))
            return
        builds = {architecture: compile_for(architecture) for architecture in architectures}
    except tools.NotToBeHad as missing:
        print(f"no packages: what they are compiled with cannot be had here ({missing})", file=sys.stderr)
        sys.exit(CANNOT_BE_HAD)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    program = host_program(builds)
    roots = {architecture: stage(architecture, build, program) for architecture, build in builds.items()}
    for architecture, root in roots.items():
        if "tarball" in kinds:
            tarball(architecture, root)
        if "wheel" in kinds:
            wheel(architecture, root)
        if "deb" in kinds:
            deb(architecture, root, program)
    if "image" in kinds:
        image(roots)
    (DIST / f"ration-{VERSION}.spdx.json").write_text(json.dumps(spdx(architectures), indent=2) + "\n")
    made = sorted(DIST.iterdir())
    (DIST / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made))
    for path in made:
        print(f"{path.stat().st_size >> 10:>8} KiB  {path.relative_to(SOURCE)}")


if __name__ == "__main__":
    main()
