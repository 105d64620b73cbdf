// Bundles the dashboard into dist/: index.html, one script, one style sheet, the icon, each named by its content; and the page of
// one recording (recording.html), which has script and style inside. Same sources and lock, same bytes. Prints what goes over the
// wire; more than 200 KB is an error.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "dist");
const wireLimit = 200 * 1000;

const bundle = (entry, format) => build({
  absWorkingDir: here,
  entryPoints: [entry],
  bundle: true,
  minify: true,
  write: false,
  outdir: "dist",
  format,
  target: ["es2021", "chrome100", "firefox100", "safari15.4"],
  charset: "utf8",
  legalComments: "none",
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
});

const files = new Map();
const add = (stem, ending, content) => {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 10);
  const name = `${stem}-${hash}.${ending}`;
  files.set(name, content);
  return name;
};
const part = (result, ending) => Buffer.from(result.outputFiles.find((file) => file.path.endsWith(ending)).contents);
const result = await bundle("src/main.tsx", "esm"), alone = await bundle("src/offline.tsx", "iife");
const made = (ending) => part(result, ending);
const script = add("app", "js", made(".js"));
const style = add("app", "css", made(".css"));
const icon = add("favicon", "svg", readFileSync(join(here, "src/favicon.svg")));
const page = readFileSync(join(here, "src/index.html"), "utf8").replace("/SCRIPT", `/${script}`).replace("/STYLE", `/${style}`).replace("/FAVICON", `/${icon}`);
files.set("index.html", Buffer.from(page));
// By functions, as a text would have its dollars replaced.
const recording = readFileSync(join(here, "src/offline.html"), "utf8")
  .replace("/*STYLE*/", () => part(alone, ".css").toString()).replace("/*SCRIPT*/", () => part(alone, ".js").toString());

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
let wire = 0;
for (const [name, content] of [...files].sort()) {
  writeFileSync(join(out, name), content);
  const packed = gzipSync(content, { level: 9 }).length;
  wire += packed;
  console.log(`${name.padEnd(24)} ${String(content.length).padStart(8)} bytes ${String(packed).padStart(8)} gzipped`);
}
console.log(`${"together".padEnd(24)} ${"".padStart(14)} ${String(wire).padStart(8)} of ${wireLimit}`);
writeFileSync(join(out, "recording.html"), recording);
if (wire > wireLimit) {
  console.error("more than 200 KB over the wire");
  process.exit(1);
}
