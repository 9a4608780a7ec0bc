// Opens reports in Chromium as a reader would, from disk, and holds them against what they promise: no errors, no
// requests, nothing that axe-core objects to, keys and filters that work, numbers that are those of report.json, and
// text that can be read without the script, also in a narrow window.
//
//   node test.mjs CHROMIUM SCREENSHOTS REPORT...
//
// A report is a folder, or a single file. Of a folder that ends in `!` few pages are looked at; of one that ends in `?`
// the names are hostile. Screenshots of each kind of page are written: light, dark, narrow.

import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

// From the folder that the packages were installed into.
const require = createRequire(path.join(process.cwd(), 'package.json'));
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const [executablePath, screenshots, ...reports] = process.argv.slice(2);
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

let checks = 0;
const failures = [];
const check = (holds, what) => {
  checks += 1;
  if (!holds) {
    failures.push(what);
    console.error(`failed: ${what}`);
  }
};

// Whether a text shows a number: they differ by half of its last digit at most.
const agrees = (text, value) => {
  const found = text.replace(/,/g, '').match(/-?\d+(\.\d+)?(e-?\d+)?(?=%|\D*$)/);
  if (text.trim() === '<1%') return value > 0 && value < 0.005;
  if (!found || typeof value !== 'number') return false;
  const [mantissa, exponent] = found[0].split('e');
  const digits = (mantissa.split('.')[1] || '').length;
  const scaled = text.includes('%') ? value * 100 : value;
  const half = 0.5000001 * 10 ** (Number(exponent || 0) - digits);
  return Math.abs(Number(found[0]) - scaled) <= half + Math.abs(scaled) * 1e-12;
};

const lookUp = (json, pointer) => pointer.split('/').slice(1)
  .map((part) => part.replace(/~1/g, '/').replace(/~0/g, '~'))
  .reduce((value, part) => (value === undefined || value === null ? undefined : value[part]), json);

// Pages of each kind: the first, the last, and some between.
const some = (files, most) => {
  if (files.length <= most || most < 2) return files.slice(0, most);
  return Array.from({ length: most }, (_, i) => files[Math.floor(i * (files.length - 1) / (most - 1))]);
};
const pagesOf = (folder) => {
  const kinds = new Map();
  for (const file of fs.readdirSync(folder).filter((name) => name.endsWith('.html')).sort()) {
    const kind = file.replace(/[-\d]*\.html$/, '');
    kinds.set(kind, [...(kinds.get(kind) || []), file]);
  }
  return kinds;
};

