// A series of the daemon made ready for drawing.

import type { Series } from "../api/types";

export interface Drawn {
  /** Seconds since 1970, one for each step. */
  times: number[];
  names: string[];
  /** As recorded. */
  values: (number | null)[][];
  /** For a stack: each line on top of those before it. null where nothing at all was recorded. */
  stacked: (number | null)[][];
  limits: { name: string; values: (number | null)[] }[];
  /** Sum of the limits; null where one is not known. */
  limitSum: (number | null)[];
  top: number;
  /** Index of the newest time of which anything is known. */
  lastKnown: number;
}

export function prepare(series: Series, which: "maximum" | "average"): Drawn {
  const lines = series.lines;
  const count = Math.max(0, ...lines.map((line) => line[which].length));
  const from = Date.parse(series.from) / 1000;
  const times = Array.from({ length: count }, (_, index) => from + index * series.step_seconds);
  const values = lines.map((line) => times.map((_, index) => line[which][index] ?? null));
  const known = times.map((_, index) => values.some((line) => line[index] != null));
  const below = times.map(() => 0);
  const stacked = values.map((line) =>
    line.map((value, index) => {
      below[index] = (below[index] ?? 0) + (value ?? 0);
      return known[index] ? below[index] ?? null : null;
    }),
  );
  const limitSum = times.map((_, index) => {
    if (series.limits.length === 0) return null;
    let sum = 0;
    for (const limit of series.limits) {
      const value = limit.values[index];
      if (value == null) return null;
      sum += value;
    }
    return sum;
  });
  const highest = Math.max(0, ...below, ...values.flat().map((value) => value ?? 0));
  return { times, names: lines.map((line) => line.name), values, stacked, limits: series.limits, limitSum, top: Math.max(highest, series.capacity_bytes ?? 0), lastKnown: Math.max(0, known.lastIndexOf(true)) };
}

/** Newest first, at most `rows` of them, each the largest of what it stands for: peaks stay visible in the table too. */
export function asRows(drawn: Drawn, rows: number): { time: number; values: (number | null)[] }[] {
  const every = Math.max(1, Math.ceil(drawn.times.length / rows));
  const found: { time: number; values: (number | null)[] }[] = [];
  for (let start = 0; start < drawn.times.length; start += every) {
    const values = drawn.values.map((line) => {
      const part = line.slice(start, start + every).filter((value): value is number => value !== null);
      return part.length > 0 ? Math.max(...part) : null;
    });
    found.push({ time: drawn.times[start] ?? 0, values });
  }
  return found.reverse();
}

/** Without the time before anything was recorded. Gaps count as recorded: that nobody watched is known. */
export function fromFirstRecord(series: Series): Series {
  const arrays = series.lines.flatMap((line) => [line.maximum, line.average]);
  const count = Math.max(0, ...arrays.map((values) => values.length));
  const from = Date.parse(series.from), step = series.step_seconds * 1000;
  const gap = Math.min(...series.gaps.map((one) => (Date.parse(one.from) - from) / step), count);
  const value = Math.min(...arrays.map((values) => values.findIndex((one) => one !== null)).filter((index) => index >= 0), count);
  const first = Math.max(0, Math.floor(Math.min(gap, value)));
  if (first === 0 || first >= count) return series;
  return {
    ...series, from: new Date(from + first * step).toISOString(),
    lines: series.lines.map((line) => ({ ...line, maximum: line.maximum.slice(first), average: line.average.slice(first) })),
    limits: series.limits.map((limit) => ({ ...limit, values: limit.values.slice(first) })),
  };
}

export interface Level {
  label: string;
  bytes: number;
  /** RFC 3339; none: always. */
  since: string | undefined;
}

/** The level at each of the times (seconds since 1970); null before it held. */
export const levelAt = (level: Level, times: number[]): (number | null)[] => {
  const since = level.since === undefined ? -Infinity : Date.parse(level.since) / 1000;
  return times.map((time) => (time < since ? null : level.bytes));
};
