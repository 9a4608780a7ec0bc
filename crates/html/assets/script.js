// Sorting, filtering, keys, and two paths side by side. Everything else works without it.
(() => {
  'use strict';
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);

  // What is chosen stands in the address, so that it can be sent to others.
  const read = () => new URLSearchParams(location.hash.includes('=') ? location.hash.slice(1) : '');
  const write = (change) => {
    const state = read();
    for (const [key, value] of Object.entries(change)) {
      if (value === '' || value === null) state.delete(key); else state.set(key, value);
    }
    const text = state.toString();
    history.replaceState(null, '', text ? '#' + text : location.pathname + location.search);
  };

  // Tables.
  const number = (text) => {
    const value = parseFloat(text.replace(/,/g, '').replace('–', '-Infinity'));
    return Number.isNaN(value) ? null : value;
  };
  const tables = all('table.sortable');
  const sort = (table, column, down) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, text: row.cells[column] ? row.cells[column].textContent.trim() : '' }));
    const numeric = rows.every(({ text }) => text === '' || number(text) !== null);
    rows.sort((a, b) => {
      const order = numeric ? (number(a.text) ?? -Infinity) - (number(b.text) ?? -Infinity) : a.text.localeCompare(b.text);
      return (Number.isNaN(order) ? 0 : order) * (down ? -1 : 1);
    });
    rows.forEach(({ row }) => body.append(row));
    all('th', table.tHead).forEach((th, i) => {
      if (i === column) th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
  };
  tables.forEach((table, at) => {
    if (!table.tHead || table.tBodies[0].rows.length < 2) return;
    [...table.tHead.rows[0].cells].forEach((th, column) => {
      if (!th.textContent.trim()) return;
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...th.childNodes);
      th.append(button);
      button.addEventListener('click', () => {
        const down = th.getAttribute('aria-sort') === null ? th.classList.contains('n') : th.getAttribute('aria-sort') === 'ascending';
        sort(table, column, down);
        write({ sort: [at, column, down ? 1 : 0].join('.') });
      });
    });
  });

  // Filter.
  const field = one('filter');
  const filter = () => {
    const wanted = field.value.trim().toLowerCase();
    let shown = 0;
    const rows = all('tr[data-row]');
    for (const row of rows) {
      const words = all('th, td:not(.n)', row).map((cell) => cell.textContent.trim()).join(' ').toLowerCase();
      row.hidden = wanted !== '' && !words.includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    one('matches').textContent = wanted === '' ? '' : `${shown} of ${rows.length}`;
  };
  if (field) {
    field.closest('.filter').hidden = false;
    field.addEventListener('input', () => { filter(); write({ q: field.value.trim() }); });
  }

  // Two paths side by side.
  const data = one('paths') && JSON.parse(one('paths').textContent);
  const bits = (hex, count) => {
    const row = new Uint8Array(count);
    for (let i = 0; i < count; i++) row[i] = (parseInt(hex[i >> 2], 16) >> (3 - (i & 3))) & 1;
    return row;
  };
  const compare = () => {
    const chosen = ['first', 'second'].map((id) => data.clusters.find((cluster) => String(cluster[0]) === one(id).value));
    const body = one('compare').querySelector('tbody');
    if (chosen.some((cluster) => !cluster)) return;
    body.replaceChildren();
    const style = getComputedStyle(document.documentElement);
    const colours = { both: style.getPropertyValue('--against').trim(), single: style.getPropertyValue('--for').trim() };
    data.layers.forEach(([name, neurons], layer) => {
      const [a, b] = chosen.map((cluster) => bits(cluster[2][layer], neurons));
      let both = 0, first = 0, second = 0;
      for (let i = 0; i < neurons; i++) { both += a[i] & b[i]; first += a[i] & ~b[i] & 1; second += b[i] & ~a[i] & 1; }
      const united = both + first + second;
      const row = body.insertRow();
      const head = document.createElement('th');
      head.scope = 'row';
      head.textContent = `${layer} ${name.slice(0, 60)}`;
      row.append(head);
      const similarity = united ? (100 * both / united).toFixed(1) + '%' : '100.0%';
      for (const text of [both, first, second, similarity]) {
        const cell = row.insertCell();
        cell.className = 'n';
        cell.textContent = text;
      }
      const canvas = document.createElement('canvas');
      const cells = Math.min(neurons, 256);
      canvas.width = cells;
      canvas.height = 2;
      canvas.className = 'neurons';
      canvas.setAttribute('role', 'img');
      canvas.setAttribute('aria-label', `${both} neurons in both paths, ${first} only in the first, ${second} only in the second`);
      canvas.style.imageRendering = 'pixelated';
      const context = canvas.getContext('2d');
      for (let cell = 0; cell < cells; cell++) {
        let x = 0, y = 0, z = 0;
        for (let i = Math.floor(cell * neurons / cells); i < Math.floor((cell + 1) * neurons / cells); i++) { x |= a[i]; y |= b[i]; z |= a[i] & b[i]; }
        context.fillStyle = z ? colours.both : colours.single;
        if (z || x) context.fillRect(cell, 0, 1, 1);
        if (z || y) context.fillRect(cell, 1, 1, 1);
      }
      const cell = row.insertCell();
      cell.className = 'strip-cell';
      cell.append(canvas);
    });
  };
  if (data && one('compare')) {
    one('compare').hidden = false;
    ['first', 'second'].forEach((id, at) => {
      for (const [cluster, name] of data.clusters) one(id).add(new Option(name, cluster));
      one(id).selectedIndex = Math.min(at, data.clusters.length - 1);
      one(id).addEventListener('change', () => { compare(); write({ a: one('first').value, b: one('second').value }); });
    });
  }

  // The map: who is looked at shows what it looks like.
  const seen = one('seen');
  const look = (point) => {
    seen.hidden = false;
    const label = document.createElement('span');
    label.textContent = point.querySelector('title').textContent;
    const pictures = document.createElement('div');
    for (const source of (point.dataset.pictures || '').split(' ').filter(Boolean)) {
      const image = document.createElement('img');
      image.src = source;
      image.alt = '';
      pictures.append(image);
    }
    seen.replaceChildren(label, pictures);
  };
  all('.map a').forEach((point) => {
    point.addEventListener('mouseenter', () => look(point));
    point.addEventListener('focus', () => look(point));
  });

  // What the address says.
  const restore = () => {
    const state = read();
    const [table, column, down] = (state.get('sort') || '').split('.').map(Number);
    if (state.get('sort') && tables[table] && tables[table].tHead.rows[0].cells[column]) sort(tables[table], column, down === 1);
    if (field) { field.value = state.get('q') || ''; filter(); }
    if (data && one('compare')) {
      if (state.get('a')) one('first').value = state.get('a');
      if (state.get('b')) one('second').value = state.get('b');
      compare();
    }
  };
  restore();
  window.addEventListener('hashchange', () => { if (location.hash.includes('=')) restore(); });

  // Keys.
  const help = document.createElement('dialog');
  const title = document.createElement('h2');
  title.textContent = 'Keys';
  title.id = 'keys-title';
  help.setAttribute('aria-labelledby', 'keys-title');
  const list = document.createElement('dl');
  for (const [key, words] of [['j, k', 'next and previous gap'], ['[, ]', 'previous and next page of its kind'], ['u', 'up'], ['/', 'filter'], ['?', 'these keys'], ['Esc', 'close']]) {
    const dt = document.createElement('dt');
    key.split(', ').forEach((name, i) => {
      const kbd = document.createElement('kbd');
      kbd.textContent = name;
      dt.append(i ? ' ' : '', kbd);
    });
    const dd = document.createElement('dd');
    dd.textContent = words;
    list.append(dt, dd);
  }
  const close = document.createElement('button');
  close.textContent = 'Close';
  close.addEventListener('click', () => help.close());
  help.append(title, list, close);
  document.body.append(help);
  one('keys').hidden = false;
  let at = -1;
  const step = (by) => {
    const stops = all('[data-stop]').filter((stop) => !stop.hidden);
    if (!stops.length) return;
    at = Math.max(0, Math.min(stops.length - 1, at + by));
    stops[at].focus();
    stops[at].scrollIntoView({ block: 'center' });
  };
  const go = (rel) => {
    const link = document.querySelector(`link[rel=${rel}]`);
    if (link) location.href = link.href;
  };
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest('input, select, textarea')) {
      if (event.key === 'Escape') event.target.blur();
      return;
    }
    const keys = { j: () => step(1), k: () => step(-1), '[': () => go('prev'), ']': () => go('next'), u: () => go('up'), '?': () => help.showModal(), '/': () => field && field.focus() };
    if (Object.hasOwn(keys, event.key)) { event.preventDefault(); keys[event.key](); }
  });
})();
