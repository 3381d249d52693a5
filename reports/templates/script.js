// Tables with class "sort" are sorted by a click on a column's head; the page does without. Cells without a number stay last.
for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0];
  const value = (cell) => {
    const text = cell ? cell.dataset.value || cell.textContent.trim() : "";
    const number = cell && cell.tagName === "TD" && text.match(/^[~+\u2212-]?\d[\d,]*(\.\d+)?/);
    return number ? Number(number[0].replace(/[~+,]/g, "").replace("\u2212", "-")) : text;
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
      const order = (one, other) => {
        const [a, b] = [value(one.cells[place]), value(other.cells[place])];
        const numbers = [a, b].filter((each) => typeof each === "number").length;
        if (numbers === 1) return typeof a === "number" ? -1 : 1;
        return (up ? 1 : -1) * (numbers ? a - b : a.localeCompare(b));
      };
      [...body.rows].sort(order).forEach((row) => body.append(row));
    });
  });
}

for (const button of document.querySelectorAll("button[data-copy]"))
  button.addEventListener("click", () => navigator.clipboard.writeText(button.dataset.copy).then(() => (button.textContent = "copied")));
