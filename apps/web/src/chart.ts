// A chart in its figure: drawn at the width there is, drawn anew when the choice or the width
// changes, with what the pointer or the keys find.
import {Hover, type Spot} from "./hover";

export interface Drawing {
  plot: SVGSVGElement | HTMLElement | null;  // null: there is nothing to draw
  label: string;                             // what a screen reader says of it
  spots: Spot[];
  legend?: string;  // HTML
}

export type Draw = (width: number) => Drawing;

const ringRadius = "7";

export class Chart {
  private readonly box = document.createElement("div");
  private readonly legend = document.createElement("div");
  private readonly hover: Hover;
  private width = 0;

  constructor(figure: HTMLElement, tip: HTMLElement, private readonly draw: Draw) {
    this.box.className = "plot";
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "group");
    this.box.setAttribute("aria-roledescription", "chart");
    this.legend.className = "legend";
    figure.append(this.box, this.legend);
    this.hover = new Hover(this.box, tip);
    new ResizeObserver(() => this.resize()).observe(figure);
    this.resize();
  }

  redraw(): void {
    if (this.width === 0) return;
    const {plot, label, spots, legend} = this.draw(this.width);
    this.legend.innerHTML = legend ?? "";
    this.legend.hidden = !legend;
    this.box.setAttribute("aria-label", plot ? `${label} Arrow keys step through its values.` : label);
    if (!plot) {
      this.box.innerHTML = `<p class="none">Nothing to show: choose a mechanism or another length.</p>`;
      return this.hover.follow([]);
    }
    this.box.replaceChildren(plot);
    const svg = this.box.querySelector("svg")!;
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    svg.append(ring());
    this.hover.follow(spots);
  }

  private resize(): void {
    const width = Math.floor(this.box.clientWidth);
    if (width === this.width) return;
    this.width = width;
    this.redraw();
  }
}

function ring(): SVGCircleElement {
  const circle = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  circle.setAttribute("class", "ring");
  circle.setAttribute("r", ringRadius);
  circle.setAttribute("visibility", "hidden");
  return circle;
}

// Marks of Plot carry a class; this turns it into the name of the group that they belong to.
export const groupClass = (index: number): string => `group-${index}`;

export function nameGroups(plot: Element, names: string[]): void {
  names.forEach((name, index) => {
    for (const part of plot.querySelectorAll(`.${groupClass(index)}`)) part.setAttribute("data-group", name);
  });
}

// What a tip shows: a title and rows of a name and a value.
export function tipHtml(title: string, note: string, rows: [string, string][]): string {
  const body = rows.map(([name, value]) => `<div><dt>${name}</dt><dd>${value}</dd></div>`).join("");
  return `<p><strong>${title}</strong> <span>${note}</span></p><dl>${body}</dl>`;
}
