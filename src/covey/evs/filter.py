"""Virtual synchrony out of extended virtual synchrony: the filter (evs-1994, section 5).

It stands between the engine and an application that wants a group whose processes only fail. What comes in are
configurations, what it lets through are views.

    1   a transitional configuration is masked: what is delivered in it counts for the view before
    2   a regular configuration that is not primary blocks: nothing passes until this process is in a primary one again
    3   a primary configuration into which several processes are merged gives several views, each of which merges one
    4   a process that is merged itself begins with the last of these

A process that leaves the primary component *fails* in its last view: when it installs a configuration that is not
primary, or a primary one into which it is merged although it was in an earlier one. Once merged it is a new process
with a new identity (end of section 5). Its incarnation is the `seq` of the configuration into which it was merged: by
`Install.since` all know it alike. It *starts* there without anything recovered: what it had belongs to a process that
has failed.

The last view of a configuration is called like it, "8.b"; those before it "8.b#1", "8.b#2", ... The paper shows these
to those who are merged, too. Here only those see them who were there before, in the same incarnation: should all of
these crash before they install the configuration, nothing that is seen would tell that the view before came first.
"""

from typing import Any

from covey.kernel.effects import Deliver, Install, Note
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import MessageId
from covey.kernel.layer import Passed

PLACE_BITS = 16
"""A view's number is that of its configuration, followed by its place among the views of that."""


class Filter:
    """The filter at one process, over all incarnations of its engine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.view = ""
        """The view that this process is in, called like its configuration; empty while it is blocked (rule 2)."""
        self.since: dict[str, int] = {}
        """The incarnation of each member of that view."""

    def see(self, effect: Deliver | Install | Note) -> list[Passed]:
        """Learn what the engine tells; return what the application is told."""
        match effect:
            case Install(kind="regular"):
                return self._on_configuration(effect)
            case Deliver() if self.view:
                return [self._deliver(effect)]
            case Note(event="send", columns=columns) if self.view and columns.get("config") == self.view:
                return [self._pass("send", **{**columns, "message": self._translate(columns["message"])})]
        return []

    def end(self, event: str) -> list[Passed]:
        """Learn that the process has failed or stopped, in its view if it is in one."""
        if not self.view:
            return []
        ended = self._pass(event, config=self.view)
        self.view = ""
        return [ended]

    def _on_configuration(self, new: Install) -> list[Passed]:
        if not new.primary:
            return self.end("fail")  # rule 2
        since = dict(new.since)
        if sorted(since) != sorted(new.members):
            raise BrokenInvariant(
                f"{self.name}: primary {new.config} tells of {sorted(since)} since when they are in it"
            )
        passed = self.end("fail") if self.view and since[self.name] != self.since[self.name] else []
        is_merged = not self.view
        self.view, self.since = new.config, since
        if is_merged:
            passed.append(self._pass("start", recovered=False))
        return passed + self._views(new)

    def _views(self, new: Install) -> list[Passed]:
        """Rules 3 and 4: the views of a primary configuration that this process sees."""
        merged = [name for name in new.members if self.since[name] == new.seq]
        later = merged[1:]  # the first view merges one already
        views = []
        for place in range(len(later) + 1):
            is_last = place == len(later)
            if is_last or self.name not in merged:
                members = set(new.members).difference(later[place:])
                columns = {
                    "config": new.config if is_last else f"{new.config}#{place + 1}",
                    "kind": "regular",
                    "members": sorted(f"{name}/{self.since[name]}" for name in members),
                    "seq": new.seq << PLACE_BITS | place,
                    "primary": True,
                }
                views.append(self._pass("config", **columns))
        return views

    def _deliver(self, batch: Deliver) -> Passed:
        """Rule 1: whatever configuration it is delivered in, the view stays."""
        message = self._translate(MessageId(*batch.origin, batch.number))
        ordinal = {} if batch.ordinal is None else {"ordinal": batch.ordinal}
        return self._pass("deliver", message=message, config=self.view, count=len(batch.messages), **ordinal)

    def _translate(self, message: MessageId | str) -> str:
        """Return the id of a message in this view. Its number stays: an incarnation here lies within an engine's."""
        origin, _, number = MessageId.parse(message) if isinstance(message, str) else message
        if origin not in self.since:
            raise BrokenInvariant(f"{self.name}: in {self.view}, a message of {origin}, which is no member")
        return str(MessageId(origin, self.since[origin], number))

    def _pass(self, event: str, **columns: Any) -> Passed:
        return Passed(self.since[self.name], event, columns)