const open = async (context, file) => {
  const page = await context.newPage();
  const problems = [];
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) problems.push(message.text()); });
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('dialog', (dialog) => { problems.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', (request) => { if (!/^(file|data):/.test(request.url())) problems.push(`request of ${request.url()}`); });
  // Leaving a page ends what it still loads.
  page.on('requestfailed', (request) => { if (!/ABORTED/.test(request.failure().errorText)) problems.push(`${request.url()} could not be loaded`); });
  await page.goto(pathToFileURL(file).href);
  await page.evaluate(() => Promise.all([...document.images].map((image) => { image.loading = 'eager'; return image.decode().catch(() => {}); })));
  return { page, problems };
};

// What holds for every page that is open.
const inspect = async (page, name) => {
  await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'], preload: false }));
  for (const violation of result.violations) {
    check(false, `${name}: ${violation.id}: ${violation.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.failureSummary.replace(/\s+/g, ' ').slice(0, 220)}`).join(' | ')}`);
  }
  const found = await page.evaluate(() => {
    const all = [...document.querySelectorAll('*')];
    return {
      elements: all.length,
      wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
      broken: [...document.images].filter((image) => !image.naturalWidth).map((image) => image.src.slice(0, 80)),
      foreign: [...document.images].map((image) => image.getAttribute('src')).filter((src) => !/^(pictures\/|data:image\/png)/.test(src)),
      scripts: [...document.scripts].filter((script) => !script.type && script.getAttribute('src') !== 'script.js' && script.src).length,
      handlers: all.flatMap((element) => [...element.attributes]).filter((attribute) => attribute.name.startsWith('on')).length,
      // Text that does not fit where it stands, and is cut without a sign.
      clipped: all.filter((element) => element.matches('td, th, h1, h2, h3, .tile, .gap, .panel, .group, dd')
        && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== 'inline')
        .map((element) => element.outerHTML.slice(0, 120)),
    };
  });
  check(!found.wide, `${name}: wider than the window`);
  check(found.broken.length === 0, `${name}: pictures that are not there: ${found.broken.slice(0, 3)}`);
  check(found.foreign.length === 0, `${name}: pictures from elsewhere: ${found.foreign.slice(0, 3)}`);
  check(found.scripts === 0 && found.handlers === 0, `${name}: ${found.scripts} scripts and ${found.handlers} handlers of others`);
  check(found.clipped.length === 0, `${name}: clipped: ${found.clipped.slice(0, 2).join(' | ')}`);
  check(found.elements <= 5000, `${name}: ${found.elements} elements`);
};

const decode = (text) => text.replace(/&lt;/g, '<').replace(/&gt;/g, '>').replace(/&quot;/g, '"').replace(/&#39;/g, "'").replace(/&amp;/g, '&');

// Every number of every page, and every link, in the text of the files.
const numbers = (folder) => {
  const json = JSON.parse(fs.readFileSync(path.join(folder, 'report.json'), 'utf8'));
  const pages = [...pagesOf(folder).values()].flat();
  let count = 0;
  for (const file of pages) {
    const html = fs.readFileSync(path.join(folder, file), 'utf8');
    check(html.length <= (file === 'index.html' ? 300 << 10 : 2 << 20), `${folder}/${file}: ${html.length} bytes`);
    for (const [, pointer, text] of html.matchAll(/ data-at="([^"]+)"[^>]*>([^<]*)</g)) {
      count += 1;
      const value = lookUp(json, decode(pointer));
      if (!agrees(decode(text), value)) check(false, `${folder}/${file}: ${pointer} is ${value}, not ${text}`);
    }
    for (const [, pointers, text] of html.matchAll(/ data-ratio="([^"]+)"[^>]*>(?:<span[^>]*>)?([^<]*)</g)) {
      count += 1;
      const [a, b] = pointers.split(' ').map((pointer) => lookUp(json, pointer));
      if (!agrees(decode(text), a / b)) check(false, `${folder}/${file}: ${pointers} are ${a} and ${b}, not ${text}`);
    }
    for (const [, link] of html.matchAll(/<a (?:class="[^"]*" )?href="([^"#]+)(?:#[^"]*)?"/g)) {
      if (!fs.existsSync(path.join(folder, decode(link)))) check(false, `${folder}/${file}: no ${link}`);
    }
  }
  check(count > 100, `${folder}: only ${count} numbers`);
  console.log(`${folder}: ${count} numbers on ${pages.length} pages are those of report.json`);
};

const visit = async (browser, folder, look, most) => {
  const narrow = look === 'narrow';
  const viewport = narrow ? { width: 400, height: 800 } : { width: 1280, height: 900 };
  const context = await browser.newContext({ colorScheme: look === 'dark' ? 'dark' : 'light', viewport });
  for (const [kind, files] of pagesOf(folder)) {
    for (const file of some(files, most)) {
      const { page, problems } = await open(context, path.join(folder, file));
      const name = `${folder.split(path.sep).slice(-2).join('/')}/${file} (${look})`;
      await inspect(page, name);
      check(problems.length === 0, `${name}: ${problems.slice(0, 3).join(', ')}`);
      if (file === files[0]) {
        const to = path.join(screenshots, `${path.basename(path.dirname(folder))}-${kind}-${look}.png`);
        await page.screenshot({ path: to, fullPage: true });
      }
      await page.close();
    }
  }
  await context.close();
};

// Names that would like to be more than names are there as they are.
const hostile = async (browser, folder) => {
  const names = JSON.parse(fs.readFileSync(path.join(path.dirname(folder), 'names.json'), 'utf8'));
  const context = await browser.newContext();
  const texts = [];
  for (const files of pagesOf(folder).values()) {
    for (const file of some(files, 20)) {
      const { page, problems } = await open(context, path.join(folder, file));
      check(problems.length === 0, `${file}: ${problems.slice(0, 3).join(', ')}`);
      texts.push(await page.evaluate(() => document.body.textContent + document.title + [...document.querySelectorAll('[title], [alt]')].map((e) => `${e.title} ${e.getAttribute('alt')}`).join(' ')));
      check(await page.evaluate(() => !window.hacked), `${file}: a name was obeyed`);
      await page.close();
    }
  }
  const all = texts.join('\n');
  for (const name of names) check(all.includes(name), `${JSON.stringify(name.slice(0, 80))} is not shown as it is`);
  check(!/[\u0000-\u0008\u001b\u202e\u2066-\u2069]/.test(all), 'characters that would be obeyed are shown as they are');
  await context.close();
};

// Keys, filter, sorting, and what is chosen in the address.
const use = async (browser, folder) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
  const name = path.basename(path.dirname(folder));
  const { page, problems } = await open(context, path.join(folder, 'index.html'));
  const stops = await page.$$eval('[data-stop]', (all) => all.length);
  if (stops > 0) {
    await page.keyboard.press('j');
    const first = await page.evaluate(() => [...document.querySelectorAll('[data-stop]')].indexOf(document.activeElement));
    check(first === 0, `${name}: j goes to the first gap, not ${first}`);
    if (stops > 1) {
      await page.keyboard.press('j');
      await page.keyboard.press('k');
      const again = await page.evaluate(() => [...document.querySelectorAll('[data-stop]')].indexOf(document.activeElement));
      check(again === 0, `${name}: k goes back, not to ${again}`);
    }
  }
  await page.keyboard.press('?');
  check(await page.$eval('dialog', (dialog) => dialog.open), `${name}: ? shows the keys`);
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  check(await page.evaluate(() => document.activeElement.id === 'filter'), `${name}: / goes to the filter`);
  const word = await page.$eval('tr[data-row] th', (cell) => cell.textContent.trim());
  await page.keyboard.type(word);
  const rows = await page.$$eval('tr[data-row]', (all) => [all.filter((row) => !row.hidden).length, all.length]);
  check(rows[0] >= 1 && rows[0] < rows[1], `${name}: the filter ${word} leaves ${rows[0]} of ${rows[1]} rows`);
  check((await page.evaluate(() => location.hash)).includes('q='), `${name}: the filter is in the address`);
  // A letter in a field is a letter.
  check(await page.$eval('#filter', (field, word) => field.value === word, word), `${name}: keys in the field are letters`);
  await page.reload();
  const kept = await page.$$eval('tr[data-row]', (all) => all.filter((row) => !row.hidden).length);
  check(kept === rows[0], `${name}: the address keeps the filter`);
  await page.$eval('#filter', (field) => { field.value = ''; field.dispatchEvent(new Event('input')); });
  const head = await page.$('table.sortable th.n button');
  await head.click();
  const sorted = await page.evaluate(() => {
    const th = document.querySelector('th[aria-sort]');
    const table = th.closest('table');
    const at = [...th.parentElement.cells].indexOf(th);
    const values = [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[at].textContent.replace(/[,<]/g, '')));
    return values.every((value, i) => i === 0 || values[i - 1] >= value);
  });
  check(sorted, `${name}: a click sorts`);
  const cluster = [...pagesOf(folder).get('cluster') || []][0];
  if (cluster) {
    await page.goto(pathToFileURL(path.join(folder, cluster)).href);
    await page.keyboard.press('u');
    await page.waitForURL(/class-\d+\.html/);
    const next = await page.$eval('link[rel=next]', (link) => link.href).catch(() => null);
    await page.keyboard.press(']');
    if (next) await page.waitForURL(next);
    await page.waitForLoadState();
  }
  if (fs.existsSync(path.join(folder, 'explorer.html'))) {
    await page.goto(pathToFileURL(path.join(folder, 'explorer.html')).href);
    const count = await page.$$eval('#first option', (all) => all.length);
    check(count > 1, `${name}: two clusters can be compared`);
    await page.selectOption('#second', { index: count - 1 });
    const cells = await page.$$eval('#compare tbody tr', (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
    const json = JSON.parse(fs.readFileSync(path.join(folder, 'report.json'), 'utf8'));
    const chosen = await page.evaluate(() => ['first', 'second'].map((id) => Number(document.getElementById(id).value)));
    const ones = (hex) => [...hex].reduce((sum, digit) => sum + [...parseInt(digit, 16).toString(2)].filter((bit) => bit === '1').length, 0);
    cells.forEach((row, layer) => {
      const [first, second] = chosen.map((cluster) => ones(json.clusters[cluster].anatomy.layers[layer].bits));
      check(Number(row[1]) + Number(row[2]) === first && Number(row[1]) + Number(row[3]) === second, `${name}: layer ${layer} of the comparison adds up`);
    });
    check(/a=\d+/.test(page.url()) && /b=\d+/.test(page.url()), `${name}: the comparison is in the address`);
    await page.focus('.map a');
    check(!(await page.$eval('#seen', (seen) => seen.hidden)), `${name}: a cluster of the map shows what it looks like`);
    await page.screenshot({ path: path.join(screenshots, `${name}-compare.png`), fullPage: true });
  }
  check(problems.length === 0, `${name}, used: ${problems.slice(0, 3).join(', ')}`);
  await context.close();
};

// Without the script everything is there.
const plain = async (browser, folder) => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const name = path.basename(path.dirname(folder));
  for (const [kind, files] of pagesOf(folder)) {
    const page = await context.newPage();
    await page.goto(pathToFileURL(path.join(folder, files[0])).href);
    const text = await page.locator('main').innerText();
    check(text.length > 40, `${name}/${kind}: readable without the script`);
    check((await page.locator('button').count()) === 0, `${name}/${kind}: no buttons that do nothing`);
    await page.close();
  }
  await context.close();
};

const single = async (browser, file) => {
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ colorScheme, viewport: { width: 1280, height: 900 } });
    const { page, problems } = await open(context, file);
    check(problems.length === 0, `${file}: ${problems.slice(0, 3).join(', ')}`);
    await inspect(page, `${file} (${colorScheme})`);
    const broken = await page.$$eval('a[href]', (all) => all.map((link) => link.getAttribute('href')).filter((to) => !to.startsWith('#') || !document.getElementById(to.slice(1))));
    check(broken.length === 0, `${file}: links to nothing: ${broken.slice(0, 3)}`);
    await page.screenshot({ path: path.join(screenshots, `single-${colorScheme}.png`), fullPage: true });
    await context.close();
  }
};

fs.mkdirSync(screenshots, { recursive: true });
const profile = fs.mkdtempSync(path.join(screenshots, 'profile-'));
const browser = await chromium.launch({ executablePath, headless: true, args: [...flags, `--disk-cache-dir=${profile}`] });
try {
  for (const named of reports) {
    const report = named.replace(/[!?]$/, '');
    if (report.endsWith('.html')) {
      await single(browser, report);
      continue;
    }
    const few = named !== report;
    numbers(report);
    await visit(browser, report, 'light', few ? 1 : 3);
    await visit(browser, report, 'dark', 1);
    await visit(browser, report, 'narrow', 1);
    await plain(browser, report);
    if (!few) await use(browser, report);
    if (named.endsWith('?')) await hostile(browser, report);
  }
} finally {
  await browser.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
console.log(`${checks} checks, ${failures.length} failed`);
process.exitCode = failures.length ? 1 : 0;
