// A browser with the switches that keep it from talking to anybody but the daemon, and pages that record what they ask for.

import assert from "node:assert/strict";
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
  /** Fails if there was an error of the page, anything red in its console, or a request that the daemon's interface does not have. */
  close: () => Promise<void>;
}

/** `expected`: errors that the test brings about, such as a rejection. */
export async function open(browser: Browser, daemon: Daemon, path: string, options: BrowserContextOptions & { operator?: boolean; expected?: RegExp } = {}): Promise<Opened> {
  const { operator, expected, ...contextOptions } = options;
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
    if (message.type() === "error" && !expected?.test(message.text())) errors.push(`${message.text()} ${message.location().url}`);
  });
  await page.goto(daemon.url + path);
  const close = async () => {
    await context.close();
    assert.deepEqual(errors, []);
  };
  return { page, requests, close };
}

export const live = (page: Page): Promise<void> => page.locator(".connection.live").waitFor();
