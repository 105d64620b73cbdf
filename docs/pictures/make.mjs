// The pictures of the README, from a running `ration demo`: what a terminal shows (tmux) and the dashboard, light and dark.
// ./dev pictures. Needs tmux and Chromium.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url)), root = join(here, "../..");
const { chromium } = createRequire(join(root, "web/package.json"))("playwright-core");
// An installed one where there is one: its path is in the pictures.
const ration = process.env.RATION ?? join(root, "build/release/bin/ration");
const columns = 146, rows = 24, largest = 260_000;
const folder = mkdtempSync(join(tmpdir(), "ration-pictures-"));
const environment = { ...process.env, XDG_RUNTIME_DIR: folder, PATH: `${dirname(ration)}:${process.env.PATH}`, LC_ALL: "C.UTF-8" };

const began = Date.now();
const demo = spawn(ration, ["demo", "--keep"], { env: environment, stdio: ["ignore", "pipe", "inherit"] });
let said = "";
demo.stdout.on("data", (part) => (said += part));
const tmux = (...words) => execFileSync("tmux", ["-S", join(folder, "tmux"), ...words], { encoding: "utf8", env: environment });

async function until(condition, what, milliseconds = 60_000) {
  for (const end = Date.now() + milliseconds; Date.now() < end; await new Promise((done) => setTimeout(done, 200))) {
    const found = await condition();
    if (found) return found;
  }
  throw new Error(`never: ${what}\n${said}`);
}

// ------------------------------------------------------------------------------------------ a terminal's text as a page

const palette = ["#1c2128", "#ff7b72", "#7ee787", "#f2cc60", "#79c0ff", "#d2a8ff", "#76e3ea", "#c9d1d9", "#8b949e", "#ffa198", "#aff5b4", "#f8e3a1", "#a5d6ff", "#e2c5ff", "#b3f0ff", "#ffffff"];
function colour(number) {
  if (number < 16) return palette[number];
  if (number >= 232) return `rgb(${Array(3).fill((number - 232) * 10 + 8)})`;
  const part = (one) => (one === 0 ? 0 : one * 40 + 55);
  return `rgb(${[Math.floor((number - 16) / 36), Math.floor((number - 16) / 6) % 6, (number - 16) % 6].map(part)})`;
}

function html(text) {
  let ink = {}, made = "";
  for (const [, codes, plain] of text.matchAll(/(?:\x1b\[([\d;]*)m)|([^\x1b]+)/g)) {
    if (plain !== undefined) {
      const [front, back] = ink.inverse ? [ink.back ?? "#0d1117", ink.front ?? "#e6edf3"] : [ink.front, ink.back];
      const style = `${front ? `color:${front};` : ""}${back ? `background:${back};` : ""}${ink.bold ? "font-weight:bold;" : ""}${ink.dim ? "opacity:.65;" : ""}`;
      made += `<span style="${style}">${plain.replace(/[&<]/g, (one) => `&#${one.charCodeAt(0)};`)}</span>`;
      continue;
    }
    const numbers = (codes || "0").split(";").map(Number);
    for (let at = 0; at < numbers.length; at += 1) {
      const one = numbers[at];
      if (one === 0) ink = {};
      else if (one === 1) ink = { ...ink, bold: true };
      else if (one === 2) ink = { ...ink, dim: true };
      else if (one === 7) ink = { ...ink, inverse: true };
      else if (one === 22) ink = { ...ink, bold: false, dim: false };
      else if (one === 27) ink = { ...ink, inverse: false };
      else if (one === 39) ink = { ...ink, front: undefined };
      else if (one === 49) ink = { ...ink, back: undefined };
      else if (one === 38 || one === 48) {
        const [value, used] = numbers[at + 1] === 5 ? [colour(numbers[at + 2]), 2] : [`rgb(${numbers.slice(at + 2, at + 5)})`, 4];
        ink = { ...ink, [one === 38 ? "front" : "back"]: value };
        at += used;
      } else if (one >= 30 && one <= 37) ink = { ...ink, front: palette[one - 30] };
      else if (one >= 40 && one <= 47) ink = { ...ink, back: palette[one - 40] };
      else if (one >= 90 && one <= 97) ink = { ...ink, front: palette[one - 82] };
      else if (one >= 100 && one <= 107) ink = { ...ink, back: palette[one - 92] };
    }
  }
  return `<!doctype html><meta charset="utf-8"><body style="margin:0;background:#0d1117"><pre style="display:inline-block;margin:0;padding:14px 18px;color:#e6edf3;
    background:#0d1117;font:15px/1.3 'DejaVu Sans Mono','Liberation Mono',monospace">${made}</pre>`;
}

// ------------------------------------------------------------------------------------------------------------------ all

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
async function save(page, name, what) {
  const path = join(here, name);
  await what.screenshot({ path });
  const size = statSync(path).size;
  if (size > largest) throw new Error(`${name} has ${size} bytes, more than ${largest}`);
  console.log(`docs/pictures/${name}  ${size} bytes`);
}

try {
  const [, url] = await until(() => /dashboard\s+(http:\/\/\S+)/.exec(said), "the dashboard's address");
  const [, token] = await until(() => /token (\w+)/.exec(said), "the token");
  const ask = async (path) => (await (await fetch(new URL(path, url), { headers: { Authorization: `Bearer ${token}` } })).json()).data;
  await until(async () => (await ask("/api/v1/events?limit=1000&type=resized")).length > 0, "the changed guarantee");

  tmux("new-session", "-d", "-x", String(columns), "-y", String(rows), "env", "PS1=$ ", "bash", "--norc");
  const shown = () => tmux("capture-pane", "-e", "-p");
  const { denial } = (await ask("/api/v1/events?limit=1000&type=denied")).find((event) => event.workload === "serve");
  for (const line of ["ration ps --sim=demo", "ration events --lines 4 --type denied,resized,suspended --sim=demo", `ration why ${denial} --sim=demo`]) {
    const prompts = () => shown().match(/^(\x1b\[[\d;]*m)*\$/gm)?.length ?? 0;
    await until(() => /\$\s*$/.test(shown().trimEnd()), "a prompt");
    const before = prompts();
    tmux("send-keys", line, "Enter");
    await until(() => prompts() > before && /\$\s*$/.test(shown().trimEnd()), line);
  }
  await until(() => /fix +ration set/.test(shown()), "the reason of a denial");
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await page.setContent(html(shown().trimEnd()));
  await save(page, "terminal.png", page.locator("pre"));

  for (const theme of ["light", "dark"]) {
    const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, colorScheme: theme, locale: "en-US" });
    await context.addInitScript((secret) => sessionStorage.setItem("ration.token", secret), token);
    const board = await context.newPage();
    await board.goto(url);
    await board.locator(".connection.live").waitFor();
    await board.locator("table[data-name=workloads] tbody tr").nth(3).waitFor();
    await save(board, `dashboard-${theme}.png`, board);
    await context.close();
  }

  // A chart of ten minutes of which four are known.
  tmux("new-session", "-d", "-s", "top", "-x", "120", "-y", "36", ration, "top", "--sim=demo");
  await until(() => Date.now() - began > 240_000, "four minutes of use", 300_000);
  await page.setContent(html(tmux("capture-pane", "-e", "-p", "-t", "top").trimEnd()));
  await save(page, "top.png", page.locator("pre"));
} finally {
  await browser.close();
  try {
    tmux("kill-server");
  } catch {
    // It was never started.
  }
  demo.kill("SIGTERM");
  await new Promise((done) => (demo.exitCode === null ? demo.once("exit", done) : done()));
  rmSync(folder, { recursive: true, force: true });
}
