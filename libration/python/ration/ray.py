"""Ray's fractions of a GPU as enforced limits.

    @ration.ray.remote(num_gpus=0.25)            # as ray.remote; never more than a quarter of the GPU
    class Trainer: ...

    Trainer.options(**ration.ray.limited(gpu_memory_gib=4)).remote()

Ray only places workers by these fractions, and enforces nothing. With this module, `ration run` starts each worker. So the limit of
the actor or task applies from the first instruction of its worker on. This module puts
the command into Ray's field `py_executable`, because every node reads this field. A plugin of
Ray (RAY_RUNTIME_ENV_PLUGINS) could have a field of its own. But nodes without the plugin would ignore this field, with a
warning.

This module imports Ray only when it needs Ray. The import of this module takes the program out of its workload.
Otherwise, the processes that ray.init() starts would be under the program's limit. If this file is run as a program, it
starts a worker.
"""
from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from typing import Any, Callable, Dict, NoReturn, Optional, Sequence

if __name__ != "__main__":
    from . import activation

    activation.withdraw()

# Finds this file in its place on each node without importing the package, because the import would make a workload.
_START = ("import importlib.util as u, runpy; "
          "runpy.run_path(u.find_spec('ration').submodule_search_locations[0] + '/ray.py', run_name='__main__')")
_TOLD = 5  # seconds in which Ray receives the reason why a worker does not start
_SMALLEST = 0.001  # of a GPU; Ray hides every GPU from a worker that has no part of a GPU


def limited(num_gpus: Optional[float] = None, gpu_memory_gib: Optional[float] = None, *, workload: str = "ray",
            tenant: Optional[str] = None, run: Sequence[str] = (), runtime_env: Optional[Dict[str, Any]] = None,
            python: Optional[str] = None) -> Dict[str, Any]:
    """Returns options for `ray.remote(**...)` and `.options(**...)`: the resources by which Ray places the worker, and
    the worker's limit.

    The limit applies to the worker and its children on each GPU that Ray grants. If a daemon runs, `ration ps` and
    the dashboard show the worker as `WORKLOAD-ID`. ID is the first eight digits of the worker's id in Ray. The worker
    has the labels `ray_job`, `ray_node` and `ray_worker`. If the limit of a worker cannot be set, the worker runs
    nothing. The error of an actor says why; for a task, the log says why.

    Args:
        num_gpus: a number of whole GPUs, or a share. The share `0.25` limits the worker to a quarter of the GPU that Ray
            grants.
        gpu_memory_gib: the limit in GiB. Ray places the worker by the resource `gpu_memory_gib` of the nodes
            (`ray start --resources='{"gpu_memory_gib": 16}'`). On nodes with several GPUs, Ray also needs `num_gpus` to
            choose a GPU.
        workload: the name in `ration ps`, before the id.
        tenant: the tenant that is charged.
        run: more options of `ration run`, such as `['--on-deny', 'wait:30s']`, or `['--socket', PATH]`; with
            `--socket`, no worker starts unless the daemon runs.
        runtime_env: the runtime_env of Ray, to which the command is added.
        python: the nodes' interpreter; None: the path of this interpreter, or `python` if the runtime_env has pip, uv
            or conda.

    Raises:
        ValueError: no size, a size by which Ray cannot place a worker, or a runtime_env with a py_executable of its own.
    """
    if num_gpus is None and gpu_memory_gib is None:
        raise ValueError("a limit is either num_gpus=0.25 (a share of a GPU) or gpu_memory_gib=4")
    if num_gpus is not None and not (0 < num_gpus <= 1 or num_gpus > 1 and num_gpus == int(num_gpus)):
        raise ValueError(f"num_gpus is a share of a GPU up to 1, or a whole number of GPUs, not {num_gpus!r}")
    if gpu_memory_gib is not None and not 0 < gpu_memory_gib < float("inf"):
        raise ValueError(f"gpu_memory_gib is a number of GiB above 0, not {gpu_memory_gib!r}")
    environment = dict(runtime_env or {})
    if "py_executable" in environment:
        raise ValueError("runtime_env has a py_executable, which ration.ray sets itself; give the interpreter as python=")
    share = f"{num_gpus * 100:.12g}%" if num_gpus is not None and num_gpus < 1 else "max"
    limit = share if gpu_memory_gib is None else f"{int(gpu_memory_gib * 1024)}MiB"
    own = "python" if environment.keys() & {"pip", "uv", "conda"} else sys.executable
    options = ["--limit", limit, *(["--tenant", tenant] if tenant else []), *run]
    kind = "one-gpu" if num_gpus is None else "any"
    environment["py_executable"] = shlex.join([python or own, "-c", _START, "start", kind, workload, *options, "--"])
    asked: Dict[str, Any] = {"num_gpus": _SMALLEST if num_gpus is None else num_gpus, "runtime_env": environment}
    if gpu_memory_gib is not None:
        asked["resources"] = {"gpu_memory_gib": gpu_memory_gib}
    return asked


