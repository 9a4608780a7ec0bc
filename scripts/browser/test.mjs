// Opens reports in Chromium as a reader would, from disk, and holds them against what they promise: no errors, no
// requests, nothing that axe-core objects to, keys and filters that work, numbers that are those of report.json, and
// text that can be read without the script.
//
//   node test.mjs CHROMIUM SCREENSHOTS REPORT...
//
// Screenshots of some pages of each report are written, light and dark.

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
  if (files.length <= most) return files;
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
  page.on('request', (request) => { if (!/^(file|data):/.test(request.url())) problems.push(`request of ${request.url()}`); });
  page.on('requestfailed', (request) => problems.push(`${request.url()} could not be loaded`));
  await page.goto(pathToFileURL(file).href);
  await page.evaluate(() => Promise.all([...document.images].map((image) => { image.loading = 'eager'; return image.decode().catch(() => {}); })));
  return { page, problems };
};

const visit = async (browser, folder, colorScheme) => {
  const json = JSON.parse(fs.readFileSync(path.join(folder, 'report.json'), 'utf8'));
  const context = await browser.newContext({ colorScheme, viewport: { width: 1280, height: 900 } });
  let numbers = 0;
  for (const [kind, files] of pagesOf(folder)) {
    for (const file of some(files, 4)) {
      const { page, problems } = await open(context, path.join(folder, file));
      const name = `${path.basename(folder)}/${file} (${colorScheme})`;
      await page.addScriptTag({ content: axe }).catch(() => page.evaluate(axe));
      const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'], preload: false }));
      for (const violation of result.violations) {
        check(false, `${name}: ${violation.id}: ${violation.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.failureSummary.replace(/\s+/g, ' ').slice(0, 220)}`).join(' | ')}`);
      }
      check(problems.length === 0, `${name}: ${problems.slice(0, 3).join(', ')}`);
      const shown = await page.$$eval('[data-at]', (all) => all.map((element) => [element.dataset.at, element.textContent]));
      for (const [pointer, text] of shown) {
        numbers += 1;
        const value = lookUp(json, pointer);
        if (!agrees(text, value)) check(false, `${name}: ${pointer} is ${value}, not ${text}`);
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
      check(!wide, `${name}: wider than the window`);
      const broken = await page.$$eval('img', (all) => all.filter((image) => !image.naturalWidth).map((image) => image.src.slice(0, 80)));
      check(broken.length === 0, `${name}: pictures that are not there: ${broken.slice(0, 3)}`);
      const links = await page.$$eval('a[href]', (all) => [...new Set(all.map((link) => link.getAttribute('href')))]);
      for (const link of links.filter((link) => !link.startsWith('#'))) {
        check(fs.existsSync(path.join(folder, link.split('#')[0])), `${name}: no ${link}`);
      }
      if (file === files[0] && ['index', 'cluster', 'input', 'explorer', 'class', 'errors', 'neurons', 'changes'].includes(kind)) {
        const to = path.join(screenshots, `${path.basename(path.dirname(folder))}-${kind}-${colorScheme}.png`);
        await page.screenshot({ path: to, fullPage: true });
      }
      await page.close();
    }
  }
  check(numbers > 100, `${folder}: only ${numbers} numbers`);
  await context.close();
  return numbers;
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
    const values = [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[at].textContent.replace(/,/g, '')));
    return values.every((value, i) => i === 0 || values[i - 1] >= value);
  });
  check(sorted, `${name}: a click sorts`);
  const cluster = [...pagesOf(folder).get('cluster') || []][0];
  if (cluster) {
    await page.goto(pathToFileURL(path.join(folder, cluster)).href);
    await page.keyboard.press('u');
    await page.waitForURL(/class-\d+\.html/);
    await page.keyboard.press(']').catch(() => {});
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
    check(text.length > 100, `${name}/${kind}: readable without the script`);
    check((await page.locator('button').count()) === 0, `${name}/${kind}: no buttons that do nothing`);
    await page.close();
  }
  await context.close();
};

const single = async (browser, file) => {
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ colorScheme });
    const { page, problems } = await open(context, file);
    check(problems.length === 0, `${file}: ${problems.slice(0, 3).join(', ')}`);
    await page.evaluate(axe);
    const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'], preload: false }));
    for (const violation of result.violations) check(false, `${file}: ${violation.id}: ${violation.nodes[0].html.slice(0, 200)}`);
    const broken = await page.$$eval('a[href^="#"]', (all) => all.map((link) => link.getAttribute('href').slice(1)).filter((id) => !document.getElementById(id)));
    check(broken.length === 0, `${file}: links to nothing: ${broken.slice(0, 3)}`);
    await context.close();
  }
};

fs.mkdirSync(screenshots, { recursive: true });
const profile = fs.mkdtempSync(path.join(screenshots, 'profile-'));
const browser = await chromium.launch({ executablePath, headless: true, args: [...flags, `--disk-cache-dir=${profile}`] });
try {
  for (const report of reports) {
    if (report.endsWith('.html')) {
      await single(browser, report);
      continue;
    }
    const numbers = [];
    for (const colorScheme of ['light', 'dark']) numbers.push(await visit(browser, report, colorScheme));
    await use(browser, report);
    await plain(browser, report);
    console.log(`${report}: ${numbers[0]} numbers are those of report.json`);
  }
} finally {
  await browser.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
console.log(`${checks} checks, ${failures.length} failed`);
process.exitCode = failures.length ? 1 : 0;
