// node screenshots.mjs PAGE.html DIRECTORY: the page at the width of a desktop and of a phone, light
// and dark, as a reader sees it.
import {join, resolve} from "node:path";
import {pathToFileURL} from "node:url";
import {launch} from "./browser.mjs";

const [page, directory] = process.argv.slice(2).map((path) => resolve(path));
const browser = await launch();
for (const [name, width, height, scale] of [["desktop", 1280, 900, 1], ["phone", 390, 844, 1.5]]) {
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({viewport: {width, height}, deviceScaleFactor: scale, colorScheme, reducedMotion: "reduce"});
    const tab = await context.newPage();
    await tab.goto(pathToFileURL(page).href);
    await tab.screenshot({path: join(directory, `page-${name}-${colorScheme}.png`), fullPage: true});
    await context.close();
  }
}
await browser.close();
