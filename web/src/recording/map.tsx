// Memory by address: the blocks of one process in rows, the holes between them, and where unused address space was cut out.

import { useEffect, useRef, useState } from "preact/hooks";
import type { MomentPlace, RecordingMoment } from "../api/recording";
import { formatSize } from "../logic/format";
import { canvasFill, colours } from "../logic/palette";
import { callsOf, formatMoment, looksOf, piecesOf, type Piece } from "../logic/recording";
import { usePreferences } from "../state/preferences";
import { t } from "../text";
import { readInk } from "../ui/chart";
import { useWidth } from "./flame";

const rows = 10, rowHeight = 26, gap = 4;
/** The last look of these is grey, and stands for all the rest. */
const lookCount = 7;

interface Cut {
  piece: Piece;
  row: number;
  left: number;
  width: number;
}

/** Pieces cut at the ends of rows, in pixels. */
function cutsOf(pieces: Piece[], bytes: number, width: number): Cut[] {
  const perRow = Math.max(1, bytes / rows), cuts: Cut[] = [];
  for (const piece of pieces) {
    let at = piece.from, left = piece.bytes;
    do {
      const row = Math.min(rows - 1, Math.floor(at / perRow + 1e-9));
      const here = row === rows - 1 ? left : Math.min(left, (row + 1) * perRow - at);
      cuts.push({ piece, row, left: ((at - row * perRow) / perRow) * width, width: (here / perRow) * width });
      at += here;
      left -= here;
    } while (left > perRow * 1e-9);
  }
  return cuts;
}

export function AddressMap({ place, moment, process, longest }: { place: MomentPlace; moment: RecordingMoment; process: number; longest: number }) {
  const { dark } = usePreferences();
  const [box, width] = useWidth();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [told, tell] = useState<string | null>(null);
  const { map } = place;
  const { pieces, bytes } = piecesOf(map, process, longest);
  const { by, keyOf, looks } = looksOf(map, lookCount);
  const cuts = cutsOf(pieces, bytes, width);
  useEffect(() => {
    const element = canvas.current, ctx = element?.getContext("2d");
    if (!element || !ctx || width === 0) return;
    const ratio = devicePixelRatio, ink = readInk();
    element.width = width * ratio;
    element.height = rows * (rowHeight + gap) * ratio;
    ctx.scale(ratio, ratio);
    const fills = colours.map((_, look) => canvasFill(ctx, look, ratio));
    for (let row = 0; row < rows; row += 1) {
      ctx.fillStyle = ink.grid;
      ctx.fillRect(0, row * (rowHeight + gap), width, rowHeight);
    }
    for (const cut of cuts) {
      const top = cut.row * (rowHeight + gap);
      if (cut.piece.kind === "hole") continue;
      if (cut.piece.kind === "cut") {
        ctx.fillStyle = ink.bad;
        ctx.fillRect(cut.left - 1, top - 2, 2, rowHeight + 4);
        continue;
      }
      ctx.fillStyle = fills[looks.get(keyOf(cut.piece.run)) ?? 0] ?? ink.text;
      ctx.fillRect(cut.left, top, Math.max(0.75, cut.width), rowHeight);
      if (cut.width > 3) {
        ctx.fillStyle = ink.surface;
        ctx.fillRect(cut.left + cut.width - 1, top, 1, rowHeight);
      }
    }
  }, [cuts, width, dark]);
  const find = (event: MouseEvent) => {
    const edge = canvas.current?.getBoundingClientRect();
    if (!edge) return;
    const x = event.clientX - edge.left, row = Math.floor((event.clientY - edge.top) / (rowHeight + gap));
    const under = cuts.filter((cut) => cut.row === row && x >= cut.left && x <= cut.left + Math.max(2, cut.width)).pop();
    if (!under) return tell(null);
    const { run, kind, bytes: size } = under.piece, { runs } = map;
    if (kind !== "blocks") return tell(kind === "hole" ? t("recording.hole", { size: formatSize(size) }) : t("recording.cut", { address: runs.address[run] ?? "" }));
    const calls = callsOf(moment.sites[String(runs.site[run])]).reverse();
    tell([runs.address[run], formatSize(runs.bytes[run] ?? 0), (runs.count[run] ?? 1) > 1 ? t("recording.blocks", { count: runs.count[run] ?? 1 }) : "",
      t("recording.since", { time: formatMoment(runs.since_seconds[run] ?? 0) }), calls[0] ?? ""].filter(Boolean).join(" · "));
  };
  const label = t("recording.mapLabel", { blocks: map.blocks, holes: map.holes.count, bytes: formatSize(map.holes.bytes), largest: formatSize(map.holes.largest_bytes) });
  const shown = [...looks].slice(0, lookCount - 1);
  return (
    <>
      <div ref={box} class="address-map">
        <canvas ref={canvas} role="img" aria-label={label} onMouseMove={find} onMouseLeave={() => tell(null)} style={{ width: "100%", height: `${rows * (rowHeight + gap)}px` }} />
      </div>
      <p class="faint readout" role="status">{told ?? t("recording.mapHint", { size: formatSize(bytes / rows) })}</p>
      <ul class="legend">
        {shown.map(([key, look]) => <li key={key}><i class={`swatch look-${look}`} aria-hidden="true" /><span class="site">{by === "size" ? t("recording.sizeUpTo", { size: formatSize(key) }) : callsOf(moment.sites[String(key)]).reverse()[0] ?? t("recording.noSite")}</span></li>)}
        {looks.size > shown.length && <li><i class={`swatch look-${lookCount - 1}`} aria-hidden="true" /><span>{t("recording.otherBlocks")}</span></li>}
        <li><i class="swatch hole" aria-hidden="true" /><span>{t("recording.holes")}</span></li>
        <li><i class="swatch cut" aria-hidden="true" /><span>{t("recording.cuts")}</span></li>
      </ul>
    </>
  );
}
