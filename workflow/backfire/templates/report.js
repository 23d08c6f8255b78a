"use strict";
// Tables sort on a click of their head: numbers by value, all else as text.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const text = (row, column) => row.cells[column].textContent.trim();
  const value = (row, column) => {
    const found = text(row, column).replaceAll("\u2212", "-").match(/^[(*]*([+-]?\d[\d.]*(?:e[+-]?\d+)?)/i);
    return found ? Number(found[1]) : NaN;
  };
  heads.forEach((head, column) => {
    const rows = [...body.rows];
    const filled = rows.filter((row) => text(row, column) !== "" && text(row, column) !== "–");
    const numeric = filled.length > 0 && filled.every((row) => !Number.isNaN(value(row, column)));
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
        const [x, y] = [value(a, column), value(b, column)];
        return Number.isNaN(x) ? 1 : Number.isNaN(y) ? -1 : x - y;
      };
      const sorted = [...body.rows].sort((a, b) => (down ? -1 : 1) * order(a, b));
      body.append(...sorted);
    });
  });
}
