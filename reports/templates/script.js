// Tables with class "sort" are sorted by a click on a column's head; the page does without.
for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0];
  const value = (row, place) => {
    const text = row.cells[place] ? row.cells[place].dataset.value || row.cells[place].textContent.trim() : "";
    const number = parseFloat(text.replace(/[^0-9.+-]/g, ""));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  [...table.tHead.rows[table.tHead.rows.length - 1].cells].forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const order = (a, b) => (typeof a === typeof b ? (a > b) - (a < b) : typeof a === "number" ? -1 : 1);
      [...body.rows].sort((a, b) => (up ? 1 : -1) * order(value(a, place), value(b, place))).forEach((row) => body.append(row));
    });
  });
}
