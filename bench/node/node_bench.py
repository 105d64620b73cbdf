#!/usr/bin/env python3
"""What the node daemon costs and how quick it is: python3 bench/node/node_bench.py BUILD/bin [--quick]

Books of one running program are copied under other names, so that the daemon reads, checks and shows as many workloads and processes
as asked for, and compares them with the (simulated) driver at every look. Prints one table: figure, measured, bound."""
import atexit
import calendar
import http.client
import json
import os
import pathlib
import pty
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

BIN = pathlib.Path(sys.argv[1]).resolve()
QUICK = "--quick" in sys.argv
NODE = "--sim=A100-80*8"
TICK = os.sysconf("SC_CLK_TCK")
# Offsets of a book (src/book/layout.hpp).
RUN, NAME, SLOT_BOUND, SLOTS, SLOT_SIZE, HELD = 24, 96, 824, 36864, 832, 128
PID, START_TIME = 4, 16  # of a slot


class Daemon:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "ration.toml").write_text("")
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_"))}
        self.environment = dict(own, RATION_SIM_DIR=folder, RATION_RUNTIME_DIR=folder, RATION_CONFIG=str(self.folder / "ration.toml"), HOME=folder)
        self.process = subprocess.Popen([BIN / "rationd", NODE, "--state", self.folder / "state", "--listen", ""], env=self.environment,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def connect(self):
        end = socket.socket(socket.AF_UNIX)
        end.connect(str(self.folder / "ration.sock"))
        return end

    def answer(self, path):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = self.connect()
        connection.request("GET", path)
        body = connection.getresponse().read()
        connection.close()
        return body

    def get(self, path):
        return json.loads(self.answer(path))["data"]

    def cpu_seconds(self):
        fields = (pathlib.Path("/proc") / str(self.process.pid) / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def resident_mib(self):
        status = (pathlib.Path("/proc") / str(self.process.pid) / "status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def share_of_a_core(self, seconds):
        before, begun = self.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        return 100 * (self.cpu_seconds() - before) / (time.monotonic() - begun)

    def ration(self, *arguments, **options):
        return subprocess.Popen([BIN / "ration", *arguments], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def sleepers(count):
    """So many real processes that do nothing: number and start time of each."""
    numbers = [os.posix_spawn("/bin/sleep", ["sleep", "600"], {}) for _ in range(count)]
    atexit.register(lambda: [os.kill(number, signal.SIGKILL) for number in numbers])
    return [(number, int(pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(") ", 1)[1].split()[19])) for number in numbers]


def copy_books(daemon, count, processes, first):
    """`count` books of `processes` processes each, made of the one that is there; each process is one of its own."""
    identities = iter(sleepers(count * processes))
    (template,) = (daemon.folder / "books").glob("pattern.*.book")
    content = bytearray(template.read_bytes()[:SLOTS + SLOT_SIZE * processes])
    slot = bytes(content[SLOTS:SLOTS + SLOT_SIZE])
    for index in range(1, processes):
        content[SLOTS + index * SLOT_SIZE:SLOTS + (index + 1) * SLOT_SIZE] = slot
    struct.pack_into("<I", content, SLOT_BOUND, processes)
    size = template.stat().st_size
    for number in range(first, first + count):
        struct.pack_into("<Q", content, RUN, number)
        for index in range(processes):
            pid, start_time = next(identities)
            struct.pack_into("<i", content, SLOTS + index * SLOT_SIZE + PID, pid)
            struct.pack_into("<Q", content, SLOTS + index * SLOT_SIZE + START_TIME, start_time)
        content[NAME:NAME + 64] = f"w{number}".encode().ljust(64, b"\0")
        fresh = daemon.folder / f"w{number}.new"
        with open(fresh, "wb") as file:
            file.write(content)
            file.truncate(size)
        fresh.rename(daemon.folder / "books" / f"w{number}.{number}.book")


def make_busy(daemon, stop):
    """Every book changes ten times a second."""
    files = [open(path, "r+b", buffering=0) for path in (daemon.folder / "books").glob("w*.book")]
    turn = 0
    while not stop.is_set():
        turn += 1
        for file in files:
            file.seek(SLOTS + HELD)
            file.write(struct.pack("<Q", (turn % 64 + 1) << 21))
        stop.wait(0.1)


def median_ms(work, rounds):
    times = []
    for _ in range(rounds):
        begun = time.monotonic()
        work()
        times.append(1000 * (time.monotonic() - begun))
    return statistics.median(times)


def first_top_frame(daemon):
    """Until the table stands on a terminal."""
    master, slave = pty.openpty()
    top = subprocess.Popen([BIN / "ration", "top", NODE], env=dict(daemon.environment, TERM="xterm", LC_ALL="C.UTF-8"), stdin=slave, stdout=slave,
                           stderr=slave)
    shown = b""
    while b"TENANT/NAME" not in shown:
        shown += os.read(master, 1 << 16)
    top.kill()
    top.wait()
    os.close(master)
    os.close(slave)


def denial_latencies(daemon, rounds):
    """From the denial itself to the line of `ration events -f`."""
    follower = daemon.ration("events", "-f", "-n", "0", "--type", "denied", "-o", "json")
    while not daemon.get("/api/v1/health")["stream_clients"]:
        time.sleep(0.05)
    seconds = []
    for _ in range(rounds):
        daemon.ration("run", NODE, "--limit", "1GiB", "--", BIN / "ration-workload", "hold", "2GiB").wait()
        event = json.loads(follower.stdout.readline())
        stamp = time.time()
        moment = time.strptime(event["time"][:19], "%Y-%m-%dT%H:%M:%S")
        seconds.append(stamp - (calendar.timegm(moment) + int(event["time"][20:23]) / 1000))
    follower.kill()
    follower.communicate()
    return max(seconds)


def stream_clients(daemon, count, stalled, seconds):
    """Looks a second with many clients, a part of which read nothing."""
    clients = []
    for _ in range(count):
        end = daemon.connect()
        end.sendall(b"GET /api/v1/stream?topics=snapshot,events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        clients.append(end)
    reading = clients[stalled:]
    stop = threading.Event()

    def read_all():
        for end in reading:
            end.setblocking(False)
        while not stop.is_set():
            for end in reading:
                try:
                    end.recv(1 << 20)
                except BlockingIOError:
                    pass
            time.sleep(0.05)

    reader = threading.Thread(target=read_all)
    reader.start()
    before, begun = daemon.get("/api/v1/health")["looks"], time.monotonic()
    time.sleep(seconds)
    # The question itself may look once.
    rate = (daemon.get("/api/v1/health")["looks"] - before) / (time.monotonic() - begun)
    memory = daemon.resident_mib()
    stop.set()
    reader.join()
    for end in clients:
        end.close()
    return rate, memory


def main():
    rows = []
    span = 3 if QUICK else 15
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(folder)
        pattern = daemon.ration("run", NODE, "--gpu", "0", "--name", "pattern", "--limit", "2GiB", "--", BIN / "ration-workload", "hold", "64MiB")
        pattern.stdout.readline()
        rows.append(("denial to `events -f`, worst of 10", f"{1000 * denial_latencies(daemon, 10):.0f} ms", "1000 ms"))
        copy_books(daemon, 99, 5, 1000)
        while len(daemon.get("/api/v1/workloads")) < 100:
            pass
        time.sleep(2)
        rows.append(("100 workloads idle: share of a core", f"{daemon.share_of_a_core(span):.2f} %", "0.5 %"))
        rows.append(("100 workloads idle: memory", f"{daemon.resident_mib():.0f} MiB", "40 MiB"))
        alone, _ = stream_clients(daemon, 1, 0, span)
        rate, memory = stream_clients(daemon, 200, 20, span)
        rows.append(("200 stream clients, 20 stalled: looks a second", f"{rate:.2f}", f"{alone:.2f} with one"))
        rows.append(("200 stream clients, 20 stalled: memory", f"{memory:.0f} MiB", ""))
        copy_books(daemon, 900, 5, 2000)
        while len(daemon.get("/api/v1/workloads")) < 1000:
            pass
        rows.append(("GET /snapshot, 1,000 workloads, 5,000 processes", f"{median_ms(lambda: daemon.answer('/api/v1/snapshot'), 21):.0f} ms", "50 ms"))
        rows.append(("ration ps, the same", f"{median_ms(lambda: daemon.ration('ps', NODE).communicate(), 11):.0f} ms", "50 ms"))
        rows.append(("first `top` frame, the same", f"{median_ms(lambda: first_top_frame(daemon), 11):.0f} ms", "200 ms"))
        stop = threading.Event()
        busy = threading.Thread(target=make_busy, args=(daemon, stop))
        busy.start()
        time.sleep(1)
        rows.append(("1,000 workloads busy: share of a core", f"{daemon.share_of_a_core(span):.1f} %", "10 %"))
        rows.append(("1,000 workloads busy: memory", f"{daemon.resident_mib():.0f} MiB", "150 MiB"))
        stop.set()
        busy.join()
        pattern.terminate()
        pattern.communicate()
        daemon.stop()
    wide = max(len(row[0]) for row in rows)
    print(f"{'node daemon':{wide}}  {'measured':>10}  {'bound':>13}")
    for name, measured, bound in rows:
        print(f"{name:{wide}}  {measured:>10}  {bound:>13}")


if __name__ == "__main__":
    main()
