import { MockDaemon } from "./daemon";

const daemon = new MockDaemon({ dist: process.env["RATION_WEB_DIST"] ?? "dist", token: "demo", port: Number(process.env["PORT"] ?? 7077) });
await daemon.start();
console.log(`${daemon.url}/?token=${daemon.world.once}   token for operators: demo`);
