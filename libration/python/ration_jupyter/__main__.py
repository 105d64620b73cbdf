"""`python -m ration_jupyter install | list | uninstall`: kernels under a limit."""
from __future__ import annotations

import argparse
import json
import sys
from typing import List, Optional

from . import kernels


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m ration_jupyter", description="Jupyter kernels under a limit of GPU memory.",
                                     epilog="Options after -- are passed to ration run: -- --on-deny wait:30s")
    verbs = result.add_subparsers(dest="verb", required=True, metavar="install | list | uninstall")
    install = verbs.add_parser("install", help='writes a kernelspec, such as "Python 3 · 4 GiB GPU"')
    install.add_argument("--limit", required=True, metavar="SIZE", help="the most memory that the kernel can hold on each GPU: 4GiB, 50%%")
    install.add_argument("--name", help="name of the kernelspec's folder; default: ration-4gib")
    install.add_argument("--display-name", metavar="TEXT", help="name in the launcher")
    install.add_argument("--python", default=sys.executable, metavar="PATH", help="the interpreter that runs the cells; default: this interpreter")
    where = install.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="install for this user")
    where.add_argument("--sys-prefix", action="store_true", help="install into this Python's environment")
    where.add_argument("--prefix", metavar="FOLDER", help="install into the environment at this folder")
    listing = verbs.add_parser("list", help="shows the installed kernels under a limit")
    listing.add_argument("--json", action="store_true", help="print name, folder, limit and command of each kernel as JSON")
    uninstall = verbs.add_parser("uninstall", help="removes a kernel under a limit")
    uninstall.add_argument("name")
    return result


def run(arguments: List[str]) -> None:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    given = parser().parse_args(arguments[:at])
    if given.verb == "install":
        prefix = sys.prefix if given.sys_prefix else given.prefix
        print(kernels.install(given.limit, given.name, given.display_name, given.user, prefix, given.python, arguments[at + 1:]))
        if not kernels.has_provisioner():
            print("This Python does not have ration's package. So workloads are not named after their notebooks, and only "
                  "the server's log shows why a kernel does not start.", file=sys.stderr)
    elif given.verb == "list":
        found = kernels.installed()
        if given.json:
            print(json.dumps(found, ensure_ascii=False))
        for name, kernel in sorted(found.items()) if not given.json else ():
            print(f"{name:20} {kernel['limit']:>8}  {kernel['display_name']}  {kernel['folder']}")
    else:
        print(f"removed {kernels.uninstall(given.name)}")


def main(arguments: Optional[List[str]] = None) -> int:
    try:
        run(sys.argv[1:] if arguments is None else arguments)
    except ImportError as error:
        print(f"{error}: {sys.executable} -m pip install jupyter_client ipykernel", file=sys.stderr)
        return 1
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
