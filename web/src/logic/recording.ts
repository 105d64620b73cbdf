// Recordings made ready for drawing: ranges of time, the tree of a flame graph, the map by address.

import type { MomentPlace, RecordingDocument, RecordingMoment, RecordingWindow } from "../api/recording";
import { formatDuration } from "./format";

/** A time of a recording, in the unit and with the digits that a range of this length needs: `6.36 ms`, `12.50 s`, `1h 05m`. */
export function formatMoment(seconds: number, rangeSeconds = seconds): string {
  if (rangeSeconds >= 600 && seconds >= 60) return formatDuration(seconds);
  const [unit, scale] = rangeSeconds >= 1 ? ["s", 1] : rangeSeconds >= 1e-3 ? ["ms", 1e3] : ["µs", 1e6];
  const digits = Math.min(3, Math.max(0, 3 - Math.ceil(Math.log10(Math.max(1e-6, rangeSeconds * scale)))));
  return `${(seconds * scale).toFixed(unit === "µs" ? 0 : digits)} ${unit}`;
}

export const placeKey = (gpu: number | null): string => (gpu === null ? "host" : String(gpu));

// ------------------------------------------------------------------------------------------------------------ windows

/** The columns of a window that lie in a range, at most `most` of them; each has the maximum of those that it stands for. */
export function cutWindow(window: RecordingWindow, from: number, to: number, most: number): RecordingWindow {
  const { from_seconds: begin, step_seconds: step } = window;
  const columns = Math.max(0, ...window.lines.map((line) => line.most_bytes.length));
  const first = Math.min(Math.max(0, columns - 1), Math.max(0, Math.floor((from - begin) / step + 1e-9)));
  const behind = Math.max(first + 1, Math.min(columns, Math.ceil((to - begin) / step - 1e-9)));
  const every = Math.max(1, Math.ceil((behind - first) / most));
  const lines = window.lines.map(({ gpu, most_bytes }) => {
    const shown: number[] = [];
    for (let at = first; at < behind; at += every) shown.push(Math.max(...most_bytes.slice(at, Math.min(behind, at + every))));
    return { gpu, most_bytes: shown };
  });
  const whole = window.events !== null && window.events === window.listed.length;
  const listed = whole ? window.listed.filter((event) => event.seconds >= from && event.seconds <= to) : [];
  return { from_seconds: begin + first * step, to_seconds: to, step_seconds: step * every, lines, events: whole ? listed.length : null, listed };
}

// -------------------------------------------------------------------------------------------------------- flame graph

export interface Flame {
  name: string;
  bytes: number;
  /** Blocks that are in it. */
  count: number;
  children: Flame[];
}

