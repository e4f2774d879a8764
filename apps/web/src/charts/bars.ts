// Stacked bars of the time of each kind of operation.
import * as Plot from "@observablehq/plot";
import {groupClass, nameGroups, tipHtml, type Drawing} from "../chart";
import {count, escaped, percent, rate, seconds, secondsTick} from "../format";
import {kindColor, kindOrder} from "../palette";
import type {KindTime, Record} from "../record";
import {nearest, type State} from "../state";
import {evenTicks} from "../ticks";

interface Bar {
  name: string;
  kinds: KindTime[];
}

interface Piece extends KindTime {
  bar: string;
  total: number;
  from: number;
  to: number;
}

const rowHeight = 30;

const totalOf = (bar: Bar): number => bar.kinds.reduce((sum, k) => sum + k.seconds, 0);

function piecesOf(bar: Bar, share: boolean): Piece[] {
  const total = totalOf(bar);
  let at = 0;
  return [...bar.kinds].sort((a, b) => kindOrder(a.kind) - kindOrder(b.kind)).map((k) => {
    const from = at;
    at += share ? k.seconds / total : k.seconds;
    return {...k, bar: bar.name, total, from, to: at};
  });
}

export function kindTip(piece: KindTime, title: string, total: number): string {
  return tipHtml(escaped(piece.kind), title, [
    ["time", `${seconds(piece.seconds)} <small>${percent(piece.seconds / total)}</small>`],
    ["FLOPs", count(piece.flops)], ["bytes", count(piece.bytes)],
    ["intensity", `${(piece.bytes ? piece.flops / piece.bytes : 0).toPrecision(3)} FLOP/B`],
    ["reached", rate(piece.seconds ? piece.flops / piece.seconds : 0, "FLOP/s")],
    ["bound by", escaped(piece.bound)],
  ]);
}

export function kindLegend(kinds: string[]): string {
  const sorted = [...new Set(kinds)].sort((a, b) => kindOrder(a) - kindOrder(b));
  return sorted.map((k) => `<span class="key"><i style="background:${kindColor(k)}"></i>${escaped(k)}</span>`).join("");
}

export function drawBars(bars: Bar[], share: boolean, length: number, width: number): Drawing {
  const label = `Time by kind of operation at length ${count(length)}.`;
  if (bars.length === 0) return {plot: null, label, spots: []};
  const narrow = width < 560;
  const pieces = bars.flatMap((bar) => piecesOf(bar, share));
  const kinds = [...new Set(pieces.map((p) => p.kind))];
  const most = share ? 1 : Math.max(...bars.map(totalOf));
  const longest = Math.max(...bars.map((b) => b.name.length));
  const margins = {marginLeft: Math.min(150, longest * 6.9 + 14), marginRight: narrow ? 58 : 76, marginTop: 4, marginBottom: 34};
  const ticks = share ? [0, 0.25, 0.5, 0.75, 1] : evenTicks(most, narrow ? 3 : 7);
  const plot = Plot.plot({
    width, height: bars.length * rowHeight + margins.marginTop + margins.marginBottom, ...margins,
    style: {background: "none"}, x: {domain: [0, most], label: null},
    y: {type: "band", domain: bars.map((b) => b.name), label: null, padding: 0.28},
    marks: [
      Plot.gridX(ticks),
      Plot.axisX(ticks, {text: (v: number) => (share ? `${100 * v} %` : secondsTick(v)), tickSize: 0, label: null}),
      Plot.axisY({tickSize: 0, label: null, className: "row-names"}),
      ...kinds.map((kind, index) => Plot.barX(pieces.filter((p) => p.kind === kind), {
        x1: "from", x2: "to", y: "bar", fill: kindColor(kind), insetRight: 0.5, insetLeft: 0.5, rx: 1.5, className: groupClass(index)})),
      Plot.text(bars, {x: (b: Bar) => (share ? 1 : totalOf(b)), y: "name", text: (b: Bar) => seconds(totalOf(b)), dx: 8,
                       textAnchor: "start", className: "total"}),
    ],
  }) as SVGSVGElement & Plot.Plot;
  nameGroups(plot, kinds);
  const [x, y] = [plot.scale("x")!, plot.scale("y")!];
  const spots = pieces.map((p) => {
    const [from, to] = [x.apply(p.from) as number, x.apply(p.to) as number];
    return {x: (from + to) / 2, y: (y.apply(p.bar) as number) + y.bandwidth! / 2, width: to - from, height: y.bandwidth!,
            group: p.kind, html: kindTip(p, `${escaped(p.bar)}, n = ${count(length)}`, p.total)};
  });
  return {plot, spots, legend: kindLegend(kinds), label};
}

export function drawBreakdown(record: Record, state: State, width: number): Drawing {
  const bars = record.points.filter((p) => p.length === state.length && p.kinds?.length && state.chosen.has(p.mechanism))
    .map((p) => ({name: p.mechanism, kinds: p.kinds!}));
  return drawBars(bars.sort((a, b) => totalOf(a) - totalOf(b)), state.bars === "share", state.length, width);
}

export function drawFusion(record: Record, state: State, width: number): Drawing {
  const length = nearest(record.fusion.map((f) => f.length), state.length);
  const fusion = record.fusion.find((f) => f.length === length);
  if (!fusion) return {plot: null, label: "What fusing saves.", spots: []};
  const bars = [{name: "full", kinds: fusion.full_kinds}, {name: "flash", kinds: fusion.flash_kinds}];
  const drawing = drawBars(bars, false, fusion.length, width);
  const saved = fusion.full_seconds - fusion.flash_seconds;
  const text = saved > 0
    ? `At n = ${count(fusion.length)} fusing saves ${seconds(saved)} of ${seconds(fusion.full_seconds)}, ${percent(saved / fusion.full_seconds)}.`
    : `At n = ${count(fusion.length)} fusing costs ${seconds(-saved)} more than the ${seconds(fusion.full_seconds)} of full.`;
  return {...drawing, label: text, legend: `<strong class="verdict">${text}</strong>${drawing.legend}`};
}
