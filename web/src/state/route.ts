// Paths and queries. The URL holds the whole view, so that it can be sent to somebody.

import { useEffect, useState } from "preact/hooks";

export const pageNames = ["now", "timeline", "map", "recordings", "events", "tenants", "reports", "queue", "health"] as const;
export type PageName = (typeof pageNames)[number] | "workload" | "unknown";

/** What there is to see without a token. */
export const pagesOfTotals: readonly PageName[] = ["now", "health"];

export interface View {
  page: PageName;
  /** Of /workloads/NAME or /recordings/NAME; else empty. */
  name: string;
  query: URLSearchParams;
}

export function parseView(path: string, search: string): View {
  const query = new URLSearchParams(search);
  const parts = path.split("/").filter((part) => part !== "");
  const first = parts[0];
  if (first === undefined) return { page: "now", name: "", query };
  if (first === "workloads" && parts.length > 1) {
    return { page: "workload", name: decodeURIComponent(parts.slice(1).join("/")), query };
  }
  if (first === "recordings" && parts.length === 2) return { page: "recordings", name: decodeURIComponent(parts[1] ?? ""), query };
  const page = pageNames.find((known) => known === first && known !== "now" && parts.length === 1);
  return { page: page ?? "unknown", name: "", query };
}

export const pathOf = (page: (typeof pageNames)[number]): string => (page === "now" ? "/" : `/${page}`);
export const recordingPath = (name: string): string => `/recordings/${encodeURIComponent(name)}`;
export const workloadPath = (name: string): string => `/workloads/${encodeURIComponent(name)}`;

const listeners = new Set<() => void>();
const tell = () => [...listeners].forEach((listener) => listener());

export function navigate(to: string, replace = false): void {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  tell();
}

/** Changes some parameters of the view; null removes one. */
export function setQuery(changes: Record<string, string | null>, replace = true): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  navigate(text ? `${location.pathname}?${text}` : location.pathname, replace);
}

export function useView(): View {
  const [view, setView] = useState(() => parseView(location.pathname, location.search));
  useEffect(() => {
    const listener = () => setView(parseView(location.pathname, location.search));
    listeners.add(listener);
    window.addEventListener("popstate", listener);
    return () => {
      listeners.delete(listener);
      window.removeEventListener("popstate", listener);
    };
  }, []);
  return view;
}
