// The page in a browser: what a reader sees, points at, toggles and prints, against the record.
//   RECORD=fixture.json PAGE=page.html EMPTY=empty.html node --test page.test.mjs
import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {resolve} from "node:path";
import {after, before, describe, it} from "node:test";
import {pathToFileURL} from "node:url";
import {launch} from "./browser.mjs";
import {numberOf, tipsByKey, tipsByPointer} from "./reading.mjs";

const record = JSON.parse(readFileSync(process.env.RECORD, "utf8"));
const addressOf = (path) => pathToFileURL(resolve(path)).href;
const desktop = {viewport: {width: 1280, height: 900}, reducedMotion: "reduce", colorScheme: "light"};
const phone = {viewport: {width: 390, height: 844}, deviceScaleFactor: 2, reducedMotion: "reduce", colorScheme: "light"};
const names = record.mechanisms.map((m) => m.name);
const charts = ["time", "memory", "tradeoff", "breakdown", "roofline", "fusion"];

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

// Opens the page. `trouble` collects what must not happen.
async function open(options, address = addressOf(process.env.PAGE)) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const trouble = [];
  page.on("request", (request) => {
    if (request.url() !== address && !request.url().startsWith("data:")) trouble.push(`asks for ${request.url()}`);
  });
  page.on("console", (message) => trouble.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(`error: ${error.message}`));
  await page.goto(address);
  return {context, page, trouble};
}

// Hands a fresh page over, and closes it.
async function reading(options, look, address) {
  const {context, page, trouble} = await open(options, address);
  try {
    await look(page);
    assert.deepEqual(trouble, []);
  } finally {
    await context.close();
  }
}

// For those who leave the page as it was, or do not care how it is: one page for all of them.
let shared;
async function looking(look) {
  shared ??= await open(desktop);
  await look(shared.page);
  assert.deepEqual(shared.trouble, []);
}

const near = (actual, expected, relative, what) =>
  assert.ok(Math.abs(actual - expected) <= relative * Math.abs(expected) + 1e-30, `${what}: ${actual}, not ${expected}`);

const pointAt = (name, n) => record.points.find((p) => p.mechanism === name && p.length === n);
const pressed = (page, selector) => page.locator(selector).getAttribute("aria-pressed");
const chosenLength = async (page) =>
  Number(await page.locator('[data-controls="breakdown"] [aria-label="Length"] [aria-pressed="true"]').getAttribute("data-value"));

const plotOf = (chart) => `figure[data-chart="${chart}"] .plot`;

// The middles of the marks of a mechanism, in pixels of the window.
const marksOf = (page, chart, group, mark) =>
  page.locator(`figure[data-chart="${chart}"] g[aria-label="${mark}"][data-group="${group}"] > *`).evaluateAll((parts) =>
    parts.map((part) => {
      const {x, y, width, height} = part.getBoundingClientRect();
      return {x: x + width / 2, y: y + height / 2};
    }));

describe("the page", () => {
  it("opens from the file system, asks the network for nothing, and says nothing on the console", () =>
    reading(desktop, async (page) => {
      assert.equal(await page.locator("h1").textContent(), record.conclusion);
      assert.equal(await page.evaluate(() => document.fonts.check('16px "Inter"')), true);
      for (const chart of charts) assert.ok(await page.locator(`figure[data-chart="${chart}"] svg[role="img"]`).isVisible(), chart);
    }));

  it("fits its window at the width of a desktop and of a phone", async () => {
    for (const options of [desktop, phone]) {
      await reading(options, async (page) => {
        const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(inner <= outer, `${inner} pixels of content in ${outer}`);
        const name = options === phone ? "phone" : "desktop";
        await page.screenshot({path: `screenshot-${name}.png`, fullPage: true});
      });
    }
  });

  it("shows the tables and no chart without a script", () =>
    reading({...desktop, javaScriptEnabled: false}, async (page) => {
      for (const id of ["time", "memory", "error", "kinds", "roofline", "fusion", "complexity", "missing", "machine"]) {
        assert.ok(await page.locator(`#${id}-table`).isVisible(), id);
      }
      assert.equal(await page.locator("figure.chart:visible, .panel:visible").count(), 0);
    }));

  it("says so when a comparison was stopped before anything was measured", () =>
    reading(desktop, async (page) => {
      assert.equal(await page.locator("h1").textContent(), "Nothing was measured.");
      assert.equal(await page.locator("figure .none:visible").count(), 5);
    }, addressOf(process.env.EMPTY)));

  it("prints on white, without its controls", () =>
    reading({...desktop, colorScheme: "dark"}, async (page) => {
      await page.emulateMedia({media: "print", colorScheme: "dark"});
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
      assert.equal(await page.locator(".panel:visible, .controls:visible").count(), 0);
      assert.ok(await page.locator('figure[data-chart="time"] svg').isVisible());
    }));
});

