// The record of a comparison: seconds and bytes throughout, null where a value is not known.

export interface Machine {
  cpu: string;
  cores: number;
  memory_bytes: number;
  os: string;
  instruction_set: string;
}

export interface Mechanism {
  name: string;
  spec: string;
  class: string;
  exact: boolean;
  pattern: {rows: number; columns: number; cells: number[][]} | null;
}

export interface KindTime {
  kind: string;
  seconds: number;
  flops: number;
  bytes: number;
  bound: string;
}

type Maybe = number | null;

export interface Point {
  mechanism: string;
  length: number;
  status: "ok" | "refused" | "skipped" | "failed";
  reason: string;
  time: {
    predicted: Maybe; low: Maybe; high: Maybe;
    measured: Maybe; spread_low: Maybe; spread_high: Maybe; rounds: number;
  } | null;
  memory: {predicted: Maybe; measured: Maybe; resident: Maybe} | null;
  error: {output: Maybe; gradient: Maybe} | null;
  kinds: KindTime[] | null;
}

export interface Fusion {
  length: number;
  full_seconds: number;
  flash_seconds: number;
  full_kinds: KindTime[];
  flash_kinds: KindTime[];
}

export interface Record {
  machine: Machine;
  lengths: number[];
  roofline: {peak_flops: number; bandwidth: number};
  mechanisms: Mechanism[];
  points: Point[];
  fusion: Fusion[];
}

export function load(): Record {
  return JSON.parse(document.getElementById("record")!.textContent!) as Record;
}
