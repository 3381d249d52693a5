"""Pictures of the structured heads: where the kernel attends, and where it errs."""

from typing import Any

from matplotlib.ticker import MaxNLocator

from reports.draw.style import COLORS, INK, MUTED, WIDTH, new_axes, new_grid, to_svg

MAP = "mako"


def attention(details: dict[str, Any]) -> str:
    """Four heatmaps, queries downwards, keys to the right. `details`: what structured_heads.compute returns."""
    import seaborn as sns

    figure, all_axes = new_grid(2, 2, WIDTH, WIDTH * 1.06, sharex=True, sharey=True)
    for axes, head in zip(all_axes, details["heads"], strict=True):
        end = details["seq"]
        axes.imshow(head["attention"], cmap=sns.color_palette(MAP, as_cmap=True), vmin=0, vmax=255,
                    extent=(0, end, end, 0), interpolation="nearest")  # fmt: skip
        axes.set_title(head["name"], loc="left", fontsize=10)
        axes.set_xticks([0, end // 2, end])
        axes.set_yticks([0, end // 2, end])
        axes.grid(visible=False)
    all_axes[0].set_ylabel("query")
    all_axes[2].set(xlabel="key", ylabel="query")
    return to_svg(figure, "structured heads")


def error_by_position(details: dict[str, Any]) -> str:
    """Median and largest |O - truth| of the positions of a bin, on a logarithmic axis."""
    import seaborn as sns

    figure, axes = new_axes(WIDTH, 3.2)
    palette = sns.color_palette("colorblind", len(details["heads"])).as_hex()
    positions = [details["bin"] * (place + 0.5) for place in range(details["seq"] // details["bin"])]
    for head, color in zip(details["heads"], palette, strict=True):
        axes.plot(positions, head["error_max"], color=color, lw=1, alpha=0.55)
        axes.plot(positions, head["error_median"], color=color, lw=1.8, label=head["name"])
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:.0e}")
    axes.set(xlabel="query position (thick: median, thin: largest)", ylabel="|O - truth|")
    axes.legend(frameon=False, fontsize=9, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), columnspacing=1.2)
    return to_svg(figure, "error by position")


def error_by_head(details: dict[str, Any]) -> str:
    """Largest |O - truth| of each head, and that of roundings alone."""
    heads = details["heads"]
    figure, axes = new_axes(WIDTH, 0.8 + 0.32 * len(heads))
    right = 1.6 * max(max(head["max_abs"], head["rounding"]) for head in heads)
    for place, head in enumerate(heads):
        axes.plot([0, head["max_abs"]], [place, place], color=COLORS["cuda"], lw=2)
        axes.plot([head["max_abs"]], [place], "o", ms=7, color=COLORS["cuda"])
        axes.plot([head["rounding"]], [place], "|", ms=16, mew=2.5, color=INK)
        text = f"{head['max_abs']:.1e} (roundings {head['rounding']:.1e})"
        farthest = (max(head["max_abs"], head["rounding"]), place)
        axes.annotate(text, farthest, xytext=(8, 0), textcoords="offset points", va="center", size=9, color=MUTED)
    axes.set_yticks(range(len(heads)), [head["name"] for head in heads])
    axes.set(xlim=(0, right), ylim=(len(heads) - 0.5, -0.5), xlabel="largest |O - truth|", ylabel="")
    axes.ticklabel_format(axis="x", style="plain")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(visible=False, axis="y")
    return to_svg(figure, "error by head")