describe("charts have their data:", () => {
  it("time and memory against length", () =>
    looking(async (page) => {
      for (const chart of ["time", "memory"]) {
        for (const name of names) {
          const points = record.points.filter((p) => p.mechanism === name && p[chart]);
          const measured = points.filter((p) => p[chart].measured);
          const dots = await marksOf(page, chart, name, "dot");
          assert.equal(dots.length, measured.length, `${chart} of ${name}`);
          const lines = await marksOf(page, chart, name, "line");
          assert.equal(lines.length, points.some((p) => p[chart].predicted) ? 1 : 0, `line of ${name}`);
        }
      }
    }));

  // On a logarithmic axis the height is linear in log(value), on a linear one in the value.
  it("at the right height", () =>
    looking(async (page) => {
      for (const [axes, map] of [["log", Math.log], ["linear", (v) => v]]) {
        await page.click(`#quick button[data-value="${axes}"]`);
        for (const chart of ["time", "memory"]) {
          const all = [];
          for (const name of names) {
            const measured = record.points.filter((p) => p.mechanism === name && p[chart]?.measured).sort((a, b) => a.length - b.length);
            const dots = await marksOf(page, chart, name, "dot");
            dots.forEach((dot, i) => all.push({...dot, v: map(measured[i][chart].measured), n: map(measured[i].length)}));
          }
          const sorted = [...all].sort((a, b) => a.v - b.v);
          const [low, high] = [sorted[0], sorted.at(-1)];
          const slope = (high.y - low.y) / (high.v - low.v);
          // The middle of a triangle's box is not its centre of gravity: two pixels.
          for (const p of all) assert.ok(Math.abs(p.y - (low.y + slope * (p.v - low.v))) < 2.5, `${chart} ${axes}: ${JSON.stringify(p)}`);
          assert.ok(slope < 0);
        }
      }
    }));

  it("error against time, with its front", () =>
    looking(async (page) => {
      const n = await chosenLength(page);
      const shown = record.points.filter((p) => p.length === n && p.time?.measured && p.error?.output != null);
      const level = (p) => (p.error.output < 1e-5 ? 0 : p.error.output);
      const best = shown.filter((p) => !shown.some((q) => q !== p && q.time.measured <= p.time.measured && level(q) <= level(p)));
      for (const p of shown) assert.equal((await marksOf(page, "tradeoff", p.mechanism, "dot")).length, 1, p.mechanism);
      const legend = await page.locator('figure[data-chart="tradeoff"] .legend').textContent();
      const told = legend.match(/\(([^)]*)\)/)[1].split(", ");
      assert.deepEqual(told.sort(), best.map((p) => p.mechanism).sort());
    }));

  it("the time by kind, and the roofline, at every length", () =>
    looking(async (page) => {
      for (const n of record.lengths) {
        const points = record.points.filter((p) => p.length === n && p.kinds?.length);
        const pieces = points.flatMap((p) => p.kinds);
        await page.click(`[data-controls="breakdown"] button[data-value="${n}"]`);
        assert.equal(await page.locator('figure[data-chart="breakdown"] g[aria-label="bar"] rect').count(), pieces.length);
        // What only moves bytes has no place under a roof of FLOPs.
        const dots = page.locator('figure[data-chart="roofline"] g[aria-label="dot"]').locator("path, circle");
        assert.equal(await dots.count(), pieces.filter((k) => k.flops > 0).length);
      }
    }));

  it("what fusing saves", () =>
    looking(async (page) => {
      for (const fusion of record.fusion) {
        await page.click(`[data-controls="fusion"] button[data-value="${fusion.length}"]`);
        const pieces = fusion.full_kinds.length + fusion.flash_kinds.length;
        assert.equal(await page.locator('figure[data-chart="fusion"] g[aria-label="bar"] rect').count(), pieces);
        const text = await page.locator('figure[data-chart="fusion"] .verdict').textContent();
        const [, saved, whole] = text.match(/saves (.*?) of (.*?),/);
        near(numberOf(saved), fusion.full_seconds - fusion.flash_seconds, 0.006, text);
        near(numberOf(whole), fusion.full_seconds, 0.006, text);
      }
    }));

  it("the patterns", () =>
    looking(async (page) => {
      for (const {name, pattern} of record.mechanisms.filter((m) => m.pattern)) {
        const path = await page.locator(`.pattern[data-mechanism="${name}"] path`).getAttribute("d");
        const filled = new Set([...path.matchAll(/M(\d+) (\d+)h1v1h-1z/g)].map(([, x, y]) => `${y},${x}`));
        pattern.cells.forEach((row, i) => row.forEach((cell, j) => assert.equal(filled.has(`${i},${j}`), cell === 1, `${name} ${i},${j}`)));
      }
    }));
});

