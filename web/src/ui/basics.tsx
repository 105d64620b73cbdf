// The smallest things that pages are made of.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { commandLine } from "../logic/export";
import { formatClock, formatDay, formatDuration, formatExact, formatSize } from "../logic/format";
import { lookOf } from "../logic/palette";
import { navigate } from "../state/route";
import { useStore } from "../state/store";
import { saidText, t } from "../text";
import type { Said } from "../text/message";

/** Unknown is said, with the reason, never shown as 0. */
/** Why something is not known: what the daemon says, or a text of this page. */
export type Reason = Said | string | undefined;

export const reasonText = (reason: Reason): string => (reason === undefined ? t("na.noReason") : typeof reason === "string" ? reason : saidText(reason));

export function NotKnown({ reason, full }: { reason: Reason; full?: boolean }) {
  const why = reasonText(reason);
  if (full) return <span class="na">n/a ({why})</span>;
  return <span class="na" title={why}>n/a<span class="hidden"> ({why})</span></span>;
}

/** A size as the command line writes it; the exact bytes are in the title. */
export function Amount({ bytes, na, full }: { bytes: number | null | undefined; na?: Reason; full?: boolean }) {
  if (bytes === null || bytes === undefined) return <NotKnown reason={na} {...(full ? { full } : {})} />;
  return <data class="amount" value={String(bytes)} title={formatExact(bytes)}>{formatSize(bytes)}</data>;
}

export function Span({ seconds, na, full }: { seconds: number | null | undefined; na?: Reason; full?: boolean }) {
  if (seconds === null || seconds === undefined) return <NotKnown reason={na} {...(full ? { full } : {})} />;
  return <span class="amount" title={`${seconds} s`}>{formatDuration(seconds)}</span>;
}

export function Time({ time, day }: { time: string; day?: boolean }) {
  return <time dateTime={time} title={time} class="amount">{day ? `${formatDay(time)} ` : ""}{formatClock(time)}</time>;
}

export function Link(props: { to: string; class?: string; current?: boolean; label?: string; children: ComponentChildren }) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(props.to);
  };
  return (
    <a href={props.to} class={props.class} aria-current={props.current ? "page" : undefined} aria-label={props.label} onClick={follow}>
      {props.children}
    </a>
  );
}

export function Swatch({ tenant }: { tenant: string }) {
  return <i class={`swatch look-${lookOf(tenant)}`} aria-hidden="true" />;
}

export function Badge({ tone, children, title }: { tone: "ok" | "warn" | "bad" | "plain"; children: ComponentChildren; title?: string }) {
  return <span class={`badge ${tone}`} title={title}>{children}</span>;
}

