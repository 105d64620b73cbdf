"""Memory that two processes hold: who has it by NVML's word, and by the book."""
import array
import os
import socket

from . import GIB, Finding, experiment, mib
from .actor import Actor, settled
from .driver import OUT_OF_MEMORY, CallFailed, Nvml, piece


def send_descriptor(gpu, end):
    """Exports one of what was created, and sends it over that socket."""
    descriptor = gpu.export_descriptor()
    with socket.socket(fileno=os.dup(end)) as connection:
        connection.sendmsg([b"d"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])
    os.close(descriptor)


def receive_descriptor(gpu, end):
    with socket.socket(fileno=os.dup(end)) as connection:
        _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_LEN(4))
    (descriptor,) = array.array("i", ancillary[0][2])
    gpu.import_descriptor(descriptor)
    os.close(descriptor)


def lend_and_take_again(gpu):
    """Exports most of what is left to a child, frees it, and takes as much again while the child has it: the driver's error of that."""
    gpu.open()
    with Actor() as child:
        child.open()
        size = gpu.info()[0] * 6 // 10
        gpu.allocate(size)
        child.ask("open_published", gpu.publish())
        gpu.free()
        try:
            gpu.allocate(size)
            return 0
        except CallFailed as failed:
            return failed.number


class Scale:
    """What NVML says of an exporter, of an importer and of the device, since it was made."""

    def __init__(self, nvml, exporter, importer):
        self.nvml, self.pids, self.steps = nvml, [exporter.process.pid, importer.process.pid], []
        self.zero = self.read()

    def read(self):
        return [*[self.nvml.of(pid) for pid in self.pids], self.nvml.used()]

    def step(self, name):
        now = settled(self.read)
        change = [None if each is None or start is None else each - start for each, start in zip(now, self.zero)]
        print(name, change)
        self.steps.append(change)
        return change


def told(change):
    exporter, importer, device = map(mib, change)
    return f"{exporter} + {importer} of {device}"


@experiment(5, "memory of an exporter that frees it while an importer has it", "NVML: leaves the exporter at once, and is the importer's; the book: charged until nobody has it", 60)
def freed_by_the_exporter():
    nvml, size, said, drops = Nvml(), piece(), [], []
    with Actor() as exporter, Actor() as importer:
        exporter.open(), importer.open()
        scale = Scale(nvml, exporter, importer)
        exporter.ask("allocate", size)
        importer.ask("open_published", exporter.ask("publish"))
        shared = scale.step("IPC: both")
        exporter.ask("free")
        freed = scale.step("IPC: freed by the exporter")
        importer.ask("close_published")
        closed = scale.step("IPC: closed by the importer")
        said.append(f"IPC: {told(shared)} shared, {told(freed)} freed by the exporter, {told(closed)} closed")
        drops.append(freed)
    ends = socket.socketpair()
    with Actor(descriptors=[ends[0].fileno()]) as exporter, Actor(descriptors=[ends[1].fileno()]) as importer:
        exporter.open(), importer.open()
        scale = Scale(nvml, exporter, importer)
        exporter.ask("create", size)
        exporter.tell("sharing.send_descriptor", ends[0].fileno())
        importer.ask("sharing.receive_descriptor", ends[1].fileno())
        exporter.answer()
        shared = scale.step("descriptor: both")
        exporter.ask("release")
        freed = scale.step("descriptor: released by the exporter")
        importer.ask("release")
        closed = scale.step("descriptor: released by both")
        said.append(f"descriptor: {told(shared)} shared, {told(freed)} released by the exporter, {told(closed)} by both")
        drops.append(freed)
    with Actor(limit=2 * (size + GIB)) as lender:
        error = lender.ask("sharing.lend_and_take_again")
        said.append("under a limit, as much again: " + ("denied" if error == OUT_OF_MEMORY else f"error {error}" if error else "granted"))
    as_expected = error == OUT_OF_MEMORY and all(change[0] is not None and change[0] <= size // 8 and change[2] >= size // 2 for change in drops)
    return Finding("; ".join(said), as_expected, broken="the limit was exceeded with memory that another process kept" if error == 0 else "")
