'use strict';
// Tables are sorted by a head: as numbers where all cells of the column begin with one, else as text.
for (const table of document.querySelectorAll('table')) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2 || table.dataset.fixed) continue;
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute('aria-sort', 'none');
    button.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') !== 'ascending';
      heads.forEach((h) => h.hasAttribute('aria-sort') && h.setAttribute('aria-sort', 'none'));
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const rows = [...body.rows].map((row) => [row.cells[column].textContent.trim(), row]);
      const number = (text) => parseFloat(text.replace(/,/g, ''));
      const told = rows.filter(([text]) => text !== '' && text !== '–');
      const numeric = told.length > 0 && told.every(([text]) => !Number.isNaN(number(text)));
      const last = ([text]) => text === '' || text === '–';
      rows.sort((a, b) => {
        if (last(a) !== last(b)) return last(a) ? 1 : -1;
        const order = numeric ? number(a[0]) - number(b[0]) : a[0].localeCompare(b[0]);
        return up ? order : -order;
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
}
// On paper nothing can be unfolded.
const folded = [];
addEventListener('beforeprint', () => {
  for (const d of document.querySelectorAll('details:not([open])')) { d.open = true; folded.push(d); }
});
addEventListener('afterprint', () => { for (const d of folded.splice(0)) d.open = false; });