export function Panel(props: { title: ComponentChildren; id: string; tools?: ComponentChildren; children: ComponentChildren; class?: string }) {
  return (
    <section class={`panel ${props.class ?? ""}`} aria-labelledby={props.id}>
      <header class="panel-head">
        <h2 id={props.id}>{props.title}</h2>
        {props.tools && <div class="tools">{props.tools}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** What is missing, and what to do about it. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <Command line={command} />}
    </div>
  );
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

const useCommand = (line: string): string => commandLine(line, useStore((state) => state.session?.command_options));

/** A command to type, with a button that copies it. Without a clipboard (plain HTTP) the text is selected instead. */
export function Command(props: { line: string }) {
  const line = useCommand(props.line);
  const [done, setDone] = useState(false);
  const code = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => {
    if (await copyText(line)) setDone(true);
    else if (code.current) getSelection()?.selectAllChildren(code.current);
  };
  return (
    <span class="command">
      <code ref={code}>{line}</code>
      <button type="button" class="quiet" onClick={() => void copy()} aria-label={`${t("copy.copy")}: ${line}`}>
        {done ? t("copy.done") : t("copy.copy")}
      </button>
    </span>
  );
}

export interface CopyChoices {
  name: string;
  csv: () => string;
  json: () => unknown;
  cli: string;
}

/** «copy as CSV/JSON/CLI». Where the clipboard is out of reach the text is shown, selected. */
export function CopyMenu({ name, csv, json, cli: plain }: CopyChoices) {
  const cli = useCommand(plain);
  const [open, setOpen] = useState(false);
  const [said, setSaid] = useState("");
  const [text, setText] = useState<string | null>(null);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    const outside = (event: Event) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
    };
  }, [open]);
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => setSaid(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async (content: string) => {
    setOpen(false);
    button.current?.focus();
    if (await copyText(content)) setSaid(t("copy.done"));
    else setText(content);
  };
  const escape = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !open) return;
    event.stopPropagation();
    setOpen(false);
    button.current?.focus();
  };
  const choices: [string, () => string][] = [
    ["CSV", csv], ["JSON", () => JSON.stringify(json(), null, 2)], ["CLI", () => cli],
  ];
  return (
    <div class="menu" ref={root} onKeyDown={escape}>
      <button type="button" class="quiet" ref={button} aria-expanded={open} onClick={() => setOpen(!open)} aria-label={`${t("copy.as")}: ${name}`}>
        <span role="status">{said || t("copy.as")}</span> <span aria-hidden="true">▾</span>
      </button>
      {open && (
        <ul class="menu-list">
          {choices.map(([label, make]) => (
            <li key={label}><button type="button" onClick={() => void copy(make())}>{label}</button></li>
          ))}
        </ul>
      )}
      {text !== null && (
        <Dialog title={t("copy.byHand")} onClose={() => setText(null)}>
          <textarea class="copy-text" readOnly rows={12} aria-label={t("copy.byHand")} ref={(area) => area?.select()}>{text}</textarea>
        </Dialog>
      )}
    </div>
  );
}

/** A modal dialog of the browser: focus stays inside, Escape closes, focus goes back. `bare`: its title is spoken, not shown. */
export function Dialog({ title, onClose, bare, children }: { title: string; onClose: () => void; bare?: boolean; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const shown = useRef(true);
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => {
      shown.current = false;
      element?.close();
    };
  }, []);
  return (
    <dialog ref={dialog} class={bare ? "bare" : ""} aria-labelledby="dialog-title" onClose={() => shown.current && onClose()} onClick={(event) => event.target === dialog.current && onClose()}>
      <div class="dialog-body">
        <header class={bare ? "hidden" : "panel-head"}>
          <h2 id="dialog-title">{title}</h2>
          {!bare && <button type="button" class="quiet" onClick={onClose}>{t("close")}</button>}
        </header>
        {children}
      </div>
    </dialog>
  );
}

export interface Choice<Value extends string> {
  value: Value;
  label: string;
}

/** A few choices of which one holds, as radio buttons that look like one control. */
export function Choices<Value extends string>(props: {
  label: string; name: string; value: string; choices: Choice<Value>[]; onChange: (value: Value) => void;
}) {
  return (
    <fieldset class="choices">
      <legend class="hidden">{props.label}</legend>
      {props.choices.map((choice) => (
        <label key={choice.value}>
          <input type="radio" name={props.name} value={choice.value} checked={choice.value === props.value} onChange={() => props.onChange(choice.value)} />
          <span>{choice.label}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** A share as a thin bar. The number stands beside it in text. */
export function Meter({ share, mark, look, tone }: { share: number; mark?: number | null; look?: number | null; tone?: "bad" | "warn" | null }) {
  const percent = (part: number) => `${Math.min(100, Math.max(0, part * 100))}%`;
  return (
    <span class={`meter ${tone ?? ""}`} aria-hidden="true">
      <i class={look === null || look === undefined ? "fill" : `fill look-${look}`} style={{ width: percent(share) }} />
      {mark ? <i class="mark" style={{ left: percent(mark) }} /> : null}
    </span>
  );
}
