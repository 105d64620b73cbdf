// Where the page of a recording gets what it shows: from the daemon, or from the file that it stands in itself.

import { request, withQuery } from "../api/client";
import type { RecordingChange, RecordingDocument, RecordingMoment, RecordingUsage } from "../api/recording";
import { cutWindow } from "../logic/recording";

export interface Range {
  /** Seconds; null: from the beginning, to the end. */
  from: number | null;
  to: number | null;
}

export interface RecordingSource {
  name: string;
  /** True where any range can be had down to its events. */
  deep: boolean;
  view: (range: Range) => Promise<RecordingDocument>;
  /** What was held at a time, null: at the peaks. It says of which moment it is. */
  moment: (at: number | null) => Promise<RecordingMoment>;
  usage: (range: Range) => Promise<RecordingUsage>;
  /** The recordings that this one can be compared with. */
  others: () => Promise<string[]>;
  other: (name: string) => RecordingSource;
  changes: (other: string) => Promise<RecordingChange[]>;
  /** How a command names the recording. */
  file: string;
}

export function daemonSource(name: string, folder: string, names: string[]): RecordingSource {
  const encoded = encodeURIComponent(name);
  const base = `/api/v1/recordings/${encoded}`;
  return {
    name, deep: true, file: `${folder}/${name}`,
    view: async ({ from, to }) => (await request<RecordingDocument>(withQuery(base, { from, to, columns: 1024 }))).data,
    moment: async (at) => (await request<RecordingMoment>(withQuery(`/api/v1/recordings/${encoded}/moment`, { at }))).data,
    usage: async ({ from, to }) => (await request<RecordingUsage>(withQuery(`/api/v1/recordings/${encoded}/usage`, { from, to }))).data,
    others: async () => names.filter((one) => one !== name),
    other: (other) => daemonSource(other, folder, names),
    changes: async (other) => (await request<RecordingChange[]>(withQuery(`/api/v1/recordings/${encoded}/changes`, { to: other }))).data,
  };
}

/** What the HTML file has inside. */
export interface Embedded extends EmbeddedView {
  version: string;
  /** The moment at which the page opens; null: at the peaks. */
  at_seconds: number | null;
  peak: WithoutSites<RecordingMoment>;
  /** By time. */
  moments: WithoutSites<RecordingMoment>[];
  usage: RecordingUsage;
  /** Another run, and what it has more or less of. */
  other?: EmbeddedView;
  changes?: RecordingChange[];
}

interface EmbeddedView {
  name: string;
  view: WithoutSites<RecordingDocument>;
  /** Of all documents together. */
  sites: Record<string, string>;
}

type WithoutSites<Document> = Omit<Document, "sites">;

const columns = 1024;

/** A run beside the one that the file is about: its line over time alone. */
function embeddedOther({ name, view, sites }: EmbeddedView): RecordingSource {
  const none = () => Promise.reject(new Error(name));
  return {
    name, deep: false, file: name, moment: none, usage: none, others: async () => [], other: () => embeddedOther({ name, view, sites }), changes: none,
    view: async ({ from, to }) => ({ ...view, sites, window: cutWindow(view.window, from ?? 0, to ?? view.window.to_seconds, columns) }),
  };
}

export function embeddedSource(embedded: Embedded): RecordingSource {
  const { sites, name } = embedded;
  const moments = [embedded.peak, ...embedded.moments];
  return {
    ...embeddedOther(embedded),
    moment: async (at) => {
      const away = (one: WithoutSites<RecordingMoment>) => Math.min(...one.places.map((place) => Math.abs(place.seconds - (at ?? 0))));
      const nearest = at === null ? embedded.peak : moments.reduce((best, one) => (away(one) < away(best) ? one : best));
      return { ...nearest, sites };
    },
    usage: async () => embedded.usage,
    others: async () => (embedded.other ? [embedded.other.name] : []),
    other: () => embeddedOther(embedded.other ?? { name, view: embedded.view, sites }),
    changes: async () => embedded.changes ?? [],
  };
}
