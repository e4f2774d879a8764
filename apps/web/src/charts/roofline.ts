// Kinds of operation on the machine's roof: FLOP/s ≤ min(peak, bandwidth · FLOP/byte).
import * as Plot from "@observablehq/plot";
import {groupClass, nameGroups, type Drawing} from "../chart";
import {count, escaped, rate} from "../format";
import {placed} from "../labels";
import {kindColor, kindOrder, kindSymbol} from "../palette";
import type {KindTime, Record} from "../record";
import type {State} from "../state";
import {decimalTicks} from "../ticks";
import {kindLegend, kindTip} from "./bars";
import {addLabels} from "./tradeoff";

interface Dot extends KindTime {
  mechanism: string;
  total: number;
  intensity: number;
  rate: number;
}

function dotsOf(record: Record, state: State): Dot[] {
  return record.points.filter((p) => p.length === state.length && p.kinds && state.chosen.has(p.mechanism)).flatMap((p) => {
    const total = p.kinds!.reduce((sum, k) => sum + k.seconds, 0);
    return p.kinds!.filter((k) => k.flops > 0 && k.bytes > 0 && k.seconds > 0).map((k) => ({
      ...k, mechanism: p.mechanism, total, intensity: k.flops / k.bytes, rate: k.flops / k.seconds}));
  });
}

export function drawRoofline(record: Record, state: State, width: number): Drawing {
  const {peak_flops: peak, bandwidth} = record.roofline;
  const dots = dotsOf(record, state);
  const label = `Roofline at length ${count(state.length)}: peak ${rate(peak, "FLOP/s")}, bandwidth ${rate(bandwidth, "B/s")}.`;
  if (dots.length === 0 || !(peak > 0) || !(bandwidth > 0)) return {plot: null, label, spots: []};

  const ridge = peak / bandwidth;
  const xs = [...dots.map((d) => d.intensity), ridge];
  const [left, right] = [Math.min(...xs) / 2, Math.max(...xs) * 2.5];
  const low = Math.min(...dots.map((d) => d.rate), bandwidth * left) / 2;
  const high = Math.max(peak, ...dots.map((d) => d.rate)) * 2;
  const roof = [left, ridge, right].map((x) => ({x, y: Math.min(peak, bandwidth * x)}));
  const narrow = width < 560;
  const height = Math.round(narrow ? Math.max(330, width * 0.9) : Math.min(460, width * 0.48));
  const margins = {marginLeft: 82, marginRight: 18, marginTop: 26, marginBottom: 40};
  const kinds = [...new Set(dots.map((d) => d.kind))].sort((a, b) => kindOrder(a) - kindOrder(b));
  const xTicks = decimalTicks(left, right, narrow ? 5 : 10);
  const yTicks = decimalTicks(low, high, 7);
  const plot = Plot.plot({
    width, height, ...margins, style: {background: "none"},
    x: {type: "log", domain: [left, right], label: null}, y: {type: "log", domain: [low, high], label: null},
    marks: [
      Plot.areaY(roof, {x: "x", y1: high, y2: "y", className: "beyond"}),
      Plot.gridY(yTicks), Plot.axisY(yTicks, {text: (v: number) => rate(v, "FLOP/s").replace(/\.0+ /, " "), tickSize: 0, label: null}),
      Plot.axisX(xTicks, {text: (v: number) => String(v), tickSize: 4, label: null}),
      Plot.text(["FLOPs per byte moved"], {frameAnchor: "bottom-right", dy: 36, className: "axis-name"}),
      Plot.text(["speed reached"], {frameAnchor: "top-left", dx: -74, dy: -20, className: "axis-name", textAnchor: "start"}),
      Plot.ruleX([ridge], {y1: low, y2: peak, className: "ridge"}),
      Plot.line(roof, {x: "x", y: "y", className: "roof"}),
      ...kinds.map((kind, index) => Plot.dot(dots.filter((d) => d.kind === kind), {
        x: "intensity", y: "rate", r: (d: Dot) => Math.sqrt(d.seconds / d.total), symbol: kindSymbol(kind), fill: kindColor(kind),
        fillOpacity: 0.75, stroke: "var(--surface)", strokeWidth: 0.8, className: groupClass(index)})),
    ],
    r: {domain: [0, 1], range: [2.5, 11]},
  }) as SVGSVGElement & Plot.Plot;

  const [xAt, yAt] = [plot.scale("x")!.apply, plot.scale("y")!.apply];
  const at = (d: Dot) => ({x: xAt(d.intensity) as number, y: yAt(d.rate) as number, text: d.kind});
  // Each kind is named once, at the mark that takes the largest share.
  const largest = kinds.map((kind) => dots.filter((d) => d.kind === kind).sort((a, b) => b.seconds / b.total - a.seconds / a.total)[0]!);
  addLabels(plot, placed(largest.map(at), width, height - margins.marginBottom, dots.map(at)), [], kinds);
  const flat = {x: xAt(right) as number, y: yAt(peak) as number, text: `${rate(peak, "FLOP/s")} peak`, dx: -2, dy: -11, anchor: "end" as const};
  const middle = Math.sqrt(left * ridge);
  const slope = {x: xAt(middle) as number, y: yAt(bandwidth * middle) as number, text: `${rate(bandwidth, "B/s")} of memory`, dx: 0, dy: -11, anchor: "middle" as const};
  addLabels(plot, [flat, slope], [flat.text, slope.text], []);
  const turn = Math.atan2((yAt(peak) as number) - (yAt(bandwidth * left) as number), (xAt(ridge) as number) - (xAt(left) as number));
  plot.lastElementChild!.setAttribute("transform", `rotate(${(turn * 180) / Math.PI} ${slope.x} ${slope.y})`);
  nameGroups(plot, kinds);
  const spots = dots.map((d) => ({...at(d), group: d.kind, html: kindTip(d, `${escaped(d.mechanism)}, n = ${count(state.length)}`, d.total)}));
  return {plot, spots, legend: kindLegend(kinds), label};
}
