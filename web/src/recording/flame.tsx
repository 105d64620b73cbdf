// A flame graph of what was held: its root on top, each call below the one that made it. A box is as wide as its bytes.

import { useEffect, useRef, useState } from "preact/hooks";
import { formatExact, formatSize } from "../logic/format";
import { flameBoxes, type Flame } from "../logic/recording";
import { t } from "../text";

const rowHeight = 25;
/** Narrower boxes can be neither read nor hit. */
const leastPixels = 3, leastTarget = 24;

/** A warm colour that the name alone decides, so that a call looks the same at each moment. */
function hueOf(name: string): string {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 997;
  return `flame-${hash % 6}`;
}

export function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const box = useRef<HTMLDivElement | null>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

export function FlameGraph({ root, label }: { root: Flame; label: string }) {
  const [path, setPath] = useState<string[]>([]);
  const [told, tell] = useState<string | null>(null);
  const [box, width] = useWidth();
  const boxes = width > 0 ? flameBoxes(root, path, leastPixels / width) : [];
  const depth = Math.max(0, ...boxes.map((one) => one.depth));
  const share = (bytes: number) => (root.bytes > 0 ? ` (${((bytes / root.bytes) * 100).toFixed(1)}%)` : "");
  return (
    <>
      <div ref={box} class="flame" role="group" aria-label={label} style={{ height: `${(depth + 1) * rowHeight}px` }} onMouseLeave={() => tell(null)}>
        {boxes.map((one) => {
          const text = `${one.node.name} · ${formatSize(one.node.bytes)}${share(one.node.bytes)}`;
          const place = { left: `${one.left * 100}%`, width: `${one.width * 100}%`, top: `${one.depth * rowHeight}px` };
          const about = { key: one.path.join("\n"), class: `flame-box ${one.depth < path.length ? "flame-above" : hueOf(one.node.name)}`, style: place, title: `${text} · ${formatExact(one.node.bytes)}`, onMouseEnter: () => tell(text) };
          return one.width * width >= leastTarget
            ? <button type="button" {...about} onClick={() => setPath(one.path)} onFocus={() => tell(text)}>{one.width * width > 40 ? text : ""}<span class="hidden">{one.width * width > 40 ? "" : text}</span></button>
            : <i {...about} class={`${about.class} narrow`} aria-hidden="true" />;
        })}
      </div>
      <p class="faint readout" role="status">{told ?? t("recording.flameHint")}</p>
    </>
  );
}