describe("numbers under the pointer and the keys:", () => {
  const check = {
    time: (tip, p) => {
      if (p.time.measured != null) near(numberOf(tip.measured), p.time.measured, 0.006, "measured");
      near(numberOf(tip.predicted), p.time.predicted, 0.006, "predicted");
    },
    memory: (tip, p) => {
      if (p.memory.measured != null) near(numberOf(tip.measured), p.memory.measured, 0.01, "measured");
      near(numberOf(tip.predicted), p.memory.predicted, 0.01, "predicted");
      if (p.memory.resident != null) near(numberOf(tip.resident), p.memory.resident, 0.01, "resident");
    },
  };

  it("the arrow keys reach every point of time and memory, with its numbers", () =>
    reading(desktop, async (page) => {
      for (const chart of ["time", "memory"]) {
        const expected = record.points.filter((p) => p[chart]?.measured || p[chart]?.predicted);
        const seen = new Set();
        for (const tip of await tipsByKey(page, plotOf(chart), "ArrowRight", expected.length)) {
          const n = numberOf(tip.note.replace("n = ", ""));
          seen.add(`${tip.title} ${n}`);
          check[chart](tip, pointAt(tip.title, n));
        }
        assert.equal(seen.size, expected.length);
        await page.keyboard.press("Escape");
        assert.equal(await page.locator("#tip").isVisible(), false);
      }
    }));

  // One mechanism at a time: with all of them, marks cover one another.
  it("the pointer finds the mark that it is on", () =>
    reading(desktop, async (page) => {
      await page.click(".shortcut:has-text('None')");
      for (const name of names.filter((m) => record.points.some((p) => p.mechanism === m && p.status === "ok"))) {
        await page.click(`.mechanism[data-mechanism="${name}"]`);
        for (const chart of ["time", "memory"]) {
          await page.locator(plotOf(chart)).scrollIntoViewIfNeeded();
          const measured = record.points.filter((p) => p.mechanism === name && p[chart]?.measured);
          const dots = await marksOf(page, chart, name, "dot");
          const tips = await tipsByPointer(page, plotOf(chart), dots);
          for (const [i, tip] of tips.entries()) {
            assert.deepEqual([tip.title, tip.note], [name, `n = ${measured[i].length.toLocaleString("en")}`]);
            check[chart](tip, measured[i]);
          }
        }
        await page.click(`.mechanism[data-mechanism="${name}"]`);
      }
    }));

  it("error and time of a mechanism", () =>
    reading(desktop, async (page) => {
      const n = await chosenLength(page);
      const shown = record.points.filter((p) => p.length === n && p.time?.measured && p.error?.output != null);
      const seen = new Set();
      for (const tip of await tipsByKey(page, plotOf("tradeoff"), "ArrowDown", shown.length)) {
        const point = pointAt(tip.title, n);
        seen.add(tip.title);
        near(numberOf(tip.measured), point.time.measured, 0.006, "time");
        near(numberOf(tip["output error"]), point.error.output, 0.006, "error");
      }
      assert.equal(seen.size, shown.length);
    }));

  it("time and work of every kind of operation", () =>
    reading(desktop, async (page) => {
      for (const chart of ["breakdown", "roofline"]) {
        const n = await chosenLength(page);
        const pieces = record.points.filter((p) => p.length === n && p.kinds).flatMap((p) => p.kinds)
          .filter((k) => chart === "breakdown" || k.flops > 0);
        for (const tip of await tipsByKey(page, plotOf(chart), "ArrowRight", pieces.length)) {
          const [name] = tip.note.split(", n = ");
          const kind = pointAt(name, n).kinds.find((k) => k.kind === tip.title);
          near(numberOf(tip.time), kind.seconds, 0.006, "seconds");
          assert.equal(numberOf(tip.FLOPs), kind.flops);
          assert.equal(numberOf(tip.bytes), kind.bytes);
          assert.equal(tip["bound by"], kind.bound);
        }
      }
    }));
});

