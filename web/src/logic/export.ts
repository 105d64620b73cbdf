// Tables and charts as text that other programs read.

export type Value = string | number | boolean | null | undefined;

/** RFC 4180. A text that a spreadsheet would take for a formula is given an apostrophe. */
export function toCsv(head: string[], rows: Value[][]): string {
  const cell = (value: Value): string => {
    if (value === null || value === undefined) return "";
    let text = String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** What `ration report --window` takes: a span that ends now, long enough to reach back to `from` (`-6h`, or a time). */
export function windowFrom(from: string, now: number): string {
  return from.startsWith("-") ? from.slice(1) : `${Math.ceil((now - Date.parse(from)) / 3600_000)}h`;
}

/** `ration report` with those options that say something. What a chart draws by device, a report groups by gpu. */
export function reportCommand(options: Record<string, string>): string {
  const words = Object.entries(options).filter(([, value]) => value !== "").map(([name, value]) => ` --${name.replace("_", "-")} ${shellWord(value === "device" ? "gpu" : value)}`);
  return `ration report${words.join("")}`;
}

/** A word as a shell takes it. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

/** `line` as it is about the node that is looked at, in whatever terminal it is typed. `options` by verb, as the session says. */
export function commandLine(line: string, options: Record<string, string[]> | undefined): string {
  return line.replace(/^ration ([a-z]+)/, (command, verb: string) =>
    [command, ...(options?.[verb] ?? []).filter((option) => !line.includes(` ${option.split("=")[0]}`))].join(" "));
}
