"""Reads a packed recording as docs/recording.md describes it, with nothing of ration: what that page says is enough."""
import json
import pathlib
import struct
import zlib

KINDS = ["", "allocate", "free", "context_made", "context_ended", "virtual_create", "virtual_release", "virtual_map", "virtual_unmap", "pool_grew", "pool_trimmed", "graph",
         "exported", "imported", "code", "denied", "waited", "refused", "limit_changed", "asked", "mark", "range_began", "range_ended", "process_began", "process_ended", "held_before"]


class Numbers:
    """Variable-length numbers, seven bits a byte, the lowest first."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self):
        value = self.take()
        return value >> 1 ^ -(value & 1)


def sections(data):
    """Yields (offset, tag, content) of each whole section."""
    at = 8
    while at + 16 <= len(data):
        tag, stored, plain, crc = struct.unpack_from("<4sIII", data, at)
        if tag not in (b"HEAD", b"LIVE", b"SUMM", b"EVNT", b"OVER", b"INDX"):
            return
        content = data[at + 16:at + 16 + stored]
        if len(content) < stored or zlib.crc32(content) != crc:
            return
        whole = zlib.decompress(content)
        assert len(whole) == plain
        yield at, tag.decode(), whole
        at += 16 + stored


def events_of(content, from_ns):
    head = Numbers(content)
    count, names = head.take(), head.take()
    sizes = [head.take() for _ in range(7)]
    columns, at = [], head.at
    for size in sizes:
        columns.append(Numbers(content[at:at + size]))
        at += size
    named, who, time, address, size, charged, detail = columns
    table = [dict(zip(("kind", "account", "process", "thread", "site", "device", "stream"), [named.take() for _ in range(7)])) for _ in range(names)]
    places, last, now = [], 0, from_ns // 1000
    for _ in range(count):
        event = dict(table[who.take()])
        now += time.take()
        place = address.take()
        if place == 0:
            last = last + address.signed() & (1 << 64) - 1
            places.append([last, 0, 0])
            place = len(places)
        known = places[place - 1]
        known[1] = known[1] + size.signed() & (1 << 64) - 1
        charge = known[2] + charged.signed()
        known[2] = -charge
        yield dict(event, kind=KINDS[event["kind"]], time=now * 1000, address=known[0], bytes=known[1], charged=charge, detail=detail.take())


class Recording:
    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        assert data[:8] == b"rationR1", data[:8]
        self.events, summary = [], None
        for _, tag, content in sections(data):
            if tag == "HEAD":
                self.header = json.loads(content)
            if tag == "SUMM":
                summary = json.loads(content)
            if tag == "EVNT":
                self.events += events_of(content, summary["from_ns"])
            if tag == "OVER":
                self.overview = json.loads(content)
            if tag == "INDX":
                self.index = json.loads(content)
        self.trailer = struct.unpack("<Q8s", data[-16:])
