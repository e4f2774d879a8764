// What a chart says about the mark under the pointer, or under the arrow keys.

export interface Spot {
  x: number;  // of its middle, in pixels of the drawing
  y: number;
  width?: number;  // of a bar; a mark has none and is found by nearness
  height?: number;
  group: string;  // the mechanism or kind that it belongs to
  html: string;
}

const reach = 36;
const barReach = 3;

export class Hover {
  private spots: Spot[] = [];
  private current: Spot | null = null;

  constructor(private readonly box: HTMLElement, private readonly tip: HTMLElement) {
    box.addEventListener("pointermove", (event) => this.point(event));
    box.addEventListener("pointerdown", (event) => this.point(event));
    box.addEventListener("pointerleave", () => this.show(null));
    box.addEventListener("blur", () => this.show(null));
    box.addEventListener("keydown", (event) => this.key(event));
  }

  // In reading order: the arrow keys follow it.
  follow(spots: Spot[]): void {
    this.spots = spots;
    this.show(null);
  }

  private point(event: PointerEvent): void {
    const frame = this.box.getBoundingClientRect();
    const x = event.clientX - frame.left;
    const y = event.clientY - frame.top;
    let best: Spot | null = null;
    let nearest = reach;
    for (const spot of this.spots) {
      const dx = Math.max(0, Math.abs(x - spot.x) - (spot.width ?? 0) / 2);
      const dy = Math.max(0, Math.abs(y - spot.y) - (spot.height ?? 0) / 2);
      const distance = Math.hypot(dx, dy);
      if (distance < (spot.width === undefined ? nearest : Math.min(nearest, barReach))) [best, nearest] = [spot, distance];
    }
    this.show(best);
  }

  private key(event: KeyboardEvent): void {
    const steps: {[key: string]: number} = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
    if (event.key === "Escape") return this.show(null);
    const ends: {[key: string]: number} = {Home: 0, End: this.spots.length - 1};
    const step = steps[event.key];
    if ((step === undefined && !(event.key in ends)) || this.spots.length === 0) return;
    event.preventDefault();
    const at = this.current ? this.spots.indexOf(this.current) : -1;
    const next = step === undefined ? ends[event.key]! : at < 0 ? 0 : at + step;
    this.show(this.spots[(next + this.spots.length) % this.spots.length]!);
  }

  private show(spot: Spot | null): void {
    if (spot === this.current && spot !== null) return;
    this.current = spot;
    const ring = this.box.querySelector<SVGCircleElement>(".ring");
    const svg = this.box.querySelector("svg");
    highlight(svg, spot?.group ?? null);
    this.tip.hidden = spot === null;
    ring?.setAttribute("visibility", spot && spot.width === undefined ? "visible" : "hidden");
    if (!spot) return;
    ring?.setAttribute("cx", String(spot.x));
    ring?.setAttribute("cy", String(spot.y));
    this.tip.innerHTML = spot.html;
    this.place(spot);
  }

  private place(spot: Spot): void {
    const frame = this.box.getBoundingClientRect();
    const size = this.tip.getBoundingClientRect();
    const gap = 14;
    const x = frame.left + spot.x;
    const y = frame.top + spot.y;
    const room = document.documentElement.clientWidth;
    const right = x + gap + size.width + 8 <= room;
    const left = right ? x + gap : x - gap - size.width;
    const top = y - size.height - gap >= 8 ? y - size.height - gap / 2 : y + gap;
    this.tip.style.left = `${Math.round(Math.min(Math.max(8, left), Math.max(8, room - size.width - 8)) + scrollX)}px`;
    this.tip.style.top = `${Math.round(top + scrollY)}px`;
  }
}

// Fades everything that does not belong to `group`.
export function highlight(svg: Element | null, group: string | null): void {
  if (!svg) return;
  svg.classList.toggle("focused", group !== null);
  for (const part of svg.querySelectorAll("[data-group]")) {
    part.classList.toggle("lit", part.getAttribute("data-group") === group);
  }
}
