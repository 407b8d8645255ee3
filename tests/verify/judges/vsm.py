"""The properties of model `vsm`: the VS service (replicated-data-1998, appendix A).

A view has one sequence, figure 9's queue[g]; a trace shows of it what the members received. Where one has received a
prefix of what another has, the longest is what is known of it.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from tests.evs.history import Event, History, histories, origin
from tests.evs.judge import Violation
from tests.evs.judge_both import agreement, delivered_once, in_the_last_installed, is_later, unsent
from tests.verify.judges.property import Property, Row, is_prefix, process_of, violations, without_evidence
from tests.verify.judges.rows_of import rows_of


def judge(rows: list[Row]) -> list[Violation]:
    """What one run violates; nothing for a good trace."""
    return violations(PROPERTIES, histories(rows, "vsm"))


def skipped(rows: list[Row]) -> dict[str, str]:
    """The properties that one run cannot be judged by, with the reasons."""
    return without_evidence(PROPERTIES, histories(rows, "vsm"))


def one_sequence_of_messages(history: History) -> Iterator[str]:
    """VSM-ORDER: within a view, what each member receives is a prefix of one sequence."""
    for config, receivers in received(history).items():
        for (one, ones), (other, others) in combinations(receivers.items(), 2):
            if not is_prefix(ones, others) and not is_prefix(others, ones):
                yield f"in {config}, {one} receives {', '.join(ones)}, and {other} {', '.join(others)}"


def received(history: History) -> dict[str, dict[str, list[str]]]:
    """By view and receiver."""
    found: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for (who, config), messages in history.delivered.items():
        found[config][who] = messages
    return found


def in_the_order_of_its_sender(history: History) -> Iterator[str]:
    """VSM-FIFO: in the sequence of a view the messages of each sender are a prefix of what it sent in the view, in
    order, each once; each was sent, once, by the process in its id, and not after its own sender had received it."""
    for (who, config), messages in history.delivered.items():
        by_sender = defaultdict(list)
        for message in messages:
            by_sender[process_of(message)].append(message)
        for sender, those in by_sender.items():
            sent = history.sent.get((sender, config), [])
            if not is_prefix(those, sent):
                yield f"{who} receives {', '.join(those)} in {config}; {sender} sends {', '.join(sent) or 'nothing'}"
    for message, deliveries in history.deliveries.items():
        sends = history.sends.get(message, [])
        if not sends:
            yield unsent(deliveries[0])
        if len(sends) > 1:
            yield f"{deliveries[0]}, which is sent {len(sends)} times"
        for send in sends:
            if send.identity != origin(message):
                yield f"{send.identity} sends {message}, whose id names another"
        for delivery in deliveries:
            if any(is_later(send, delivery) for send in sends):
                yield f"{delivery} before it is sent"
    yield from delivered_once(history)


def in_the_view_of_the_send(history: History) -> Iterator[str]:
    """VSM-WITHIN: a message is received in the view it was sent in; everything happens in the view that its process
    installed last, with no fail, stop or start in between."""
    for message, deliveries in history.deliveries.items():
        sent_in = {send.config for send in history.sends.get(message, ())}
        for delivery in deliveries:
            if sent_in and delivery.config not in sent_in:
                yield f"{delivery} in {delivery.config}, not in {' or '.join(sorted(sent_in))}"
    yield from in_the_last_installed(history)


def safe_when_all_have_it(history: History) -> Iterator[str]:
    """VSM-SAFE: a member's `safe`s are a prefix of the sequence of the view; each member of the view has received the
    message, and an edge from each of these receipts to the `safe` makes no cycle."""
    told: dict[tuple[str, str], list[str]] = defaultdict(list)
    for event in safes(history):
        told[event.who, event.config].append(event.message)
    sequences = received(history)
    for (who, config), messages in told.items():
        if not any(is_prefix(messages, sequence) for sequence in sequences.get(config, {}).values()):
            yield f"{who} is told safe {', '.join(messages)} in {config}, where nobody receives that first"
    receipts: dict[tuple[str, str, str], list[Event]] = defaultdict(list)
    for delivery in (event for those in history.deliveries.values() for event in those):
        receipts[delivery.who, delivery.config, delivery.message].append(delivery)
    before = []
    for event in safes(history):
        for member in sorted(history.members(event.config)):
            receipt = receipts.get((member, event.config, event.message))
            if receipt:
                before.append((receipt[0], event))
            else:
                yield f"{event} in {event.config}, and its member {member} does not receive it"
    graph = history.graph(lambda event: event, before)
    for receipt, event in before:
        if path := graph.path(event, receipt):
            yield f"{event}, and each precedes the next: {'; '.join(map(str, path))}"


def safes(history: History) -> list[Event]:
    return [event for event in history.events if event.kind == "safe"]


def no_views(history: History) -> str:
    if not history.views:
        return "no view is installed"
    if any(view.seq is None or not view.members for view in history.views.values()):
        return "a view has no seq or no members"
    return ""


PROPERTIES = [
    Property("VSM-VIEW", agreement, no_views),
    Property("VSM-ORDER", one_sequence_of_messages, rows_of("deliver")),
    Property("VSM-FIFO", in_the_order_of_its_sender, rows_of("deliver")),
    Property("VSM-WITHIN", in_the_view_of_the_send, rows_of("send", "deliver", "safe", "fail", "stop")),
    Property("VSM-SAFE", safe_when_all_have_it, rows_of("safe")),
]