describe("toggles:", () => {
  it("mechanisms", () =>
    reading(desktop, async (page) => {
      const button = '.mechanism[data-mechanism="linear"]';
      assert.equal(await pressed(page, button), "true");
      await page.locator(button).press("Enter");
      assert.equal(await pressed(page, button), "false");
      for (const chart of ["time", "memory", "tradeoff"]) assert.equal((await marksOf(page, chart, "linear", "dot")).length, 0);
      assert.ok((await marksOf(page, "time", "flash", "dot")).length > 0);
      await page.click("text=None >> visible=true");
      assert.equal(await page.locator("figure .none").count(), 5);
      await page.click(".shortcut:has-text('Front')");
      const front = await page.locator('.mechanism[aria-pressed="true"]').count();
      assert.ok(front > 1 && front < names.length);
      await page.click(".shortcut:has-text('All')");
      assert.equal(await page.locator('.mechanism[aria-pressed="true"]').count(), names.length);
    }));

  it("light and dark, which the page remembers", () =>
    reading({...desktop, colorScheme: "dark"}, async (page) => {
      const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const dark = await colour();
      await page.click('#quick button[data-value="light"]');
      assert.notEqual(await colour(), dark);
      assert.equal(await pressed(page, '#quick button[data-value="light"]'), "true");
      await page.reload();
      assert.equal(await pressed(page, '#quick button[data-value="light"]'), "true");
      await page.click('#quick button[data-value="dark"]');
      assert.equal(await colour(), dark);
    }));

  it("relative to flash: flash becomes a level line", () =>
    reading(desktop, async (page) => {
      await page.click('[data-controls="time"] button[data-value="relative"]');
      const heights = (await marksOf(page, "time", "flash", "dot")).map((dot) => dot.y);
      assert.ok(Math.max(...heights) - Math.min(...heights) < 0.01);
    }));

  it("shares: every bar is as long as the others", () =>
    reading(desktop, async (page) => {
      await page.click('[data-controls="breakdown"] button[data-value="share"]');
      const right = await page.locator('figure[data-chart="breakdown"] g[aria-label="bar"] rect').evaluateAll((bars) => {
        const rows = new Map();
        for (const bar of bars) {
          const {y, right: edge} = bar.getBoundingClientRect();
          rows.set(y, Math.max(rows.get(y) ?? 0, edge));
        }
        return [...rows.values()];
      });
      assert.ok(right.length > 10 && Math.max(...right) - Math.min(...right) < 1);
    }));
});

