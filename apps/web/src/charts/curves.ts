// A quantity against length: marks measured, with their spread; lines predicted, in their band.
import * as Plot from "@observablehq/plot";
import {groupClass, nameGroups, type Drawing} from "../chart";
import {lengthTick, ratio} from "../format";
import type {Spot} from "../hover";
import {spread} from "../labels";
import type {Look} from "../palette";
import type {Point, Record} from "../record";
import type {State} from "../state";
import {keyOf} from "../swatch";
import {binaryTicks, decimalTicks, evenBinaryTicks, evenTicks} from "../ticks";

export interface Value {
  measured: number | null;
  predicted: number | null;
  low?: number | null;  // of the prediction
  high?: number | null;
  from?: number | null;  // of the measurement
  to?: number | null;
}

export interface Quantity {
  name: string;
  value: (point: Point) => Value | null;
  tick: (value: number) => string;
  ticks: (low: number, high: number, most: number) => number[];  // of a logarithmic axis
  evenTicks: (high: number, most: number) => number[];
  tip: (point: Point, value: Value, times: number | null) => string;
}

interface Row extends Value {
  point: Point;
  n: number;
  times: number | null;  // as much as flash
  tip: string;
}

interface Curve {
  name: string;
  index: number;
  rows: Row[];
  end: number;  // its last value
}

const present = (value: number | null | undefined): value is number => value != null && value > 0;
const shownOf = (row: Value): number => (present(row.measured) ? row.measured : row.predicted!);

const labelWidth = 142;
const roomForLabels = 640;
const labelGap = 14.5;

// What flash takes at length n; null where it is not known.
function flashAt(record: Record, quantity: Quantity, n: number): number | null {
  const point = record.points.find((p) => p.mechanism === "flash" && p.length === n);
  const value = point && quantity.value(point);
  return value && (present(value.measured) || present(value.predicted)) ? shownOf(value) : null;
}

function divided(value: Value, by: number): Value {
  const over = (v: number | null | undefined): number | null => (v == null ? null : v / by);
  return {measured: over(value.measured), predicted: over(value.predicted), low: over(value.low), high: over(value.high),
          from: over(value.from), to: over(value.to)};
}

function rowsOf(record: Record, quantity: Quantity, name: string, relative: boolean): Row[] {
  const rows = record.points.filter((p) => p.mechanism === name).flatMap((point) => {
    const value = quantity.value(point);
    if (!value || !(present(value.measured) || present(value.predicted))) return [];
    const flash = flashAt(record, quantity, point.length);
    if (relative && !flash) return [];
    const times = flash ? shownOf(value) / flash : null;
    return [{...(relative ? divided(value, flash!) : value), point, n: point.length, times, tip: quantity.tip(point, value, times)}];
  });
  return rows.sort((a, b) => a.n - b.n);
}

function curvesOf(record: Record, state: State, quantity: Quantity): Curve[] {
  return record.mechanisms.map(({name}, index) => ({name, index}))
    .filter(({name}) => state.chosen.has(name))
    .map(({name, index}) => ({name, index, rows: rowsOf(record, quantity, name, state.scale === "relative")}))
    .filter(({rows}) => rows.length > 0)
    .map((curve) => ({...curve, end: shownOf(curve.rows.at(-1)!)}));
}

function marksOf({rows, index}: Curve, look: Look): Plot.Markish[] {
  const common = {className: groupClass(index), x: "n"};
  const line = rows.filter((r) => present(r.predicted));
  const band = rows.filter((r) => present(r.low) && present(r.high));
  const dots = rows.filter((r) => present(r.measured));
  const whiskers = dots.filter((r) => present(r.from) && present(r.to));
  return [
    Plot.areaY(band, {...common, y1: "low", y2: "high", fill: look.color, className: `${groupClass(index)} band`}),
    Plot.lineY(line, {...common, y: "predicted", stroke: look.color, strokeWidth: 1.6,
                      strokeDasharray: look.dash, strokeLinecap: "round"}),
    Plot.ruleX(whiskers, {...common, y1: "from", y2: "to", stroke: look.color, strokeWidth: 1.6}),
    Plot.dot(dots, {...common, y: "measured", fill: look.color, symbol: look.symbol, r: 4.2,
                    stroke: "var(--surface)", strokeWidth: 0.8}),
  ];
}

