"""Checkpoints: what a driver moves to the host and back, how fast, for whom, and what it destroys. Its own processes alone are at stake."""
import json
import os
import pathlib

from . import GIB, MIB, Finding, NotPossible, experiment, mib
from .actor import Actor, Ended, ration, run, settled
from .driver import CallFailed, Gpu, Nvml, piece

NOBODY = 65534


def has_checkpoints():
    return Gpu().has("cuCheckpointProcessCheckpoint")


def mover():
    manager = Actor()
    manager.ask("init")
    return manager


def status(pid):
    """The process's state and its memory, as /proc tells them."""
    told = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return told["State"].split()[0], int(told.get("VmRSS", "0 kB").split()[0]) * 1024


def host_memory():
    """What the host has to spare for what is moved there."""
    told = pathlib.Path("/proc/meminfo").read_text()
    return int(told.split("MemAvailable:")[1].split()[0]) * 1024 // MIB * MIB


def suspend(manager, pids):
    return steps(manager, pids, ("Lock", "Checkpoint"))


def resume(manager, pids):
    return steps(manager, pids, ("Restore", "Unlock"))


def steps(manager, pids, actions):
    """Error of the first step that failed, and the milliseconds of each."""
    took = {}
    for action in actions:
        for pid in pids:
            try:
                took[action] = took.get(action, 0) + manager.ask("move", action, pid)
            except CallFailed as failed:
                manager.error("state", pid)
                return failed.number, took
            except Ended as ended:
                print(action, ended)
                return f"{action}: {ended}", took
    return 0, took


def there_and_back(manager, actors):
    """Why not all memory came back as it was; None: it did."""
    pids = [actor.process.pid for actor in actors]
    error = suspend(manager, pids)[0] or resume(manager, pids)[0]
    if error:
        return f"error {error}"
    try:
        return None if all(actor.ask("marked") for actor in actors) else "its contents are lost"
    except CallFailed as failed:
        return f"error {failed.number} afterwards"
    except Ended as ended:
        return str(ended)


def holder(size, kind="allocate"):
    actor = Actor().open()
    actor.ask(kind, size)
    actor.ask("mark")
    return actor


@experiment(14, "a checkpoint of 1 and 8 GiB, as root and as the owner", "works; whether the owner may is open", 150, dangerous=True)
def checkpoint():
    if not has_checkpoints():
        return Finding("the driver has none of cuCheckpointProcess…", True, {"checkpoint_by_owner": False, "checkpoint_moves_shared": False,
                                                                              "checkpoint_moves_managed": False, "restore_can_be_repeated": False})
    nvml, root, most = Nvml(), os.geteuid() == 0, host_memory() // 4
    said, facts, good = [f"persistence mode {nvml.persistence()}"], {}, True
    for size in sorted({piece(min(GIB, most)), piece(min(8 * GIB, most), 4)}):
        with holder(size) as target, mover() as manager:
            before, (_, resident) = nvml.used(), status(target.process.pid)
            error, took = suspend(manager, [target.process.pid])
            state, moved = status(target.process.pid)
            away = before - settled(nvml.used)
            if error == 0:
                error, back = resume(manager, [target.process.pid])
                took.update(back)
            try:
                kept = error == 0 and target.ask("marked")
            except (CallFailed, Ended) as problem:
                kept = False
                print(problem)
            good = good and kept and away >= size
            said.append(f"{mib(size)}: " + (f"error {error}" if error else f"{took['Checkpoint']:.0f} ms away, {took['Restore']:.0f} ms back, /proc says {state}, {mib(moved - resident)} more on the host, {'contents kept' if kept else 'CONTENTS LOST'}"))
            if not root:
                facts["checkpoint_by_owner"] = bool(kept)
    if root:
        with holder(64 * MIB) as target, mover() as manager:
            target.ask("become", NOBODY), manager.ask("become", NOBODY)
            outcome = there_and_back(manager, [target])
            facts["checkpoint_by_owner"] = outcome is None
            said.append(f"as the owner: {outcome or 'works'}")
    done = run(*ration("doctor", "--only", "suspend.tried", "--try-suspend", "-o", "json"))
    print(done.stdout)
    try:
        said.append("ration doctor: " + json.loads(done.stdout)["data"][0]["message"])
    except (ValueError, KeyError):
        said.append(f"ration doctor: exit code {done.returncode}")
    return Finding("; ".join(said), good, facts)


@experiment(15, "a checkpoint with managed and with shared memory, and a restore while the card is full", "managed is lost, shared too before R610; a restore without room is the last", 150, dangerous=True)
def checkpoint_of_what_is_not_moved():
    if not has_checkpoints():
        raise NotPossible("the driver has none of cuCheckpointProcess…")
    nvml, size = Nvml(), piece(GIB)
    others = set(nvml.processes())
    with holder(64 * MIB) as target, mover() as manager:
        plain = there_and_back(manager, [target])
    if plain is not None:  # what follows would prove nothing
        raise NotPossible(f"plain memory is not moved here: {plain}")
    with holder(size, "managed") as target, mover() as manager:
        managed = there_and_back(manager, [target])
    with holder(64 * MIB) as target, Actor() as peer, mover() as manager:
        peer.open().ask("open_published", target.ask("publish"))
        shared = there_and_back(manager, [target, peer])
    said = [f"managed: {managed or 'moved'}", f"shared: {shared or 'moved'}"]
    facts = {"checkpoint_moves_managed": managed is None, "checkpoint_moves_shared": shared is None}
    if others:
        said.append("restore on a full card: n/a (other programs are on it)")
        return Finding("; ".join(said), managed is not None, facts)
    with holder(size) as target, mover() as manager, Actor() as filler:
        pid = target.process.pid
        error = suspend(manager, [pid])[0]
        if error == 0:
            taken = filler.open().ask("allocate_as_much_as_possible", GIB)
            without_room = resume(manager, [pid])[0]
            filler.ask("free_all")
            settled(nvml.used)
            again = resume(manager, [pid])[0] if without_room else 0
            try:
                again = again or (0 if target.ask("marked") else -1)
            except (CallFailed, Ended):
                again = -1
            said.append(f"restore beside {mib(taken)} of another: {f'error {without_room}' if without_room else 'works'}; with room again: {f'error {again}' if again else 'works'}")
            if without_room:
                facts["restore_can_be_repeated"] = again == 0
        else:
            said.append(f"restore on a full card: n/a (the checkpoint answered {error})")
    return Finding("; ".join(said), managed is not None and not facts.get("restore_can_be_repeated", False), facts)