def remote(num_gpus: Optional[float] = None, gpu_memory_gib: Optional[float] = None, *, workload: Optional[str] = None,
           tenant: Optional[str] = None, run: Sequence[str] = (), runtime_env: Optional[Dict[str, Any]] = None,
           python: Optional[str] = None, **options: Any) -> Callable[[Any], Any]:
    """Replaces `ray.remote` for a class or function whose workers have a limit: see limited(). The workload is named
    after the class or function.

    Args:
        options: any other option of `ray.remote`.

    Raises:
        ImportError: Ray is not installed.
        ValueError: as in limited().
    """
    ray = _ray()

    def decorate(target: Any) -> Any:
        asked = limited(num_gpus, gpu_memory_gib, workload=workload or target.__name__, tenant=tenant, run=run,
                        runtime_env=runtime_env, python=python)
        resources = {**(options.get("resources") or {}), **asked.get("resources", {})}
        return ray.remote(**{**options, **asked, "resources": resources})(target)

    return decorate


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415  (the package of Ray; this module is ration.ray)
    except ImportError as missing:
        raise ImportError("ration.ray needs Ray: pip install ray") from missing
    return ray


# ------------------------------------------------------------------------------------------------- how a worker is started


def _start(kind: str, workload: str, *words: str) -> NoReturn:
    """Replaces this process by `ration run`, which starts the worker. If that fails, a second process reports the reason."""
    end = words.index("--")
    options, worker = words[:end], words[end + 1:]
    node, own = _after(worker, "--node-id"), _after(worker, "--worker-id")
    labels = [f"--label={key}={value}" for key, value in (("ray_job", os.environ.get("RAY_JOB_ID")), ("ray_node", node),
                                                          ("ray_worker", own)) if value]
    name = re.sub(r"[^\w.-]", "_", workload, flags=re.ASCII)[:50]
    import ration_command  # outside this package, so importing it makes no workload
    program = ration_command.find() or shutil.which("ration")
    told, tell = os.pipe()
    errors = os.dup(2)
    with tempfile.TemporaryFile() as problems:
        child = os.fork()
        if child == 0:
            if os.fork() != 0:
                os._exit(0)
            os.close(tell)
            if os.read(told, 1):
                os._exit(0)
            text = os.pread(problems.fileno(), 4096, 0).decode(errors="replace")
            os.execv(sys.executable, [sys.executable, __file__, "explain", " ".join(text.split()), *worker])
        os.waitpid(child, 0)
        for passed in (tell, errors):
            os.set_inheritable(passed, True)
        os.dup2(problems.fileno(), 2)
        if program is None:
            sys.exit("ration is not installed on this node: it is neither beside its Python package nor in the PATH of Ray")
        os.execv(program, [program, "run", "--name", f"{name}-{own[:8]}", "--summary", "never", *labels, *options, "--",
                           sys.executable, __file__, "become", kind, str(tell), str(errors), *worker])


def _become(kind: str, tell: str, errors: str, *worker: str) -> NoReturn:
    """Replaces this process by the worker. This process is already under the limit."""
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if kind == "one-gpu" and len(gpus) > 1:
        sys.exit(f"this node has {len(gpus)} GPUs, and gpu_memory_gib alone does not let Ray choose one: also give num_gpus.")
    os.write(int(tell), b"1")
    os.close(int(tell))
    os.dup2(int(errors), 2)
    os.close(int(errors))
    os.execv(sys.executable, [sys.executable, *worker])


def _explain(text: str, script: str, *arguments: str) -> None:
    """Runs as a worker that registers, reports why it runs nothing, and ends. Without this worker, Ray would try again for
    ever."""
    import runpy
    import time
    import types

    sys.path[0] = os.path.dirname(script)
    from ray._private import ray_constants, worker

    def end() -> NoReturn:
        worker.global_worker.core_worker.drain_and_exit_worker("system", f"not started without its limit: {text}")
        time.sleep(_TOLD)  # does not return, because the caller would go on to run tasks
        os._exit(1)

    module = types.ModuleType("ration_explains")
    module.end = end  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    os.environ[ray_constants.WORKER_PROCESS_SETUP_HOOK_ENV_VAR] = "ration_explains.end"
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def _after(words: Sequence[str], option: str) -> str:
    """Returns the value of an option, which is written as two words or as one word with `=`."""
    for word, following in zip(words, [*words[1:], ""]):
        if word == option:
            return following
        if word.startswith(option + "="):
            return word[len(option) + 1:]
    return ""


if __name__ == "__main__":
    _STEPS: Dict[str, Callable[..., None]] = {"start": _start, "become": _become, "explain": _explain}
    _STEPS[sys.argv[1]](*sys.argv[2:])
