// Data that a page asks for itself: loaded again when its path changes, and now and then while the page is looked at.

import { useEffect, useRef, useState } from "preact/hooks";
import { request, withQuery } from "../api/client";
import type { Series } from "../api/types";
import { parseDuration } from "../logic/format";
import { fromFirstRecord } from "../logic/series";
import { useStore } from "../state/store";
import { describe } from "./events";

export interface Loaded<Data> {
  data: Data | null;
  /** When the daemon answered, by its clock. */
  time: string | null;
  problem: string | null;
  again: () => void;
}

/** `path` null: nothing to load. What was loaded before stays visible until the next answer is here. */
export function useLoaded<Data>(path: string | null, everyMs: number | null = null): Loaded<Data> {
  const [data, setData] = useState<Data | null>(null);
  const [time, setTime] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const live = useStore((state) => state.connection === "live");
  const shown = useRef<string | null>(null);
  useEffect(() => {
    if (path === null) {
      setData(null);
      return undefined;
    }
    const resource = path.split("?")[0] ?? path;
    if (shown.current !== resource) setData(null);
    shown.current = resource;
    const abort = new AbortController();
    const load = () => {
      request<Data>(path, { signal: abort.signal })
        .then((answer) => {
          setData(answer.data);
          setTime(answer.time);
          setProblem(null);
        })
        .catch((cause: unknown) => abort.signal.aborted || setProblem(describe(cause)));
    };
    load();
    const timer = everyMs === null ? undefined : setInterval(() => document.visibilityState === "visible" && load(), everyMs);
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, [path, everyMs, turn, live]);
  return { data, time, problem, again: () => setTurn((count) => count + 1) };
}

/** A range that follows the clock begins with the first record, and is asked for from there on, so that its steps are as fine as its length allows. */
export function useSeries(query: Record<string, string | number | null> | null, range: { from: string; to: string | null; fixed: boolean }, everyMs: number | null): { data: Series | null; problem: string | null } {
  const asked = withQuery("/api/v1/series", { metric: "used_bytes", ...query, from: range.from, to: range.to, points: 600 });
  const [begun, setBegun] = useState({ asked, at: "" });
  const later = begun.asked === asked && begun.at !== "" && Date.now() - Date.parse(begun.at) < spanMs(range.from);
  const path = later ? withQuery("/api/v1/series", { metric: "used_bytes", ...query, from: begun.at, points: 600 }) : asked;
  const { data, problem } = useLoaded<Series>(query && path, everyMs);
  const shown = data && !range.fixed ? fromFirstRecord(data) : data;
  useEffect(() => {
    if (shown && shown !== data) setBegun({ asked, at: shown.from });
  }, [shown?.from]);
  return { data: shown, problem };
}

/** `-10m`, `-1h`: how long ago. */
const spanMs = (from: string): number => (parseDuration(from.slice(1)) ?? 0) * 1000;
