// The page of a comparison on a task in a browser: its plots against the record.
//   QUALITY=recall.json RENDER=render_page node --test quality.test.mjs
import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import {readFileSync, writeFileSync} from "node:fs";
import {resolve} from "node:path";
import {after, before, describe, it} from "node:test";
import {pathToFileURL} from "node:url";
import {launch} from "./browser.mjs";

const record = JSON.parse(readFileSync(process.env.QUALITY, "utf8"));
const desktop = {viewport: {width: 1280, height: 900}, reducedMotion: "reduce", colorScheme: "light"};
const phone = {viewport: {width: 390, height: 844}, deviceScaleFactor: 2, reducedMotion: "reduce", colorScheme: "dark"};

const mean = (values) => values.reduce((a, b) => a + b) / values.length;
const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};

// Mechanism by mechanism, worked out from the trials.
function standingsOf(record) {
  const names = [...new Set(record.trials.map((t) => t.mechanism))];
  return names.map((name) => {
    const trials = record.trials.filter((t) => t.mechanism === name && t.status === "ok");
    const qualities = trials.map((t) => t.quality);
    return {name, trials, quality: mean(qualities), least: Math.min(...qualities), most: Math.max(...qualities),
            seconds: median(trials.map((t) => t.step_seconds)), memory: trials[0].memory, state: trials[0].state};
  });
}
const standings = standingsOf(record);
const front = standings.filter((a) => !standings.some((b) => b.quality >= a.quality && b.seconds < a.seconds));

// The same on a machine that takes twice as long, and learned a little worse.
const there = structuredClone(record);
for (const trial of there.trials) {
  trial.step_seconds *= 2;
  trial.quality *= 0.95;
}

const addressOf = (path) => pathToFileURL(resolve(path)).href;
let browser;
before(async () => {
  writeFileSync("there.json", JSON.stringify(there));
  execFileSync(process.env.RENDER, [process.env.QUALITY, "quality.html"]);
  execFileSync(process.env.RENDER, [process.env.QUALITY, "against.html", "there.json"]);
  browser = await launch();
});
after(() => browser?.close());

// Hands a fresh page over, and closes it. It asks for nothing and says nothing.
async function reading(options, look, path = "quality.html") {
  const address = addressOf(path);
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const trouble = [];
  page.on("request", (request) => {
    if (request.url() !== address) trouble.push(`asks for ${request.url()}`);
  });
  page.on("console", (message) => trouble.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(`error: ${error.message}`));
  try {
    await page.goto(address);
    await look(page);
    assert.deepEqual(trouble, []);
  } finally {
    await context.close();
  }
}

const figure = (title) => `figure:has(figcaption:text-is("${title}"))`;

// The marks of a chart as {name, x, y}, in the units of the drawing.
const marksOf = (page, title, kind) =>
  page.locator(`${figure(title)} circle.${kind}`).evaluateAll((circles) =>
    circles.map((c) => ({name: c.querySelector("title").textContent.split(": ")[0],
                         x: Number(c.getAttribute("cx")), y: Number(c.getAttribute("cy"))})));

// "M1 2L3 4" → [[1, 2], [3, 4]]
const placesOf = (path) => path.slice(1).split("L").map((pair) => pair.split(" ").map(Number));

// Whether place = a·value + b for one a and b, to the rounding of the drawing.
function assertLinear(pairs, what) {
  const sorted = [...pairs].sort((p, q) => p[0] - q[0]);
  const [[v0, p0], [v1, p1]] = [sorted[0], sorted.at(-1)];
  assert.notEqual(v0, v1, what);
  for (const [value, place] of sorted) {
    const expected = p0 + ((value - v0) / (v1 - v0)) * (p1 - p0);
    assert.ok(Math.abs(place - expected) < 0.11, `${what}: ${place}, not ${expected}`);
  }
}

