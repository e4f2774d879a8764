// Time and memory, for the charts of a quantity against length.
import {tipHtml} from "../chart";
import {bytes, bytesTick, count, escaped, percent, ratio, seconds, secondsTick} from "../format";
import type {Point} from "../record";
import {binaryTicks, decimalTicks, evenBinaryTicks, evenTicks} from "../ticks";
import type {Quantity, Value} from "./curves";

const interval = (from: number | null | undefined, to: number | null | undefined,
                  text: (value: number) => string): string =>
  from != null && to != null ? ` <small>${text(from)} to ${text(to)}</small>` : "";

function rowsOf(point: Point, value: Value, times: number | null, text: (value: number) => string): [string, string][] {
  const rows: [string, string][] = [];
  if (value.measured != null) rows.push(["measured", text(value.measured) + interval(value.from, value.to, text)]);
  if (value.predicted != null) rows.push(["predicted", text(value.predicted) + interval(value.low, value.high, text)]);
  if (value.measured && value.predicted) rows.push(["missed by", percent(value.predicted / value.measured - 1)]);
  if (times !== null && point.mechanism !== "flash") rows.push(["of flash", `${ratio(times)} ×`]);
  if (point.status !== "ok") rows.push([point.status, escaped(point.reason)]);
  return rows;
}

const title = (point: Point, rows: [string, string][]): string =>
  tipHtml(escaped(point.mechanism), `n = ${count(point.length)}`, rows);

export const time: Quantity = {
  name: "Time of a run",
  value: ({time: t}) => t && {measured: t.measured, predicted: t.predicted, low: t.low, high: t.high,
                              from: t.spread_low, to: t.spread_high},
  tick: secondsTick,
  ticks: decimalTicks,
  evenTicks,
  tip: (point, value, times) => {
    const rows = rowsOf(point, value, times, seconds);
    if (point.time?.rounds) rows.push(["runs", String(point.time.rounds)]);
    return title(point, rows);
  },
};

export const memory: Quantity = {
  name: "Peak memory",
  value: ({memory: m}) => m && {measured: m.measured, predicted: m.predicted},
  tick: bytesTick,
  ticks: binaryTicks,
  evenTicks: evenBinaryTicks,
  tip: (point, value, times) => {
    const rows = rowsOf(point, value, times, bytes);
    if (point.memory?.resident != null) rows.push(["resident", bytes(point.memory.resident)]);
    return title(point, rows);
  },
};
