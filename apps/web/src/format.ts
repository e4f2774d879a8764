// Numbers for people, as the tables write them: three digits that count.

function threeDigits(value: number): string {
  const size = Math.abs(value);
  const before = size < 1 ? 1 : Math.floor(Math.log10(size)) + 1;
  return value.toFixed(Math.max(0, 3 - before));
}

export function seconds(value: number): string {
  if (value >= 99.95) {
    const whole = Math.round(value);
    return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  }
  for (const [size, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]] as const) {
    if (value >= 0.9995 * size) return `${threeDigits(value / size)} ${unit}`;
  }
  return value === 0 ? "0 s" : `${value.toExponential(2)} s`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at + 1 < units.length) {
    value /= 1024;
    ++at;
  }
  return `${at === 0 ? value : value.toFixed(1)} ${units[at]}`;
}

export function ratio(value: number): string {
  if (value === 0) return "0";
  return Math.abs(value) < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
}

export const percent = (value: number): string => `${(100 * value).toFixed(1)} %`;

export const count = (value: number): string => value.toLocaleString("en");

// 4.2 GFLOP/s
export function rate(value: number, unit: string): string {
  const sizes = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]] as const;
  const [size, prefix] = sizes.find(([at]) => value >= at) ?? [1, ""];
  return `${threeDigits(value / size)} ${prefix}${unit}`;
}

// Labels of an axis: as above, without digits that say nothing.
const short = (text: string): string => text.replace(/(\.\d*?)0+(?= |$)/, "$1").replace(/\.(?= |$)/, "");
export const secondsTick = (value: number): string => short(seconds(value));
export const bytesTick = (value: number): string => short(bytes(value));
export const lengthTick = (value: number): string => (value >= 1024 && value % 1024 === 0 ? `${value / 1024}k` : count(value));

export function escaped(text: string): string {
  const entities: {[c: string]: string} = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"};
  return text.replace(/[&<>"]/g, (c) => entities[c]!);
}
