// Everything the page knows at this moment, in one place. The stream writes it, components read it by useStore().

import { useEffect, useState } from "preact/hooks";
import { authorization, request, RequestError, token, withQuery } from "../api/client";
import { openStream, type Message } from "../api/sse";
import type { Login, NodeEvent, Session, Snapshot, WorkloadRow } from "../api/types";
import { setQuery } from "./route";
import { saidIn, type Said } from "../text/message";

export interface State {
  snapshot: Snapshot | null;
  /** When the snapshot came, by this page's clock. */
  snapshotAt: number;
  host: string;
  simulated: boolean;
  session: Session | null;
  /** Oldest first. */
  events: NodeEvent[];
  /** True once the oldest kept event is the first the daemon has, or there is no need to ask for more. */
  connection: "connecting" | "live" | "lost";
  retryAt: number;
  /** Ranges of events that the daemon no longer had when this page came back. */
  missed: { from: number; to: number }[];
  problem: Said | null;
  /** This page was opened by a link whose token was used before, or is too old. */
  linkUsed: boolean;
  dialog: Dialog | null;
}

/** What an operator may do to a workload, beside changing its limit. */
export type Verb = "trim" | "suspend" | "resume" | "stop";
/** What is open above the page: one at a time. `about`: only what concerns this workload. */
export type Dialog = { kind: "keys" } | { kind: "token" } | { kind: "palette"; about: string | null } | { kind: "action"; verb: Verb; workload: string } | { kind: "copy"; line: string };

const keptEvents = 2000;

let state: State = {
  snapshot: null, snapshotAt: 0, host: "", simulated: false, session: null, events: [], connection: "connecting",
  retryAt: 0, missed: [], problem: null, linkUsed: false, dialog: null,
};
const listeners = new Set<() => void>();

export const readState = (): State => state;

function change(part: Partial<State>): void {
  state = { ...state, ...part };
  for (const listener of [...listeners]) listener();
}

export const openDialog = (dialog: Dialog): void => change({ dialog });
export const closeDialog = (): void => change({ dialog: null });

/** Renders again only when what `select` gives is another value. */
export function useStore<Value>(select: (state: State) => Value): Value {
  const [, again] = useState(0);
  const value = select(state);
  useEffect(() => {
    let shown = value;
    const listener = () => {
      const fresh = select(state);
      if (!Object.is(fresh, shown)) {
        shown = fresh;
        again((count) => count + 1);
      }
    };
    listeners.add(listener);
    listener();
    return () => void listeners.delete(listener);
  });
  return value;
}

export const lastEventId = (): number | null => state.events[state.events.length - 1]?.id ?? null;

/** Adds what is new, keeps the order of numbers, drops the oldest beyond what is kept. */
export function mergeEvents(have: NodeEvent[], more: NodeEvent[]): NodeEvent[] {
  const last = have[have.length - 1];
  if (more.every((event, index) => event.id > (more[index - 1]?.id ?? last?.id ?? -1))) {
    return [...have, ...more].slice(-keptEvents);
  }
  const byId = new Map([...have, ...more].map((event) => [event.id, event]));
  return [...byId.values()].sort((left, right) => left.id - right.id).slice(-keptEvents);
}

function takeSnapshot(snapshot: Snapshot): void {
  change({ snapshot, snapshotAt: Date.now(), connection: "live", problem: null });
  // A daemon whose book of events starts anew (its state was removed) would make Last-Event-ID mean something else.
  const last = lastEventId();
  if (last !== null && snapshot.last_event < last) {
    change({ events: [] });
    void loadEvents();
  }
}

function take(message: Message): void {
  const data: unknown = JSON.parse(message.data);
  if (message.event === "snapshot") takeSnapshot(data as Snapshot);
  else if (message.event === "event") change({ events: mergeEvents(state.events, [data as NodeEvent]) });
  else if (message.event === "gap") change({ missed: [...state.missed, data as { from: number; to: number }] });
  else if (message.event === "lag") void loadEvents();
}

async function loadEvents(): Promise<void> {
  if (seesTotalsOnly(state)) return;
  const answer = await request<NodeEvent[]>(withQuery("/api/v1/events", { limit: 200 }));
  change({ events: mergeEvents(state.events, answer.data) });
}

/** A link that the daemon's start printed carries a token that works once: it is exchanged, and is in the address no longer. */
export async function logInByLink(): Promise<void> {
  const once = new URLSearchParams(location.search).get("token");
  if (once === null) return;
  setQuery({ token: null });
  // Not beside one that this tab has kept: that may be of an earlier daemon, which this one rejects.
  const before = token.read();
  token.write(null);
  const answer = await request<Login>("/api/v1/session", { method: "POST", body: { token: once } }).catch(() => null);
  token.write(answer?.data.token ?? before);
  change({ linkUsed: answer === null });
}

let stop: (() => void) | null = null;

/** Loads what the first frame needs, then follows. Called again after a token was entered or removed. */
export async function connect(): Promise<void> {
  stop?.();
  stop = null;
  try {
    const [session, snapshot] = await Promise.all([
      request<Session>("/api/v1/session"), request<Snapshot>("/api/v1/snapshot"),
    ]);
    change({ session: session.data, host: snapshot.host, simulated: snapshot.source === "sim" });
    takeSnapshot(snapshot.data);
    await loadEvents();
  } catch (cause) {
    if (cause instanceof RequestError && cause.problem.status === 401 && token.read()) {
      token.write(null);
      return connect();
    }
    change({ connection: "lost", problem: cause instanceof RequestError && cause.problem.status ? saidIn(cause.problem, "detail") ?? { text: cause.message } : null });
  }
  stop = openStream({
    url: "/api/v1/stream?topics=snapshot,events&every=1s",
    headers: authorization,
    lastEventId,
    onMessage: take,
    onState: (connection, retryInMs) => {
      if (connection === "live" && state.session === null) void refreshSession();
      if (connection !== state.connection || connection === "lost") change({ connection, retryAt: Date.now() + retryInMs });
    },
  });
}

async function refreshSession(): Promise<void> {
  const answer = await request<Session>("/api/v1/session").catch(() => null);
  if (answer) change({ session: answer.data, host: answer.host, simulated: answer.source === "sim" });
}

/** True when the daemon accepts the token as an operator's. Otherwise the earlier one stays. */
export async function signIn(value: string): Promise<boolean> {
  const before = token.read();
  token.write(value);
  const answer = await request<Session>("/api/v1/session").catch(() => null);
  if (answer?.data.role === "operator") {
    void connect();
    return true;
  }
  token.write(before);
  return false;
}

export function signOut(): void {
  token.write(null);
  void connect();
}

/** Neither a user nor a token is known: the daemon answers with totals. */
export const seesTotalsOnly = (from: State): boolean => from.session?.role === "anonymous";
export const isOperator = (from: State): boolean => from.session?.role === "operator";

export function rowsOf(snapshot: Snapshot | null, name: string): WorkloadRow[] {
  return snapshot?.workloads.filter((row) => row.workload === name) ?? [];
}

/** A clock for ages: renders each second. */
export function useNow(everyMs = 1000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
