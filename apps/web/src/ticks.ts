// Ticks that read well in seconds and in powers of two.

// Powers of ten, and between them as many round numbers as there is room for.
export function decimalTicks(low: number, high: number, most: number): number[] {
  const at = (digits: number[]): number[] => {
    const ticks: number[] = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e) {
      for (const digit of digits) ticks.push(Number(`${digit}e${e}`));
    }
    return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  };
  for (const digits of [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = at(digits);
    if (ticks.length <= most) return ticks;
  }
  const tens = at([1]);
  const step = Math.ceil(tens.length / most);
  return tens.filter((_, i) => i % step === 0);
}

// Powers of two, every first, second, …
export function binaryTicks(low: number, high: number, most: number): number[] {
  const first = Math.ceil(Math.log2(low) - 1e-9);
  const last = Math.floor(Math.log2(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  const ticks: number[] = [];
  for (let e = Math.ceil(first / step) * step; e <= last; e += step) ticks.push(2 ** e);
  return ticks;
}

// Equal steps of a power of two, from 0: for bytes and lengths.
export function evenBinaryTicks(high: number, most: number): number[] {
  const step = 2 ** Math.ceil(Math.log2(high / most));
  return Array.from({length: Math.floor(high / step) + 1}, (_, i) => i * step);
}

export function evenTicks(high: number, most: number): number[] {
  const rough = high / most;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5, 10].find((m) => m * size >= rough) ?? 10);
  return Array.from({length: Math.floor(high / step + 1e-9) + 1}, (_, i) => Number((i * step).toPrecision(12)));
}
