// A browser with the switches that keep it from talking to anybody but the daemon, and pages that record what they ask for.

import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { objection } from "../contract/interface";
import type { Daemon } from "./daemon";

export const openBrowser = (): Promise<Browser> => chromium.launch({
  executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

export interface Opened {
  page: Page;
  requests: string[];
  /** Errors of the page, refusals of its content policy, and requests that the daemon's interface does not have. */
  errors: string[];
  close: () => Promise<void>;
}

export async function open(browser: Browser, daemon: Daemon, path: string, options: BrowserContextOptions & { operator?: boolean } = {}): Promise<Opened> {
  const { operator, ...contextOptions } = options;
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-US", ...contextOptions });
  // Long, as it is only ever waited out when something is broken: the machine may be busy with other work.
  context.setDefaultTimeout(60_000);
  if (operator) await context.addInitScript((token) => sessionStorage.setItem("ration.token", token), daemon.token);
  const page = await context.newPage();
  const requests: string[] = [], errors: string[] = [];
  page.on("request", (request) => {
    requests.push(request.url());
    const strange = objection(request.method(), request.url());
    if (strange) errors.push(strange);
  });
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource|net::ERR/.test(message.text())) errors.push(message.text());
  });
  await page.goto(daemon.url + path);
  return { page, requests, errors, close: () => context.close() };
}

export const live = (page: Page): Promise<void> => page.locator(".connection.live").waitFor();