describe("the page of a comparison on a task", () => {
  it("opens without a network or a script and says what follows", async () => {
    for (const javaScriptEnabled of [true, false]) {
      await reading({...desktop, javaScriptEnabled}, async (page) => {
        assert.match(await page.locator("h1").textContent(), new RegExp(`\\b${record.settings.task}$`));
        assert.match(await page.locator("p.conclusion").textContent(), /learns .* best here/);
        assert.equal(await page.locator("svg.chart:visible").count(), 4);
        assert.equal(await page.locator("#standings tbody tr").count(), standings.length);
      });
    }
  });

  it("draws every mechanism where its quality, time, state and memory are", () =>
    reading(desktop, async (page) => {
      const axes = [["Quality against time", (s) => s.seconds], ["Quality against state", (s) => s.state],
                    ["Quality against memory", (s) => s.memory]];
      for (const [title, valueOf] of axes) {
        const shown = standings.filter((s) => valueOf(s) > 0);
        const marks = await marksOf(page, title, "dot");
        assert.deepEqual(marks.map((m) => m.name).sort(), shown.map((s) => s.name).sort(), title);
        const at = (s) => marks.find((m) => m.name === s.name);
        assertLinear(shown.map((s) => [Math.log(valueOf(s)), at(s).x]), `${title}, across`);
        assertLinear(shown.map((s) => [s.quality, at(s).y]), `${title}, up`);
        const spread = shown.filter((s) => s.least !== s.most);
        assert.equal(await page.locator(`${figure(title)} line.bar`).count(), spread.length, title);
      }
    }));

  it("draws the Pareto front through what nothing as good undercuts", () =>
    reading(desktop, async (page) => {
      const marks = await marksOf(page, "Quality against time", "dot");
      const places = placesOf(await page.locator(`${figure("Quality against time")} path.front`).getAttribute("d"));
      const expected = front.map((s) => marks.find((m) => m.name === s.name)).sort((a, b) => a.x - b.x);
      assert.ok(expected.length > 1);
      assert.deepEqual(places, expected.map((m) => [m.x, m.y]));
      for (let i = 1; i < places.length; ++i) assert.ok(places[i][1] < places[i - 1][1], "slower is better on a front");
      assert.equal(await page.locator("path.front").count(), 1);
    }));

  it("draws how each was learned", () =>
    reading(desktop, async (page) => {
      const curves = page.locator(`${figure("How it was learned")} path.line`);
      assert.equal(await curves.count(), standings.length);
      const lines = await curves.evaluateAll((paths) => paths.map((p) => p.getAttribute("d")));
      const names = await page.locator(`${figure("How it was learned")} text.name`).allTextContents();
      const pairs = {across: [], up: []};
      for (const s of standings) {
        const places = placesOf(lines[names.indexOf(s.name)]);
        const curve = s.trials[0].curve.map((step, i) => [step.step, mean(s.trials.map((t) => t.curve[i].quality))]);
        assert.equal(places.length, curve.length, s.name);
        curve.forEach(([step, quality], i) => {
          pairs.across.push([step, places[i][0]]);
          pairs.up.push([quality, places[i][1]]);
        });
      }
      assertLinear(pairs.across, "steps");
      assertLinear(pairs.up, "quality");
    }));

  it("draws another machine's record beside it", async () => {
    await reading(desktop, async (page) => assert.equal(await page.locator("circle.hollow").count(), 0));
    await reading(desktop, async (page) => {
      const title = "Quality against time";
      const own = await marksOf(page, title, "dot");
      const others = await marksOf(page, title, "hollow");
      assert.deepEqual(others.map((m) => m.name).sort(), standings.map((s) => `${s.name} there`).sort());
      const places = [...standings.map((s) => [s, own.find((m) => m.name === s.name)]),
                      ...standingsOf(there).map((s) => [s, others.find((m) => m.name === `${s.name} there`)])];
      assertLinear(places.map(([s, m]) => [Math.log(s.seconds), m.x]), "time of both");
      assertLinear(places.map(([s, m]) => [s.quality, m.y]), "quality of both");
    }, "against.html");
  });

  it("fits its window, and its names their drawing", async () => {
    for (const [path, options, name] of [["quality.html", desktop, "desktop"], ["quality.html", phone, "phone"],
                                         ["against.html", desktop, "against"]]) {
      await reading(options, async (page) => {
        const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(inner <= outer, `${inner} pixels of content in ${outer}`);
        const outside = await page.locator("svg.chart text").evaluateAll((texts) => texts.filter((text) => {
          const [own, all] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
          return own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 1 || own.bottom > all.bottom + 1;
        }).map((text) => text.textContent));
        assert.deepEqual(outside, []);
        await page.screenshot({path: `screenshot-quality-${name}.png`, fullPage: true});
      }, path);
    }
  });
});
