// Data that a page asks for itself: loaded again when its path changes, and now and then while the page is looked at.

import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../api/client";
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
