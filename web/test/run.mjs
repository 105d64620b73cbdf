// `npm test`: types, bundle and its size, unit tests, and the browser tests (CHROMIUM=, else Debian's /usr/bin/chromium).
// The browser tests run against the mock; RATION_WEB_URL points them at a real daemon (see browser/daemon.ts).
// Ends with "N passed, N failed".
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
process.chdir(here);
let passed = 0, failed = 0, skipped = 0;

function step(name, command, options) {
  const done = spawnSync(command, options, { stdio: "inherit" });
  if (done.status === 0) passed += 1;
  else failed += 1;
  console.log(`${done.status === 0 ? "ok" : "FAILED"}: ${name}`);
}

step("types", process.execPath, ["node_modules/typescript/bin/tsc", "--noEmit"]);
step("the bundle is at most 200 KB over the wire", process.execPath, ["build.mjs"]);

const chromium = process.env.CHROMIUM ?? "/usr/bin/chromium";
const only = process.argv[2] ?? "";
const rooms = ["unit", "browser"];
rmSync("build/test", { recursive: true, force: true });
const files = [];
for (const room of rooms) {
  for (const file of readdirSync(`test/${room}`).filter((name) => name.endsWith(".test.ts") && `${room}/${name}`.includes(only))) {
    const outfile = `build/test/${room}-${file.replace(/\.ts$/, ".mjs")}`;
    await build({
      entryPoints: [`test/${room}/${file}`], outfile, bundle: true, platform: "node", format: "esm", target: "node18", logLevel: "warning", sourcemap: "inline",
      external: ["playwright-core", "typescript"], jsx: "automatic", jsxImportSource: "preact", loader: { ".css": "empty" },
    });
    if (room === "browser" && !existsSync(chromium)) {
      console.log(`${file} is left out: there is no ${chromium} (apt-get install chromium)`);
      skipped += 1;
    } else {
      files.push(outfile);
    }
  }
}

for (const file of files) {
  const done = spawnSync(process.execPath, ["--enable-source-maps", "--test", "--test-reporter=spec", file], { encoding: "utf8", timeout: 900_000, env: { ...process.env, CHROMIUM: chromium } });
  process.stdout.write(done.stdout);
  process.stderr.write(done.stderr);
  const count = (word) => Number(new RegExp(`^. ${word} (\\d+)$`, "m").exec(done.stdout)?.[1] ?? 0);
  const bad = count("fail") + count("cancelled");
  passed += count("pass");
  failed += bad > 0 || done.status === 0 ? bad : 1;
}
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
