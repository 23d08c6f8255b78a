"use strict";
// Tables sort on a click of their head: numbers by value, all else as text.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const text = (row, column) => row.cells[column].textContent.trim();
  const value = (row, column) => Number(row.cells[column].dataset.value ?? NaN);
  heads.forEach((head, column) => {
    const rows = [...body.rows];
    const numeric = rows.some((row) => "value" in row.cells[column].dataset);
    if (numeric) {
      head.classList.add("numeric");
      rows.forEach((row) => row.cells[column].classList.add("numeric"));
    }
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => {
        if (!numeric) return text(a, column).localeCompare(text(b, column));
        return value(a, column) - value(b, column);
      };
      const missing = (row) => numeric && Number.isNaN(value(row, column));
      const [last, first] = [[], []];
      for (const row of body.rows) (missing(row) ? last : first).push(row);
      first.sort((a, b) => (down ? -1 : 1) * order(a, b));
      body.append(...first, ...last);
    });
  });
}
