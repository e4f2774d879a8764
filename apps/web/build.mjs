// node build.mjs OUT: the page before anything is filled in, as one HTML file. The same sources and
// the versions of package-lock.json give the same bytes.
import {readFile, mkdir, writeFile} from "node:fs/promises";
import {dirname, join, resolve} from "node:path";
import {fileURLToPath} from "node:url";
import {build} from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "dist/page.html"));

const shared = {
  absWorkingDir: here, bundle: true, minify: true, write: false, charset: "utf8", legalComments: "none",
  target: ["chrome100", "firefox100", "safari15.4"],
};

async function bundled(options) {
  const {outputFiles} = await build({...shared, ...options});
  return outputFiles[0].text.trim();
}

const script = await bundled({entryPoints: ["src/main.ts"], format: "iife"});
const style = await bundled({entryPoints: ["src/style.css"], loader: {".woff2": "dataurl"}});

// Whose work is inside the file, and on what terms.
async function terms(name) {
  const folder = join(here, "node_modules", name);
  const {version, license} = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const text = (await readFile(join(folder, "LICENSE"), "utf8")).trim();
  return `${name} ${version} (${license})\n\n${license === "ISC" ? text : text.split("\n")[0]}`;
}
const parts = await Promise.all(["@observablehq/plot", "d3", "@fontsource-variable/inter"].map(terms));
const notice = `<!--\nGenerated from apps/web; do not edit. Contains:\n\n${parts.join("\n\n")}\n-->`;

const page = (await readFile(join(here, "src/page.html"), "utf8"))
  .replace("</head>", () => `${notice}\n</head>`)
  .replace("/*style*/", () => style)
  .replace("/*script*/", () => script);
await mkdir(dirname(out), {recursive: true});
await writeFile(out, page);
