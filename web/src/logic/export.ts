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

/** A word as a shell takes it. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}
