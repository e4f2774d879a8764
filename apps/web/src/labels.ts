// Where labels go, so that none covers another.

// Moves centres apart by at least `gap`, within [low, high], as little as may be.
export function spread(wanted: number[], gap: number, low: number, high: number): number[] {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a]! - wanted[b]!);
  const step = Math.min(gap, (high - low) / Math.max(1, wanted.length - 1));
  const placed = [...wanted];
  let floor = low;
  for (const i of order) {
    placed[i] = Math.max(placed[i]!, floor);
    floor = placed[i]! + step;
  }
  let ceiling = high;
  for (const i of order.reverse()) {
    placed[i] = Math.min(placed[i]!, ceiling);
    ceiling = placed[i]! - step;
  }
  return placed;
}

export interface Spoken {
  x: number;
  y: number;
  text: string;
}

export interface Placed extends Spoken {
  dx: number;
  dy: number;
  anchor: "start" | "end" | "middle";
}

const letter = 6.6;
const line = 13;

// Puts each text beside its mark where it covers neither a mark nor an earlier text; leaves out what
// finds no room. The first are the most important.
export function placed(items: Spoken[], width: number, height: number, marks: {x: number; y: number}[]): Placed[] {
  type Box = {left: number; top: number; right: number; bottom: number};
  const taken: Box[] = marks.map(({x, y}) => ({left: x - 5, right: x + 5, top: y - 5, bottom: y + 5}));
  const out: Placed[] = [];
  for (const item of items) {
    const wide = item.text.length * letter;
    const options = [
      {dx: 10, dy: 0, anchor: "start" as const}, {dx: -10, dy: 0, anchor: "end" as const},
      {dx: 0, dy: -14, anchor: "middle" as const}, {dx: 0, dy: 15, anchor: "middle" as const},
      {dx: 9, dy: -12, anchor: "start" as const}, {dx: 9, dy: 13, anchor: "start" as const},
      {dx: -9, dy: -12, anchor: "end" as const}, {dx: -9, dy: 13, anchor: "end" as const},
    ];
    for (const {dx, dy, anchor} of options) {
      const start = item.x + dx - (anchor === "end" ? wide : anchor === "middle" ? wide / 2 : 0);
      const box = {left: start, right: start + wide, top: item.y + dy - line / 2, bottom: item.y + dy + line / 2};
      const inside = box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height;
      const free = taken.every((t) => t.right < box.left || t.left > box.right || t.bottom < box.top || t.top > box.bottom);
      if (!inside || !free) continue;
      taken.push(box);
      out.push({...item, dx, dy, anchor});
      break;
    }
  }
  return out;
}