// The name of each curve beside its end, tied to it by a thin line.
function nameEnds(plot: SVGSVGElement & Plot.Plot, curves: Curve[], looks: Map<string, Look>, top: number, bottom: number): void {
  const [xAt, yAt] = [plot.scale("x")!.apply, plot.scale("y")!.apply];
  const tops = spread(curves.map((c) => yAt(c.end) as number), labelGap, top, bottom);
  const right = Math.max(...curves.map((c) => xAt(c.rows.at(-1)!.n) as number));
  curves.forEach(({name, index, rows, end}, i) => {
    const start = xAt(rows.at(-1)!.n) as number;
    const color = looks.get(name)!.color;
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", `M${start + 6} ${yAt(end)}L${right + 18} ${tops[i]}`);
    path.setAttribute("class", `${groupClass(index)} tie`);
    path.setAttribute("stroke", color);
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.setAttribute("x", String(right + 22));
    text.setAttribute("y", String(tops[i]));
    text.setAttribute("dy", "0.35em");
    text.setAttribute("text-anchor", "start");
    text.setAttribute("class", `${groupClass(index)} name`);
    text.setAttribute("fill", color);
    text.textContent = name;
    plot.append(path, text);
  });
}

export function drawCurves(record: Record, state: State, looks: Map<string, Look>, quantity: Quantity,
                           width: number): Drawing {
  const curves = curvesOf(record, state, quantity);
  const all = curves.flatMap(({rows}) => rows);
  const relative = state.scale === "relative";
  const name = relative ? `${quantity.name}, relative to flash` : quantity.name;
  if (all.length === 0) return {plot: null, label: `${name} against length.`, spots: []};

  const log = state.axes === "log";
  const labelled = width >= roomForLabels;
  const height = labelled ? Math.round(Math.min(520, width * 0.54)) : Math.round(Math.max(320, width * 0.95));
  const margins = {marginLeft: 66, marginRight: labelled ? labelWidth : 14, marginTop: 28, marginBottom: 40};
  const most = labelled ? 9 : 6;
  const values = all.flatMap((r) => [r.measured, r.predicted]).filter(present);
  const [low, high] = [Math.min(...values) / 1.25, Math.max(...values) * 1.25];
  const lengths = all.map((r) => r.n);
  const [from, to] = [Math.min(...lengths), Math.max(...lengths)];
  const tick = (value: number): string => (relative ? `${ratio(value)} ×` : quantity.tick(value));
  const ticks = log ? (relative ? decimalTicks : quantity.ticks)(low, high, most)
                    : (relative ? evenTicks : quantity.evenTicks)(high, most);
  const plot = Plot.plot({
    width, height, ...margins, style: {background: "none"},
    x: {...(log ? {type: "log", base: 2, domain: [from / 1.06, to * 1.06]} : {domain: [0, to * 1.02]}), label: null},
    y: {...(log ? {type: "log", domain: [low, high]} : {domain: [0, high]}), label: null, clamp: true},
    marks: [
      Plot.gridY(ticks),
      Plot.axisY(ticks, {text: (v: number) => tick(v), tickSize: 0, label: null}),
      Plot.axisX(log ? binaryTicks(from, to, most + 2) : evenBinaryTicks(to, most - 1),
                 {text: (v: number) => lengthTick(v), tickSize: 4, label: null}),
      Plot.text(["length n, in tokens"], {frameAnchor: "bottom-right", dy: 36, className: "axis-name"}),
      Plot.text([name], {frameAnchor: "top-left", dx: -66, dy: -22, className: "axis-name", textAnchor: "start"}),
      ...curves.flatMap((curve) => marksOf(curve, looks.get(curve.name)!)),
    ],
  }) as SVGSVGElement & Plot.Plot;
  if (labelled) nameEnds(plot, curves, looks, margins.marginTop + 2, height - margins.marginBottom - 2);
  nameGroups(plot, record.mechanisms.map((m) => m.name));

  const [xAt, yAt] = [plot.scale("x")!.apply, plot.scale("y")!.apply];
  const spots: Spot[] = curves.flatMap((curve) => curve.rows.map((r) => ({
    x: xAt(r.n) as number, y: yAt(shownOf(r)) as number, group: curve.name, html: r.tip})));
  const label = `${name} against length for ${curves.map((c) => c.name).join(", ")}, ` +
                `${tick(Math.min(...values))} to ${tick(Math.max(...values))}.`;
  const legend = labelled ? undefined : curves.map((c) => keyOf(c.name, looks.get(c.name)!)).join("");
  return {plot, label, spots, legend};
}
