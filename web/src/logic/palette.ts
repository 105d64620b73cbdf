// Which look a tenant has: a colour of Okabe and Ito and a pattern, so that it can be told apart without colours.

/** The eight looks; style/patterns.css has the same for HTML. Yellow goes last: it is weak on white. */
export const colours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f8f8f", "#f0e442"] as const;

const given = new Map<string, number>();

/** The look of a tenant, 0 … 7. The first to be seen keep theirs as long as the page is open. */
export function lookOf(tenant: string): number {
  let look = given.get(tenant);
  if (look === undefined) {
    look = given.size % colours.length;
    given.set(tenant, look);
  }
  return look;
}

/** Called with each list of tenants, so that the looks do not depend on which page was opened first. */
export function giveLooks(tenants: string[]): void {
  [...tenants].sort().forEach(lookOf);
}

type Draw = (ink: CanvasRenderingContext2D) => void;
const line = (ink: CanvasRenderingContext2D, fromX: number, fromY: number, toX: number, toY: number) => {
  ink.moveTo(fromX, fromY);
  ink.lineTo(toX, toY);
};
const size = 8;
const draws: Draw[] = [
  () => undefined,
  (ink) => { line(ink, -2, 2, 2, -2); line(ink, 0, size, size, 0); line(ink, 6, 10, 10, 6); },
  (ink) => { line(ink, 0, 4, size, 4); },
  (ink) => { line(ink, 4, 0, 4, size); },
  (ink) => { line(ink, -2, 6, 2, 10); line(ink, 0, 0, size, size); line(ink, 6, -2, 10, 2); },
  (ink) => { line(ink, 0, 4, size, 4); line(ink, 4, 0, 4, size); },
  (ink) => { ink.moveTo(5, 4); ink.arc(4, 4, 1, 0, 7); },
  (ink) => { line(ink, 0, 0, size, size); line(ink, 0, size, size, 0); },
];

/** The same look for a canvas. */
export function canvasFill(context: CanvasRenderingContext2D, look: number, ratio: number): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = size * ratio;
  const ink = tile.getContext("2d");
  const colour = colours[look] ?? colours[0];
  if (!ink) return colour;
  ink.scale(ratio, ratio);
  ink.fillStyle = colour;
  ink.fillRect(0, 0, size, size);
  ink.strokeStyle = "rgba(255, 255, 255, 0.5)";
  ink.lineWidth = 1.25;
  ink.beginPath();
  draws[look]?.(ink);
  ink.stroke();
  return context.createPattern(tile, "repeat") ?? colour;
}
