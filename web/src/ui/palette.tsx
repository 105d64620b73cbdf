// The command palette: a few letters, arrows and Enter go anywhere and do what one may do there.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ranked, type Command } from "../logic/commands";
import { parseView } from "../state/route";
import { closeDialog, openDialog, readState } from "../state/store";
import { t } from "../text";
import { Dialog } from "./basics";
import { commandsOf } from "./commands";

/** More than anybody reads: who wants another one types on. */
const most = 60;

const onApple = /Mac|iPhone|iPad/.test(navigator.platform);
export const paletteKey = onApple ? "⌘ K" : "Ctrl K";
export const isPaletteKey = (event: KeyboardEvent): boolean => event.key.toLowerCase() === "k" && (onApple ? event.metaKey : event.ctrlKey) && !event.shiftKey && !event.altKey;

/** The workload of the page that is looked at. */
function workloadHere(): string | null {
  const view = parseView(location.pathname, location.search);
  return view.page === "workload" ? view.name : null;
}

/** Before anything is typed: what may be done to the workload of the page, and all places. */
function atFirst(commands: Command[], here: string | null): Command[] {
  const does = (command: Command) => command.kind === "action" || command.kind === "copy";
  return [...commands.filter((command) => does(command) && command.workload === here), ...ranked(commands.filter((command) => !does(command)), "")];
}

export function Palette({ about }: { about: string | null }) {
  // As they were when it was opened: nothing moves under the hands of who chooses.
  const [commands] = useState(() => commandsOf(readState(), about));
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const found = query.trim() === "" ? (about === null ? atFirst(commands, workloadHere()) : commands) : ranked(commands, query, workloadHere());
  const shown = found.slice(0, most);
  useLayoutEffect(() => document.getElementById(`command-${at}`)?.scrollIntoView({ block: "nearest" }), [at, query]);
  const choose = (command: Command | undefined) => {
    if (!command) return;
    // The focus is back where it was before the command moves it.
    input.current?.closest("dialog")?.close();
    closeDialog();
    command.run();
  };
  const press = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Enter") choose(shown[at]);
    else if (step !== 0 && shown.length > 0) setAt((at + step + shown.length) % shown.length);
    else return;
    event.preventDefault();
  };
  const title = about === null ? t("palette.title") : t("palette.about", { name: about });
  return (
    <Dialog title={title} onClose={closeDialog} bare>
      <div class="palette">
        <input ref={input} type="text" role="combobox" aria-expanded="true" aria-controls="commands" aria-autocomplete="list" aria-activedescendant={shown.length > 0 ? `command-${at}` : undefined} aria-label={title}
          placeholder={about === null ? t("palette.hint") : title} autocomplete="off" spellcheck={false} autofocus value={query} onKeyDown={press} onInput={(event) => { setQuery(event.currentTarget.value); setAt(0); }} />
        <ul id="commands" role="listbox" aria-label={t("palette.title")}>
          {shown.map((command, index) => (
            <li key={`${command.kind} ${command.label}`} id={`command-${index}`} role="option" aria-selected={index === at} onPointerMove={() => setAt(index)} onClick={() => choose(command)}>
              <span class="command-label">{command.label}</span>
              {command.detail && <span class="faint">{command.detail}</span>}
              <span class="command-kind">{t(`palette.kind.${command.kind}`)}</span>
            </li>
          ))}
        </ul>
        <p class="palette-count faint" role="status">{found.length === 0 ? t("palette.none") : found.length > most ? t("palette.more", { count: found.length - most }) : t("palette.count", { count: found.length })}</p>
      </div>
    </Dialog>
  );
}

/** The same for the mouse. */
export function PaletteButton() {
  return (
    <button type="button" class="palette-button" onClick={() => openDialog({ kind: "palette", about: null })}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true"><circle cx="7" cy="7" r="4.5" /><path d="M10.5 10.5 14 14" /></svg>
      <span>{t("palette.open")}</span> <kbd>{paletteKey}</kbd>
    </button>
  );
}
