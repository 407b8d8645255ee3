"""What a host writes down of an effect: the same on every host."""

from typing import Any

from covey.kernel.effects import Deliver, Install, Note


def row_of(effect: Deliver | Install | Note) -> tuple[str, dict[str, Any]]:
    """Return the event and the columns of its row, as `Member.write` takes them."""
    if isinstance(effect, Deliver):
        return "deliver", _of_delivery(effect)
    if isinstance(effect, Install):
        return "config", _of_configuration(effect)
    return effect.event, effect.columns


def _of_delivery(batch: Deliver) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "message": f"{batch.origin}/{batch.number}",
        "config": batch.view,
        "count": len(batch.messages),
    }
    if batch.ordinal is not None:
        columns["ordinal"] = batch.ordinal
    return columns


def _of_configuration(view: Install) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "group": view.group,
        "config": view.config,
        "kind": view.kind,
        "members": list(view.members),
        "seq": view.seq,
    }
    if view.primary is not None:
        columns["primary"] = view.primary
    if view.previous:
        columns["previous"] = view.previous
    return columns
