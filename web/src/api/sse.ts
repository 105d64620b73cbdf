// Server-sent events over fetch: EventSource cannot send an Authorization header. Reconnects by itself and says with
// Last-Event-ID where it was, so that no event is lost while the daemon restarts.

export interface Message {
  event: string;
  data: string;
  id: string | null;
}

/** Feeds on text in pieces of any size and gives whole messages (the WHATWG rules; CR, LF and CRLF end a line). */
export class SseParser {
  private rest = "";
  private event = "";
  private data: string[] = [];
  private lastId: string | null = null;
  private afterCarriageReturn = false;
  /** What the server asked for by `retry:`, in milliseconds. */
  retryMs: number | null = null;

  push(piece: string): Message[] {
    const found: Message[] = [];
    let text = piece;
    if (this.afterCarriageReturn && text.startsWith("\n")) text = text.slice(1);
    if (piece !== "") this.afterCarriageReturn = piece.endsWith("\r");
    const lines = (this.rest + text).split(/\r\n|\r|\n/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      const message = this.line(line);
      if (message) found.push(message);
    }
    return found;
  }

  private line(line: string): Message | null {
    if (line === "") {
      const message = this.data.length > 0 ? { event: this.event || "message", data: this.data.join("\n"), id: this.lastId } : null;
      this.event = "";
      this.data = [];
      return message;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return null;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.event = value;
    else if (name === "data") this.data.push(value);
    else if (name === "id" && !value.includes("\0")) this.lastId = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
    return null;
  }
}

/** 0.5 s, 1 s, 2 s … 15 s, each up to a quarter longer so that many pages do not come back in one instant. */
export function backoffMs(attempt: number, random: number): number {
  const base = Math.min(500 * 2 ** Math.min(attempt, 10), 15_000);
  return Math.round(base * (1 + random / 4));
}

const silenceMs = 45_000;

export interface StreamOptions {
  url: string;
  headers: () => Record<string, string>;
  lastEventId: () => number | null;
  onMessage: (message: Message) => void;
  onState: (state: "live" | "lost", retryInMs: number) => void;
}

/** Runs until the returned function is called. */
export function openStream(options: StreamOptions): () => void {
  let stopped = false;
  let attempt = 0;
  let wake: (() => void) | null = null;
  let abort = new AbortController();

  const once = async (): Promise<number | null> => {
    abort = new AbortController();
    const last = options.lastEventId();
    const headers: Record<string, string> = { Accept: "text/event-stream", ...options.headers() };
    if (last !== null) headers["Last-Event-ID"] = String(last);
    const answer = await fetch(options.url, { headers, cache: "no-store", signal: abort.signal });
    if (!answer.ok || !answer.body) {
      const after = Number(answer.headers.get("Retry-After"));
      return Number.isFinite(after) && after > 0 ? after * 1000 : null;
    }
    const parser = new SseParser();
    const decoder = new TextDecoder();
    const reader = answer.body.getReader();
    // A machine that went away says nothing: without a comment or a message for this long the line counts as cut.
    let silence: ReturnType<typeof setTimeout> | undefined;
    const listen = () => {
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), silenceMs);
    };
    for (;;) {
      listen();
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return parser.retryMs;
      for (const message of parser.push(decoder.decode(value, { stream: true }))) {
        if (attempt !== 0 || message.event === "snapshot") {
          attempt = 0;
          options.onState("live", 0);
        }
        options.onMessage(message);
      }
    }
  };

  const loop = async () => {
    while (!stopped) {
      const asked = await once().catch(() => null);
      if (stopped) return;
      const pause = asked ?? backoffMs(attempt, Math.random());
      attempt += 1;
      options.onState("lost", pause);
      await new Promise<void>((resolve) => {
        wake = resolve;
        setTimeout(resolve, pause);
      });
    }
  };
  const online = () => wake?.();
  window.addEventListener("online", online);
  void loop();
  return () => {
    stopped = true;
    window.removeEventListener("online", online);
    abort.abort();
    wake?.();
  };
}
