// Puts the charts and their controls into the page that holds the record.
import {Chart, type Draw} from "./chart";
import {drawBreakdown, drawFusion} from "./charts/bars";
import {drawCurves} from "./charts/curves";
import {patternHtml} from "./charts/patterns";
import {memory, time} from "./charts/quantities";
import {drawRoofline} from "./charts/roofline";
import {drawTradeoff} from "./charts/tradeoff";
import {lengthControl, mechanismControl, segmented, themeControl} from "./controls";
import {looks} from "./palette";
import {load, type Point} from "./record";
import {nearest, Store} from "./state";

const record = load();
const store = new Store(record);
const {state} = store;
const look = looks(record.mechanisms);

document.documentElement.classList.add("script");
// Open without a script, so that the numbers show; behind the charts they wait to be asked for.
for (const details of document.querySelectorAll<HTMLDetailsElement>("main details")) details.open = false;

const axes = segmented(store, "axes", "Axes", [{value: "log", text: "Log"}, {value: "linear", text: "Linear"}]);
document.getElementById("quick")!.append(axes, themeControl(store));
document.getElementById("mechanisms")!.append(mechanismControl(store, record, look));
document.querySelector<HTMLDetailsElement>("#chooser")!.open = matchMedia("(min-width: 60rem)").matches;

function controls(name: string, ...parts: HTMLElement[]): void {
  document.querySelector(`[data-controls="${name}"]`)!.append(...parts);
}
const lengthsWith = (has: (point: Point) => unknown): number[] =>
  record.lengths.filter((n) => record.points.some((p) => p.length === n && has(p)));
const withErrors = lengthsWith((p) => p.error);
const withKinds = lengthsWith((p) => p.kinds?.length);
const withGradient = record.points.some((p) => p.error?.gradient != null);
for (const name of ["time", "memory"]) {
  controls(name, segmented(store, "scale", "Show", [
    {value: "absolute", text: name === "time" ? "Seconds" : "Bytes"}, {value: "relative", text: "Relative to flash"}]));
}
controls("tradeoff", lengthControl(store, withErrors));
if (withGradient) {
  controls("tradeoff", segmented(store, "error", "Error of", [{value: "output", text: "Output"}, {value: "gradient", text: "Gradient"}]));
}
controls("breakdown", lengthControl(store, withKinds),
         segmented(store, "bars", "Bars", [{value: "seconds", text: "Time"}, {value: "share", text: "Share"}]));
controls("roofline", lengthControl(store, withKinds));
controls("fusion", lengthControl(store, record.fusion.map((f) => f.length)));

const draws: {[name: string]: Draw} = {
  time: (width) => drawCurves(record, state, look, time, width),
  memory: (width) => drawCurves(record, state, look, memory, width),
  tradeoff: (width) => drawTradeoff(record, {...state, length: nearest(withErrors, state.length)}, look, width),
  breakdown: (width) => drawBreakdown(record, {...state, length: nearest(withKinds, state.length)}, width),
  roofline: (width) => drawRoofline(record, {...state, length: nearest(withKinds, state.length)}, width),
  fusion: (width) => drawFusion(record, state, width),
};
const tip = document.getElementById("tip")!;
const charts = Object.entries(draws).map(([name, draw]) =>
  new Chart(document.querySelector<HTMLElement>(`figure[data-chart="${name}"]`)!, tip, draw));
store.listen(() => charts.forEach((chart) => chart.redraw()));

const sparse = record.mechanisms.filter((m) => m.pattern);
const patterns = document.querySelector<HTMLElement>('[data-chart="patterns"]')!;
const showPatterns = (): void => {
  patterns.innerHTML = sparse.filter((m) => state.chosen.has(m.name)).map((m) => patternHtml(m, look.get(m.name)!)).join("");
};
store.listen(showPatterns);
showPatterns();
document.getElementById("patterns")!.hidden = sparse.length === 0;
document.getElementById("fusion")!.hidden = record.fusion.length === 0;
