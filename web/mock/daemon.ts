// A stand-in for rationd, for tests and for work on the dashboard: serves the bundle with the daemon's headers, the JSON of
// docs/http-api.md and a stream that replays from Last-Event-ID. Loopback only.

import { readFileSync, readdirSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import type { NodeEvent } from "../src/api/types";
import { formatSize } from "../src/logic/format";
import { answer } from "./answers";
import { World, type Viewer } from "./world";

export const policy = "default-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'";
const types: Record<string, string> = { js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml", html: "text/html; charset=utf-8" };

export interface MockOptions {
  dist: string;
  token: string;
  port?: number;
  /** False: nothing happens by itself, for tests. */
  lively?: boolean;
  /** What a request without a token sees, as under `[http]`; else "all". */
  anonymous?: "all" | "totals";
}

interface Subscriber {
  response: ServerResponse;
  viewer: Viewer;
  sent: number;
}

export class MockDaemon {
  readonly world: World;
  private server: Server | null = null;
  private readonly sockets = new Set<Socket>();
  private subscribers: Subscriber[] = [];
  private timer: ReturnType<typeof setInterval> | undefined;
  private ticks = 0;
  private port: number;
  /** Events older than this number are no longer replayed. */
  oldestKept = 0;

  constructor(private readonly options: MockOptions) {
    this.port = options.port ?? 0;
    this.world = new World(options.token);
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    const server = createServer((request, response) => void this.serve(request, response));
    server.on("connection", (socket) => {
      this.sockets.add(socket);
      socket.on("close", () => this.sockets.delete(socket));
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.port, "127.0.0.1", resolve);
    });
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
    this.timer = setInterval(() => this.tick(), 1000);
  }

  /** Goes away as a killed daemon does: lines are cut, the books stay. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    const server = this.server;
    this.server = null;
    this.subscribers = [];
    for (const socket of this.sockets) socket.destroy();
    await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()));
  }

  /** Sends what has happened since. */
  flush(): void {
    for (const subscriber of this.subscribers) this.sendEvents(subscriber);
  }

  private tick(): void {
    this.ticks += 1;
    if (this.options.lively !== false) this.world.tick(this.ticks);
    for (const subscriber of this.subscribers) {
      this.sendEvents(subscriber);
      subscriber.response.write(`event: snapshot\ndata: ${JSON.stringify(this.world.snapshot(subscriber.viewer))}\n\n`);
    }
  }

  private sendEvents(subscriber: Subscriber): void {
    if (subscriber.viewer === "anonymous") return;
    for (const event of this.world.events.filter((one) => one.id > subscriber.sent)) {
      subscriber.response.write(`event: event\nid: ${event.id}\ndata: ${JSON.stringify(event satisfies NodeEvent)}\n\n`);
      subscriber.sent = event.id;
    }
  }

  private stream(request: IncomingMessage, response: ServerResponse, query: URLSearchParams, viewer: Viewer): void {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    const asked = String(request.headers["last-event-id"] ?? query.get("last_event_id") ?? "");
    let sent = asked === "" ? this.world.nextEventId() : Number(asked);
    if (sent + 1 < this.oldestKept) {
      response.write(`event: gap\ndata: ${JSON.stringify({ from: sent + 1, to: this.oldestKept - 1 })}\n\n`);
      sent = this.oldestKept - 1;
    }
    const subscriber = { response, viewer, sent };
    response.write(": here\n\n");
    this.sendEvents(subscriber);
    response.write(`event: snapshot\ndata: ${JSON.stringify(this.world.snapshot(viewer))}\n\n`);
    this.subscribers.push(subscriber);
    request.on("close", () => { this.subscribers = this.subscribers.filter((one) => one !== subscriber); });
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    const viewer: Viewer = request.headers.authorization === `Bearer ${this.options.token}` ? "operator" : this.options.anonymous === "totals" ? "anonymous" : "tenant";
    if (!url.pathname.startsWith("/api/")) return this.asset(url.pathname, response);
    if (url.pathname === "/api/v1/stream") return this.stream(request, response, url.searchParams, viewer);
    let text = "";
    for await (const piece of request) text += String(piece);
    const body = text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
    const ifMatch = request.headers["if-match"] ?? null;
    const result = answer(this.world, { method: request.method ?? "GET", path: url.pathname, query: url.searchParams, body, ifMatch, viewer });
    const common = { "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff" };
    if (result.text) {
      response.writeHead(200, { ...common, "Content-Type": result.text.type }).end(result.text.body);
    } else if (result.problem) {
      response.writeHead(result.status, { ...common, "Content-Type": "application/problem+json" });
      response.end(JSON.stringify({ type: `https://ration.invalid/errors/${result.problem.id}`, status: result.status, ...result.problem }));
    } else if (result.status === 204) {
      response.writeHead(204, common).end();
    } else {
      const name = url.pathname.split("/")[3] ?? "answer";
      response.writeHead(result.status, { ...common, "Content-Type": "application/json" });
      response.end(JSON.stringify({ schema: `ration.${name}/1`, time: new Date().toISOString(), host: "node7", source: "sim", data: result.data, warnings: [] }));
    }
    if (request.method !== "GET") this.flush();
  }

  private asset(path: string, response: ServerResponse): void {
    const name = path.slice(1);
    const common = { "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer" };
    if (name !== "index.html" && readdirSync(this.options.dist).includes(name)) {
      response.writeHead(200, { ...common, "Content-Type": types[name.split(".").pop() ?? ""] ?? "application/octet-stream", "Cache-Control": "public, max-age=31536000, immutable" });
      response.end(readFileSync(join(this.options.dist, name)));
      return;
    }
    if (/\.\w+$/.test(name) && !path.startsWith("/recordings/")) {
      response.writeHead(404, common).end();
      return;
    }
    const page = readFileSync(join(this.options.dist, "index.html"), "utf8").replace("<!--SNAPSHOT-->", this.firstFrame());
    response.writeHead(200, { ...common, "Content-Type": types["html"], "Cache-Control": "no-store" }).end(page);
  }

  /** The numbers of this moment as plain HTML; the daemon writes the like. */
  private firstFrame(): string {
    const { devices, workloads } = this.world.snapshot(this.options.anonymous === "totals" ? "anonymous" : "tenant");
    const size = (bytes: number | null | undefined) => (bytes == null ? "n/a" : formatSize(bytes));
    const lines = devices.map((device) => `<li>GPU ${device.gpu} ${device.name}: ${size(device.used_bytes)} used of ${size(device.total_bytes)}, ${size(device.free_bytes)} free</li>`);
    const table = workloads.map((row) => `<tr><th scope="row">${row.workload ?? "not started through ration"}</th><td>${row.tenant ?? ""}</td><td class="number">${row.gpu}</td><td class="number">${size(row.used_bytes)}</td><td class="number">${row.governed ? size(row.limit_bytes) : ""}</td></tr>`);
    return `<h1>node7</h1><ul>${lines.join("")}</ul><table><thead><tr><th scope="col">Workload</th><th scope="col">Tenant</th><th scope="col" class="number">GPU</th><th scope="col" class="number">Used</th><th scope="col" class="number">Limit</th></tr></thead><tbody>${table.join("")}</tbody></table>`;
  }
}
