#!/usr/bin/env python3
"""Makes of the packages in a folder what apt and pip install from: packaging/repositories.py FOLDER. The folder is then served as it is, by any web server:

    FOLDER/apt       deb [trusted=yes] http://SERVER/apt stable main
    FOLDER/simple    pip install --index-url http://SERVER/simple ration

The files of packages are linked, not copied. Needs apt-ftparchive (Debian's apt-utils)."""
import gzip
import hashlib
import html
import pathlib
import shutil
import subprocess
import sys
import zipfile

ARCHITECTURES = ("amd64", "arm64")


def linked(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    target.hardlink_to(source)


def listing(apt, *arguments):
    return subprocess.run(["apt-ftparchive", *arguments], cwd=apt, check=True, capture_output=True).stdout


def make_apt(folder):
    """A repository of one release, `stable`, with the architectures that there are packages of."""
    apt = folder / "apt"
    shutil.rmtree(apt, ignore_errors=True)
    for package in sorted(folder.glob("*.deb")):
        linked(package, apt / "pool" / package.name)
    present = [name for name in ARCHITECTURES if list(apt.glob(f"pool/*_{name}.deb"))]
    for architecture in present:
        place = apt / "dists/stable/main" / f"binary-{architecture}"
        place.mkdir(parents=True)
        packages = listing(apt, "--arch", architecture, "packages", "pool")
        (place / "Packages").write_bytes(packages)
        (place / "Packages.gz").write_bytes(gzip.compress(packages, 9, mtime=0))
    options = {"Origin": "ration", "Label": "ration", "Suite": "stable", "Codename": "stable", "Components": "main", "Architectures": " ".join(present)}
    release = listing(apt, *(word for name, value in options.items() for word in ("-o", f"APT::FTPArchive::Release::{name}={value}")), "release", "dists/stable")
    (apt / "dists/stable/Release").write_bytes(release)


def requires_python(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        fields = dict(line.split(": ", 1) for line in archive.read(metadata).decode().split("\n\n")[0].splitlines() if ": " in line)
    return fields["Requires-Python"]


def make_simple(folder):
    """An index as PEP 503 describes it."""
    simple = folder / "simple"
    shutil.rmtree(simple, ignore_errors=True)
    rows = []
    for wheel in sorted(folder.glob("*.whl")):
        linked(wheel, simple / "ration" / wheel.name)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        rows.append(f'<a href="{wheel.name}#sha256={digest}" data-requires-python="{html.escape(requires_python(wheel))}">{wheel.name}</a><br>')
    page = "<!DOCTYPE html>\n<html><head><title>{}</title></head><body>\n{}\n</body></html>\n"
    (simple / "ration/index.html").write_text(page.format("ration", "\n".join(rows)))
    (simple / "index.html").write_text(page.format("Packages", '<a href="ration/">ration</a>'))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_dir():
        sys.exit(__doc__)
    make_apt(pathlib.Path(sys.argv[1]))
    make_simple(pathlib.Path(sys.argv[1]))
