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
  return { times, names: lines.map((line) => line.name), values, stacked, limits: series.limits, limitSum, top: Math.max(highest, series.capacity_bytes ?? 0) };
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