describe("tables match the record:", () => {
  const cellsOf = (page, id) => page.locator(`#${id} tbody tr`).evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => ({
    text: cell.textContent, head: cell.firstChild?.textContent ?? "",
    values: [...cell.querySelectorAll("data")].map((d) => ({value: Number(d.value), text: d.textContent}))}))));
  const known = (...values) => values.filter((v) => v != null);
  const same = (cell, values, what) => {
    assert.deepEqual(cell.values.map((v) => v.value), values, what);
    for (const {value, text} of cell.values) near(numberOf(text), value, 0.01, `${what}: ${text}`);
  };

  it("time, memory and error", () =>
    looking(async (page) => {
      const fields = {
        time: ({time: t}) => t && [...(t.measured == null ? [] : known(t.measured, t.spread_low, t.spread_high)), ...known(t.predicted, t.low, t.high)],
        memory: ({memory: m}) => m && known(m.measured, m.predicted, m.resident),
        error: ({error: e}) => e && known(e.output, e.gradient),
      };
      for (const [name, values] of Object.entries(fields)) {
        const rows = await cellsOf(page, `${name}-table`);
        assert.equal(rows.length, names.length);
        rows.forEach(([head, ...cells]) => cells.forEach((cell, i) => {
          const point = pointAt(head.text, record.lengths[i]);
          same(cell, values(point) ?? [], `${name} of ${head.text} at ${record.lengths[i]}`);
          if (point.status !== "ok") assert.ok(cell.text.startsWith(point.status));
        }));
      }
    }));

  it("kinds, roofline and fusion", () =>
    looking(async (page) => {
      const pieces = record.points.flatMap((p) => (p.kinds ?? []).map((k) => ({...k, mechanism: p.mechanism, length: p.length})));
      const rows = await cellsOf(page, "roofline-table");
      assert.equal(rows.length, pieces.length);
      rows.forEach(([mechanism, n, kind, time, flops, bytes, bound], i) => {
        const piece = pieces[i];
        assert.deepEqual([mechanism.text, numberOf(n.text), kind.text, numberOf(flops.text), numberOf(bytes.text), bound.text],
                         [piece.mechanism, piece.length, piece.kind, piece.flops, piece.bytes, piece.bound]);
        same(time, [piece.seconds], piece.kind);
      });
      const kinds = (await cellsOf(page, "kinds-table")).flatMap((row) => row.slice(2).flatMap((cell) => cell.values.map((v) => v.value)));
      assert.deepEqual([...kinds].sort(), pieces.map((p) => p.seconds).sort());
      const fused = await cellsOf(page, "fusion-table");
      fused.forEach(([n, full, flash], i) => {
        assert.equal(numberOf(n.text), record.fusion[i].length);
        same(full, [record.fusion[i].full_seconds], "full");
        same(flash, [record.fusion[i].flash_seconds], "flash");
      });
      assert.equal(fused.length, record.fusion.length);
    }));

  it("complexity, machine, and what is missing", () =>
    looking(async (page) => {
      const rows = await cellsOf(page, "complexity-table");
      rows.forEach(([name, time, memory, timeExponent, memoryExponent, crossover, parameters, abilities], i) => {
        const m = record.mechanisms[i];
        assert.deepEqual([name.text, time.text, memory.text, numberOf(parameters.text)],
                         [m.name + m.class, m.complexity_time, m.complexity_memory, m.parameters_added]);
        same(timeExponent, known(m.time_exponent), m.name);
        same(memoryExponent, known(m.memory_exponent), m.name);
        assert.equal(crossover.text, m.crossover?.text ?? "–");
        assert.equal(abilities.text, ["exact", "causal", "decode"].filter((what) => m[what]).join(", "));
      });
      assert.equal(rows.length, names.length);
      const gone = (await cellsOf(page, "missing-table")).flatMap(([mechanism, lengths, what, why]) =>
        lengths.text.split(", ").map((n) => [mechanism.text, numberOf(n), what.text, why.text].join("|")));
      const expected = [...record.points.filter((p) => p.status !== "ok").map((p) => [p.mechanism, p.length, p.status, p.reason].join("|")),
                        ...record.left_out.filter((l) => (pointAt(l.mechanism, l.length)?.status ?? "ok") === "ok").map((l) => [l.mechanism, l.length, "left out", l.reason].join("|"))];
      assert.deepEqual(gone.sort(), expected.sort());
      const machine = new Map((await cellsOf(page, "machine-table")).map(([name, value]) => [name.text, value]));
      assert.equal(machine.get("processor").text, record.machine.cpu);
      assert.equal(machine.get("compiler").text, record.versions.compiler);
      same(machine.get("memory"), [record.machine.memory_bytes], "memory");
    }));
});

describe("for those who do not see or point:", () => {
  it("every chart, button and table has a name, and the keys reach them", () =>
    reading(desktop, async (page) => {
      for (const chart of charts) {
        const figure = page.locator(`figure[data-chart="${chart}"]`);
        assert.ok((await figure.locator("svg[role=img]").first().getAttribute("aria-label")).length > 10, chart);
        assert.equal(await figure.locator(".plot").getAttribute("tabindex"), "0");
      }
      const nameless = await page.locator("button").evaluateAll((all) => all.filter((b) => !(b.textContent.trim() || b.ariaLabel)).length);
      assert.equal(nameless, 0);
      assert.equal(await page.locator("table").count(), await page.locator("table > caption").count());
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
      await page.keyboard.press("Tab");
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.dataset.value), "linear");
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.equal(outline, "solid");
      await page.keyboard.press("Space");
      assert.equal(await pressed(page, '#quick button[data-value="linear"]'), "true");
    }));

  it("text stands out from its ground by 4.5 to 1, light and dark", async () => {
    for (const colorScheme of ["light", "dark"]) {
      await reading({...desktop, colorScheme}, async (page) => {
        const ratios = await page.evaluate(() => {
          const style = getComputedStyle(document.documentElement);
          const light = (name) => {
            const hex = style.getPropertyValue(name).trim();
            const part = (i) => {
              const c = parseInt(hex.slice(i, i + 2), 16) / 255;
              return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
            };
            return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
          };
          const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
          return ["--ink", "--ink-2", "--ink-3", "--accent", "--warn"].flatMap((ink) =>
            ["--surface", "--paper"].map((ground) => [`${ink} on ${ground}`, contrast(ink, ground)]));
        });
        for (const [what, ratio] of ratios) assert.ok(ratio >= 4.5, `${colorScheme}: ${what} is ${ratio.toFixed(2)}`);
      });
    }
  });
});
