// Numbers as the command line writes them (src/base/units.cpp), so that a size looks the same in both places.

const iecNames = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** Three significant digits and a unit: `3.61 GiB`, `10.0 GiB`, `512 MiB`. */
export function formatSize(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit + 1 < iecNames.length) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${iecNames[unit]}`;
}

/** The exact number for titles: `12 884 901 888 bytes`. */
export function formatExact(bytes: number): string {
  return `${String(bytes).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f")} bytes`;
}

/** What `ration set --limit` takes for exactly these bytes: the largest unit that divides them. */
export function typedSize(bytes: number): string {
  const gib = 2 ** 30, mib = 2 ** 20;
  if (bytes % gib === 0) return `${bytes / gib}GiB`;
  if (bytes % mib === 0) return `${bytes / mib}MiB`;
  return `${bytes}B`;
}

/** `6s`, `12m 41s`, `2h 13m`, `6d 02h`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number: number) => String(number).padStart(2, "0");
  if (whole >= 86400) return `${Math.floor(whole / 86400)}d ${two(Math.floor(whole / 3600) % 24)}h`;
  if (whole >= 3600) return `${Math.floor(whole / 3600)}h ${two(Math.floor(whole / 60) % 60)}m`;
  return whole >= 60 ? `${Math.floor(whole / 60)}m ${two(whole % 60)}s` : `${whole}s`;
}

const two = (number: number) => String(number).padStart(2, "0");

/** The clock of whoever looks: `12:03:58`. */
export function formatClock(time: string): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function formatDay(time: string): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

export function formatCount(value: number, digits = 0): string {
  return value.toFixed(digits).replace(/\B(?<!\.\d*)(?=(\d{3})+(?!\d))/g, "\u202f");
}

export function formatPercent(share: number): string {
  return `${Math.round(share * 100)}%`;
}

/** Byte-seconds do not fit a JSON number: they come as decimal strings and are made GiB·h without losing the head. */
export function gibHours(byteSeconds: string): number {
  const perHundredth = (BigInt(2 ** 30) * 3600n) / 100n;
  return Number(BigInt(byteSeconds.split(".")[0] ?? "0") / perHundredth) / 100;  // what is less than a byte-second is nothing
}

export type ParsedSize = { bytes: number } | { problem: "empty" | "unit" | "unreadable" | "ambiguous" };

const factors: Record<string, number> = {
  b: 1, byte: 1, bytes: 1, k: 1024, kib: 1024, ki: 1024, kb: 1e3, m: 2 ** 20, mib: 2 ** 20, mi: 2 ** 20, mb: 1e6,
  g: 2 ** 30, gib: 2 ** 30, gi: 2 ** 30, gb: 1e9, t: 2 ** 40, tib: 2 ** 40, ti: 2 ** 40, tb: 1e12,
};

/** Sizes as typed: `4GiB 512MiB 50% max max-1GiB`. A bare number is rejected, as everywhere in ration. */
export function parseSize(text: string, deviceTotal: number): ParsedSize {
  const typed = text.trim().toLowerCase();
  if (typed === "") return { problem: "empty" };
  if (typed === "max") return { bytes: deviceTotal };
  if (typed.startsWith("max-")) {
    const less = parseSize(typed.slice(4), deviceTotal);
    if ("problem" in less) return less;
    return less.bytes < deviceTotal ? { bytes: deviceTotal - less.bytes } : { problem: "unreadable" };
  }
  const match = /^(\d+(?:\.\d+)?|\.\d+)\s*([a-z%]*)$/.exec(typed);
  if (!match) return { problem: "unreadable" };
  const number = Number(match[1]);
  const unit = match[2] ?? "";
  if (unit === "") return { problem: number > 0 && number <= 1 && typed.includes(".") ? "ambiguous" : "unit" };
  if (unit === "%") return number <= 100 ? { bytes: Math.floor((number / 100) * deviceTotal) } : { problem: "unreadable" };
  const factor = factors[unit];
  return factor === undefined ? { problem: "unreadable" } : { bytes: Math.floor(number * factor) };
}

/** `500ms`, `30s`, `5m`, `2h`, `3d` in seconds; null where it is not a duration. */
export function parseDuration(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim().toLowerCase());
  if (!match) return null;
  const scale: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400 };
  return Number(match[1]) * (scale[match[2] ?? ""] ?? 0);
}

const commonStart = (left: string, right: string): number => {
  let length = 0;
  while (length < left.length && left[length] === right[length]) length += 1;
  return length;
};

/**
 * A command of at most `most` characters, without the folder of its program, cut in the middle: how it begins, and how it
 * ends or, where another one of `others` is the same up to what is left out, the part in which they differ.
 */
export function shortCommand(whole: string, others: string[], most: number): string {
  const withoutFolder = (text: string) => text.replace(/^\S*\/(?=\S)/, "");
  const command = withoutFolder(whole);
  if (command.length <= most) return command;
  const head = Math.floor(most / 3), tail = most - head - 1;
  const same = Math.max(0, ...others.map(withoutFolder).filter((other) => other !== command).map((other) => commonStart(command, other)));
  if (same < head || same >= command.length - tail) return `${command.slice(0, head)}…${command.slice(-tail)}`;
  const word = Math.max(command.lastIndexOf(" ", same) + 1, same - Math.floor(tail / 2));
  return `${command.slice(0, head)}…${command.slice(word, word + tail - 1)}…`;
}