export const processName = (processes: RecordingDocument["inspection"]["processes"], number: number): string => {
  const known = processes[number];
  if (!known) return "?";
  const program = (known.command.split(" ")[0] ?? "").replace(/^.*\//, "") || "?";
  return known.pid === 0 ? program : `${program} (pid ${known.pid})`;
};

/** The calls of a site from the outermost in. */
export const callsOf = (site: string | undefined): string[] => (site ? site.split("\n").filter((call) => call.trim() !== "").reverse() : []);

/** Uses whose bytes are of no block. */
export const fixedUses: ReadonlySet<string> = new Set(["contexts", "code", "held before"]);

const child = (of: Flame, name: string): Flame => {
  let found = of.children.find((one) => one.name === name);
  if (!found) of.children.push((found = { name, bytes: 0, count: 0, children: [] }));
  return found;
};

export interface FlameTexts {
  whole: string;
  requested: string;
  rest: string;
  smaller: string;
  beyond: (bytes: number) => string;
  use: (use: string) => string;
  size: (bytes: number) => string;
}

/**
 * What a place held, as a tree: its bytes are those that were held. Of each process there are the bytes that it requested, by
 * call, its contexts and code, and the rest: rounding, and what pools keep unused. What a process requested beyond its own charge (memory
 * that it exported is charged to all its holders) is taken from the rest of the others. What then still exceeds what was held (managed memory that lay on the
 * host) adds to the whole, which says so.
 */
export function flameOf(place: MomentPlace, moment: RecordingMoment, processes: RecordingDocument["inspection"]["processes"], texts: FlameTexts): Flame {
  const root: Flame = { name: texts.whole, bytes: place.bytes, count: 0, children: [] };
  const rest = new Map<number, number>();
  const add = (process: number, path: string[], bytes: number, count: number) => {
    let node = child(root, processName(processes, process));
    node.bytes += bytes;
    node.count += count;
    for (const name of path) {
      node = child(node, name);
      node.bytes += bytes;
      node.count += count;
    }
  };
  for (const part of place.parts) {
    if (fixedUses.has(part.use)) add(part.process, [texts.use(part.use)], part.bytes, 0);
    else rest.set(part.process, (rest.get(part.process) ?? 0) + part.bytes);
  }
  const requested = (process: number, bytes: number) => rest.set(process, (rest.get(process) ?? 0) - bytes);
  for (const group of place.groups) {
    const bytes = group.bytes * group.count, calls = callsOf(moment.sites[String(group.site)]);
    add(group.process, [texts.requested, ...(calls.length > 0 ? calls : [`${group.count} × ${texts.size(group.bytes)}`])], bytes, group.count);
    requested(group.process, bytes);
  }
  if (place.ungrouped_bytes > 0) child(root, texts.smaller).bytes += place.ungrouped_bytes;
  let missing = place.ungrouped_bytes - [...rest.values()].filter((bytes) => bytes < 0).reduce((sum, bytes) => sum + bytes, 0);
  for (const [process, bytes] of [...rest].sort((left, right) => right[1] - left[1])) {
    if (bytes <= 0) continue;
    const taken = Math.min(bytes, missing);
    missing -= taken;
    if (bytes > taken) add(process, [texts.rest], bytes - taken, 0);
  }
  if (missing > 0) {
    root.name = texts.beyond(missing);
    root.bytes += missing;
  }
  const sort = (node: Flame): void => {
    node.children.sort((left, right) => right.bytes - left.bytes);
    node.children.forEach(sort);
  };
  sort(root);
  root.count = root.children.reduce((sum, one) => sum + one.count, 0);
  return root;
}

export interface FlameBox {
  node: Flame;
  /** Names from the root to this node. */
  path: string[];
  depth: number;
  /** Shares of the width. */
  left: number;
  width: number;
}

/** Boxes that are at least `least` of the width. The whole of the root is what it says or what its children say, whichever is more. */
export function flameBoxes(root: Flame, path: string[], least: number): FlameBox[] {
  const boxes: FlameBox[] = [];
  let shown = root;
  path.forEach((name, depth) => {
    boxes.push({ node: shown, path: path.slice(0, depth), depth, left: 0, width: 1 });
    shown = shown.children.find((one) => one.name === name) ?? shown;
  });
  const place = (node: Flame, at: string[], depth: number, left: number, width: number): void => {
    if (width < least) return;
    boxes.push({ node, path: at, depth, left, width });
    const sum = Math.max(node.bytes, node.children.reduce((total, one) => total + one.bytes, 0));
    let from = left;
    for (const one of node.children) {
      const share = sum > 0 ? (one.bytes / sum) * width : 0;
      place(one, [...at, one.name], depth + 1, from, share);
      from += share;
    }
  };
  place(shown, path, path.length, 0, 1);
  return boxes;
}

// ----------------------------------------------------------------------------------------------------------------- map

export interface Piece {
  kind: "blocks" | "hole" | "cut";
  /** Position among the runs; of a hole or a cut that of the run after it. */
  run: number;
  /** Where it lies in what is drawn, in bytes. */
  from: number;
  bytes: number;
}

/**
 * The runs of one process side by side, in order of their addresses. An empty range of at most `longest` bytes is a hole and keeps its length; a
 * longer one is cut out. Addresses need 64 bits.
 */
export function piecesOf(map: MomentPlace["map"], process: number, longest: number): { pieces: Piece[]; bytes: number } {
  const pieces: Piece[] = [];
  let at = 0, end: bigint | null = null;
  map.runs.process.forEach((owner, run) => {
    if (owner !== process) return;
    const address = BigInt(map.runs.address[run] ?? "0x0"), span = map.runs.span_bytes[run] ?? 0;
    const stop = address + BigInt(Math.round(span));
    if (end !== null && address > end) {
      const gap = Number(address - end), isHole = gap <= longest;
      pieces.push({ kind: isHole ? "hole" : "cut", run, from: at, bytes: isHole ? gap : 0 });
      if (isHole) at += gap;
    }
    // Of a block within another one only what lies beyond that takes room.
    const back = end === null || address >= end ? 0 : Number(end - address);
    pieces.push({ kind: "blocks", run, from: at - back, bytes: span });
    at += Math.max(0, span - back);
    if (end === null || stop > end) end = stop;
  });
  return { pieces, bytes: at };
}

export interface Looks {
  /** Blocks are told apart by their call sites; where all have one, by their sizes: up to this power of two. */
  by: "site" | "size";
  keyOf: (run: number) => number;
  looks: Map<number, number>;
}

/** What has the most bytes of a map gets a look of its own, all the rest shares the last. */
export function looksOf({ runs }: MomentPlace["map"], count: number): Looks {
  const by = new Set(runs.site).size > 1 ? "site" : "size";
  const keyOf = (run: number): number => (by === "site" ? runs.site[run] ?? 0 : 2 ** Math.ceil(Math.log2(Math.max(1, (runs.bytes[run] ?? 0) / (runs.count[run] ?? 1)))));
  const bytes = new Map<number, number>();
  runs.bytes.forEach((size, run) => bytes.set(keyOf(run), (bytes.get(keyOf(run)) ?? 0) + size));
  const order = [...bytes].sort((left, right) => right[1] - left[1] || left[0] - right[0]);
  return { by, keyOf, looks: new Map(order.map(([key], index) => [key, Math.min(index, count - 1)])) };
}
