// What the command palette offers, and which of it is meant by a few letters.

/** What a command is about; in the order in which commands of the same fit are shown. */
export const kinds = ["page", "workload", "gpu", "tenant", "action", "copy", "setting"] as const;
export type Kind = (typeof kinds)[number];

export interface Command {
  kind: Kind;
  label: string;
  /** Beside the label: whose it is, how much it holds. */
  detail?: string;
  /** What else it is found by, such as its name in the other language. */
  words?: string;
  /** The workload that it is about. */
  workload?: string;
  run: () => void;
}

const wordsOf = (text: string): string[] => text.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== "");

/** How well `word` fits: best where a word of the label begins so, in any language, worst where its letters are first letters of the label's words; 0: not at all. */
function fit(word: string, label: string, words: string, detail: string): number {
  const begins = (text: string) => text.startsWith(word) || wordsOf(text).some((one) => one.startsWith(word));
  if (begins(label) || begins(words)) return 4;
  if (begins(detail)) return 3;
  if ([label, words, detail].some((text) => text.includes(word))) return 2;
  return wordsOf(label).map((one) => one[0]).join("").includes(word) ? 1 : 0;
}

/** The commands in which each word of `query` is found, the best first, those about the workload `here` before their like; all of them if it is empty. */
export function ranked(commands: Command[], query: string, here: string | null = null): Command[] {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const scored = commands.map((command) => {
    const label = command.label.toLowerCase(), others = (command.words ?? "").toLowerCase(), detail = (command.detail ?? "").toLowerCase();
    const fits = words.map((word) => fit(word, label, others, detail));
    const score = fits.reduce((sum, one) => sum + one, 0) + (label === words.join(" ") ? 1 : 0) + (here !== null && command.workload === here ? 0.5 : 0);
    return { command, score: fits.includes(0) ? -1 : score };
  });
  return scored.filter((one) => one.score >= 0).sort((left, right) => right.score - left.score || kinds.indexOf(left.command.kind) - kinds.indexOf(right.command.kind)).map((one) => one.command);
}
