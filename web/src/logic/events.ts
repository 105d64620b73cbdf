// What of the events is shown unasked.

import type { NodeEvent } from "../api/types";

/** A limit that the daemon moved by itself, as it does all day: nobody has to know. */
export const isRoutine = (event: NodeEvent): boolean => event.type === "rebalanced" && event.old !== null;

/** Events in a row that say the same: the newest of them, how often it happened and since when. */
export interface Repeated {
  event: NodeEvent;
  ids: number[];
  times: number;
  since: string;
}

const same = (one: NodeEvent, other: NodeEvent): boolean =>
  one.type === other.type && one.workload === other.workload && one.gpu === other.gpu && one.text === other.text;

/** Joins denials in a row that say the same, as a program makes them that asks again and again. `events` begin with the newest. */
export function repeated(events: NodeEvent[]): Repeated[] {
  const rows: Repeated[] = [];
  for (const event of events) {
    const last = rows[rows.length - 1];
    if (last && event.type === "denied" && same(last.event, event)) {
      last.ids.push(event.id);
      last.times += Math.max(1, event.count);
      last.since = event.first_time ?? event.time;
    } else {
      rows.push({ event, ids: [event.id], times: Math.max(1, event.count), since: event.first_time ?? event.time });
    }
  }
  return rows;
}
