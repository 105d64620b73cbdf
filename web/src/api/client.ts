// Requests to the daemon that served this page. Nothing here can reach another origin: all paths are relative.

import type { Envelope, Problem } from "./types";

const tokenKey = "ration.token";

export const token = {
  read: (): string | null => sessionStorage.getItem(tokenKey),
  write: (value: string | null) => {
    if (value) sessionStorage.setItem(tokenKey, value);
    else sessionStorage.removeItem(tokenKey);
  },
};

export function authorization(): Record<string, string> {
  const value = token.read();
  return value ? { Authorization: `Bearer ${value}` } : {};
}

/** A rejection of the daemon (RFC 9457), or that it could not be reached (status 0). */
export class RequestError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail ?? problem.title);
  }
}

export interface RequestOptions {
  method?: "GET" | "POST" | "PATCH" | "DELETE";
  body?: unknown;
  ifMatch?: number;
  signal?: AbortSignal;
}

async function send(path: string, options: RequestOptions, accept: string): Promise<Response> {
  const headers: Record<string, string> = { Accept: accept, ...authorization() };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (options.ifMatch !== undefined) headers["If-Match"] = `"${options.ifMatch}"`;
  let answer: Response;
  try {
    answer = await fetch(path, {
      method: options.method ?? "GET",
      headers,
      body: options.body === undefined ? null : JSON.stringify(options.body),
      cache: "no-store",
      signal: options.signal ?? null,
    });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new RequestError({ title: "unreachable", status: 0 });
  }
  if (answer.ok) return answer;
  const problem = (await answer.json().catch(() => null)) as Problem | null;
  throw new RequestError(problem?.title ? problem : { title: answer.statusText, status: answer.status });
}

export async function request<Data>(path: string, options: RequestOptions = {}): Promise<Envelope<Data>> {
  const answer = await send(path, options, "application/json, application/problem+json");
  return (await answer.json()) as Envelope<Data>;
}

/** For an answer without a body. */
export async function requestDone(path: string, options: RequestOptions): Promise<void> {
  await send(path, options, "application/problem+json");
}

/** A body that is not ration's JSON, such as a report in CSV. */
export async function requestBlob(path: string): Promise<Blob> {
  return (await send(path, {}, "*/*")).blob();
}

/** A path with only those parameters that say something. */
export function withQuery(path: string, query: Record<string, string | number | null | undefined>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text ? `${path}?${text}` : path;
}
