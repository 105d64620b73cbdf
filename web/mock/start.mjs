// `npm run mock`: the dashboard with made-up numbers on http://127.0.0.1:7077 (PORT= changes it).
import { build } from "esbuild";

await import("../build.mjs");
await build({ entryPoints: ["mock/main.ts"], bundle: true, platform: "node", format: "esm", target: "node18", outfile: "build/mock.mjs", logLevel: "warning" });
await import("../build/mock.mjs");
