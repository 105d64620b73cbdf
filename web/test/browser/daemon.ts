// The daemon under test, and all that tests do to it from outside. Without RATION_WEB_URL it is the mock. For a real rationd:
//   RATION_WEB_URL      where it listens, RATION_WEB_TOKEN its operator token
//   RATION_WEB_LINK     the link that its start printed
//   RATION_WEB_STOP     command lines (sh -c) that stop it, start it with the same state, and make a workload be refused
//   RATION_WEB_START    memory ("$1": the name of the workload); tests that need one that is not given are skipped
//   RATION_WEB_DENY
//   RATION_WEB_ANONYMOUS what it shows without a token, all or totals; RATION_WEB_NAMES, with commas between: Daemon.names

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { MockDaemon } from "../../mock/daemon";
import type { Session, Snapshot } from "../../src/api/types";

export interface Daemon {
  url: string;
  token: string;
  /** What it shows whoever has no token. */
  anonymous: "all" | "totals";
  /** Words that stand in names of a workload, its tenant and label, and in what its events say, and nowhere else. */
  names: string[];
  /** As the first start printed it: its token works once. */
  link: string;
  /** null: cannot be done to this daemon. */
  stop: (() => Promise<void>) | null;
  start: () => Promise<void>;
  deny: ((workload: string) => Promise<void>) | null;
  close: () => Promise<void>;
}

function shell(command: string | undefined): ((argument?: string) => Promise<void>) | null {
  if (!command) return null;
  return async (argument = "") => void execFileSync("sh", ["-c", command, "sh", argument], { stdio: "inherit", timeout: 60_000 });
}

/** `anonymous`: of the mock; a real one was started as it is. */
export async function openDaemon(anonymous: Daemon["anonymous"] = "all"): Promise<Daemon> {
  const url = process.env["RATION_WEB_URL"], token = process.env["RATION_WEB_TOKEN"] ?? "";
  if (url) {
    const start = shell(process.env["RATION_WEB_START"]);
    return { url, token, anonymous: process.env["RATION_WEB_ANONYMOUS"] === "totals" ? "totals" : "all", names: (process.env["RATION_WEB_NAMES"] ?? "").split(",").filter(Boolean), link: process.env["RATION_WEB_LINK"] ?? "", stop: start && shell(process.env["RATION_WEB_STOP"]), start: start ?? (async () => undefined), deny: shell(process.env["RATION_WEB_DENY"]), close: async () => undefined };
  }
  const mock = new MockDaemon({ dist: "dist", token: "token-of-the-tests", lively: false, anonymous });
  await mock.start();
  return {
    url: mock.url, token: "token-of-the-tests", anonymous, names: ["kernel-bob", "alice"], link: `${mock.url}/?token=${mock.world.once}`, stop: () => mock.stop(), start: () => mock.start(), close: () => mock.stop(),
    deny: async (workload) => {
      mock.world.deny(workload);
      mock.flush();
    },
  };
}

/** What the daemon says at this moment. */
export async function ask<Data>(daemon: Daemon, path: string): Promise<Data> {
  const answer = await fetch(daemon.url + path, { headers: { Authorization: `Bearer ${daemon.token}` } });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return ((await answer.json()) as { data: Data }).data;
}

export const snapshotOf = (daemon: Daemon): Promise<Snapshot> => ask<Snapshot>(daemon, "/api/v1/snapshot");

/** A command of the shell as it is printed: with what says which node it is about. */
export async function commandOf(daemon: Daemon, verb: string): Promise<string> {
  return ["ration", verb, ...((await ask<Session>(daemon, "/api/v1/session")).command_options[verb] ?? [])].join(" ");
}

/** Until the daemon says so: what it was asked for takes its time. */
export async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await new Promise((resolve) => setTimeout(resolve, 50))) {
    if (await holds()) return;
  }
  assert.fail(`never: ${what}`);
}
