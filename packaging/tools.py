"""What `./dev package` compiles with: zig from PyPI, and the libraries of Debian's archives, for each architecture unpacked
into a folder of its own. Nothing of it touches the machine's own packages."""
import hashlib
import pathlib
import platform
import shutil
import subprocess
import sys

ZIG = "0.17.1"
ZIG_HASHES = {  # of PyPI's files, by the machine that compiles
    "x86_64": "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54",
    "aarch64": "b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e",
}
# What is linked in: Debian's name of the package, its licence as SPDX names it, and where it comes from.
LIBRARIES = {
    "libevent-dev": ("libevent", "BSD-3-Clause", "https://libevent.org"),
    "libhttp-parser-dev": ("http-parser", "MIT", "https://github.com/nodejs/http-parser"),
    "libncurses-dev": ("ncurses", "X11-distribute-modifications-variant", "https://invisible-island.net/ncurses/"),
    "zlib1g-dev": ("zlib", "Zlib", "https://zlib.net"),
    "libsqlite3-dev": ("SQLite", "blessing", "https://sqlite.org"),
    "libsodium-dev": ("libsodium", "ISC", "https://libsodium.org"),
    "libfmt-dev": ("fmt", "MIT", "https://fmt.dev"),
    "rapidjson-dev": ("RapidJSON", "MIT", "https://rapidjson.org"),
    "libcli11-dev": ("CLI11", "BSD-3-Clause", "https://github.com/CLIUtils/CLI11"),
    "nlohmann-json3-dev": ("JSON for Modern C++", "MIT", "https://json.nlohmann.me"),
    "libtoml11-dev": ("toml11", "MIT", "https://github.com/ToruNiina/toml11"),
    "libexpected-dev": ("tl::expected", "CC0-1.0", "https://tl.tartanllama.xyz"),
}
# Not linked in: the C library of the container image, and the sources of the tests' library.
BESIDE = {"libc6": ("GNU C Library", "LGPL-2.1-or-later", "https://www.gnu.org/software/libc/")}
TESTS = ["googletest"]
TEXTS = ["libtinfo6"]  # has the licence of ncurses, to which its own package points

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


class NotToBeHad(Exception):
    """No network, or no such file there."""


def run(*words, **options):
    try:
        return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotToBeHad(f"{words[0]}: {getattr(error, 'stderr', error)}") from error


def zig(folder):
    """The compiler. `folder` keeps it between calls."""
    machine = platform.machine()
    place = folder / f"ziglang-{ZIG}"
    if not (place / "ziglang/zig").exists():
        fresh = folder / "ziglang-unfinished"
        shutil.rmtree(fresh, ignore_errors=True)
        run(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "-d", fresh, f"ziglang=={ZIG}")
        (wheel,) = fresh.glob("*.whl")
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != ZIG_HASHES.get(machine, found):
            raise SystemExit(f"{wheel.name} has sha256 {found}, and should have {ZIG_HASHES[machine]}")
        run(sys.executable, "-m", "zipfile", "-e", wheel, fresh)
        wheel.unlink()
        (fresh / "ziglang/zig").chmod(0o755)
        fresh.rename(place)
    return place / "ziglang/zig"


def debian_sources():
    """The machine's own archives of Debian, as lines of a sources.list."""
    told = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    return {f"deb [signed-by={KEYS}] {uri} {release} {component}\n"
            for origin, uri, release, component in (line.split() for line in told.splitlines()) if origin == "Debian"}


def libraries(folder, architecture):
    """The folder with what Debian's packages of `architecture` (amd64, arm64) contain, and their versions by name."""
    place = folder / f"libraries-{architecture}"
    listed = place / "versions.txt"
    if not listed.exists():
        shutil.rmtree(place, ignore_errors=True)
        for part in ("lists/partial", "archives/partial", "sources", "debs", "root"):
            (place / part).mkdir(parents=True)
        (place / "status").touch()
        (place / "sources/debian.list").write_text("".join(sorted(debian_sources())))
        options = [f"APT::Architecture={architecture}", f"APT::Architectures={architecture}", f"Dir::State::Lists={place}/lists",
                   f"Dir::State::status={place}/status", f"Dir::Cache={place}", "Dir::Etc::SourceList=/dev/null",
                   f"Dir::Etc::SourceParts={place}/sources", "APT::Sandbox::User=root", "Acquire::Languages=none",
                   "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false", "Acquire::Retries=3"]
        apt = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
        run(*apt, "update")
        run(*apt, "download", *LIBRARIES, *BESIDE, *TESTS, *TEXTS, cwd=place / "debs")
        found = {}
        for deb in sorted((place / "debs").glob("*.deb")):
            name, version = run("dpkg-deb", "-W", "--showformat", "${Package}\t${Version}", deb).split("\t")
            root = place / "libc" if name == "libc6" else place / "root"
            run("dpkg-deb", "-x", deb, root)
            found[name] = version
        listed.write_text("".join(f"{name}\t{version}\n" for name, version in sorted(found.items())))
        for part in ("lists", "archives", "debs"):
            shutil.rmtree(place / part)
    return place, dict(line.split("\t") for line in listed.read_text().splitlines())


def folder_of(source):
    folder = pathlib.Path(source) / "build/tools"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
