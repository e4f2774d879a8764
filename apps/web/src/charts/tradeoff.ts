// Error of the output against time at one length, with the front: what nothing beats in both.
import * as Plot from "@observablehq/plot";
import {groupClass, nameGroups, tipHtml, type Drawing} from "../chart";
import {count, escaped, percent, ratio, seconds, secondsTick} from "../format";
import {placed} from "../labels";
import type {Look} from "../palette";
import type {Record} from "../record";
import type {State} from "../state";
import {decimalTicks, evenTicks} from "../ticks";

export interface Choice {
  name: string;
  seconds: number;
  error: number;
}

// Rounding is all that separates these from exact attention.
const exactBelow = 1e-5;

export function choices(record: Record, state: State): Choice[] {
  return record.points.flatMap((p) => {
    const error = p.error?.[state.error];
    if (p.length !== state.length || p.time?.measured == null || error == null) return [];
    return state.chosen.has(p.mechanism) ? [{name: p.mechanism, seconds: p.time.measured, error}] : [];
  });
}

// Fastest first: each is closer to exact than all that are faster.
export function front(all: Choice[]): Choice[] {
  const level = (c: Choice): number => (c.error < exactBelow ? 0 : c.error);
  const sorted = [...all].sort((a, b) => a.seconds - b.seconds || level(a) - level(b));
  let best = Infinity;
  return sorted.filter((c) => {
    if (level(c) >= best) return false;
    best = level(c);
    return true;
  });
}

export function drawTradeoff(record: Record, state: State, looks: Map<string, Look>, width: number): Drawing {
  const all = choices(record, state);
  const best = front(all);
  const label = `Error against time at length ${count(state.length)}.`;
  if (all.length === 0) return {plot: null, label, spots: []};

  const log = state.axes === "log";
  const errors = all.map((c) => c.error).filter((e) => e >= exactBelow);
  const [low, high] = [Math.min(...errors, 0.1), Math.max(...errors, 0.2)];
  const floor = low / 2.2;
  const times = all.map((c) => c.seconds);
  const [fast, slow] = [Math.min(...times), Math.max(...times)];
  const level = (error: number): number => (error >= exactBelow ? error : log ? floor : 0);

  const narrow = width < 560;
  const height = Math.round(narrow ? Math.max(340, width) : Math.min(480, width * 0.5));
  const margins = {marginLeft: 58, marginRight: 24, marginTop: 26, marginBottom: 40};
  const most = narrow ? 5 : 8;
  const xTicks = log ? decimalTicks(fast / 1.15, slow * 1.15, most) : evenTicks(slow * 1.05, most);
  const yTicks = log ? [floor, ...decimalTicks(low / 1.2, high * 1.3, 7)] : evenTicks(high * 1.1, 7);
  const named = (value: number): string => (value === (log ? floor : 0) ? "exact" : ratio(value));
  const scales = {
    x: log ? {type: "log" as const, domain: [fast / 1.15, slow * 1.25]} : {domain: [0, slow * 1.1]},
    y: log ? {type: "log" as const, domain: [floor / 1.25, high * 1.35]} : {domain: [-high * 0.06, high * 1.15]},
  };
  const names = record.mechanisms.map((m) => m.name);
  const group = (c: Choice): string => groupClass(names.indexOf(c.name));
  const steps = best.map((c) => ({x: c.seconds, y: level(c.error)}));
  const plot = Plot.plot({
    width, height, ...margins, style: {background: "none"}, x: {...scales.x, label: null}, y: {...scales.y, label: null},
    marks: [
      Plot.gridY(yTicks), Plot.axisY(yTicks, {text: (v: number) => named(v), tickSize: 0, label: null}),
      Plot.axisX(xTicks, {text: (v: number) => secondsTick(v), tickSize: 4, label: null}),
      Plot.text(["measured time"], {frameAnchor: "bottom-right", dy: 36, className: "axis-name"}),
      Plot.text([`relative error of the ${state.error}`], {frameAnchor: "top-left", dx: -50, dy: -20, className: "axis-name", textAnchor: "start"}),
      Plot.line(steps, {x: "x", y: "y", curve: "step-after", className: "front"}),
      ...all.map((c) => Plot.dot([c], {
        x: "seconds", y: (d: Choice) => level(d.error), symbol: looks.get(c.name)!.symbol, r: best.includes(c) ? 6.5 : 5,
        fill: looks.get(c.name)!.color, fillOpacity: best.includes(c) ? 1 : 0.55, stroke: "var(--surface)", strokeWidth: 1,
        className: group(c)})),
    ],
  }) as SVGSVGElement & Plot.Plot;

  const [xAt, yAt] = [plot.scale("x")!.apply, plot.scale("y")!.apply];
  const at = (c: Choice) => ({x: xAt(c.seconds) as number, y: yAt(level(c.error)) as number, text: c.name, choice: c});
  const ordered = [...best, ...all.filter((c) => !best.includes(c))].map(at);
  addLabels(plot, placed(ordered, width, height - margins.marginBottom, ordered), best.map((c) => c.name), names);
  nameGroups(plot, names);
  const spots = ordered.map(({x, y, choice}) => ({
    x, y, group: choice.name,
    html: tipHtml(escaped(choice.name), `n = ${count(state.length)}`, [
      ["measured", seconds(choice.seconds)], [`${state.error} error`, ratio(choice.error)],
      ["on the front", best.includes(choice) ? "yes" : `no: ${beatenBy(choice, best)}`]]),
  }));
  const legend = `<span class="key"><svg width="30" height="10"><path class="front" d="M1 2H15V8H29"/></svg> front: ` +
                 `nothing else is both faster and closer to exact (${best.map((c) => escaped(c.name)).join(", ")})</span>`;
  return {plot, spots, legend, label: `${label} On the front: ${best.map((c) => c.name).join(", ")}.`};
}

function beatenBy(choice: Choice, best: Choice[]): string {
  const better = best.filter((c) => c.seconds <= choice.seconds && (c.error <= choice.error || c.error < exactBelow)).at(-1)!;
  return `${escaped(better.name)} takes ${percent(1 - better.seconds / choice.seconds)} less`;
}

// Texts that were placed by hand, in the style of the others.
export function addLabels(plot: SVGSVGElement, texts: ReturnType<typeof placed>, strong: string[], names: string[]): void {
  for (const {x, y, dx, dy, anchor, text} of texts) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", "text");
    node.setAttribute("x", String(x + dx));
    node.setAttribute("y", String(y + dy));
    node.setAttribute("dy", "0.35em");
    node.setAttribute("text-anchor", anchor);
    const index = names.indexOf(text);
    node.setAttribute("class", `spoken ${strong.includes(text) ? "strong" : ""} ${index < 0 ? "" : groupClass(index)}`);
    node.textContent = text;
    plot.append(node);
  }
}
