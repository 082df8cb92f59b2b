"""What replies are compared by when their content is each server's own: their shape."""

from differential.frames import Reply, parse
from differential.target import Connection


def shape(reply: Reply) -> object:
    """The types, down to the leaves."""
    if isinstance(reply.value, list):
        return [reply.kind, *map(shape, reply.value)]
    return f"{reply.kind}nil" if reply.value is None else reply.kind


def members_shape(reply: Reply) -> object:
    """The type of an aggregate and the shapes that its members have, for lists whose length is not promised."""
    shapes: list = []
    for member in reply.value or []:
        if shape(member) not in shapes:
            shapes.append(shape(member))
    return [reply.kind, *shapes]


def fields(reply: Reply) -> dict[bytes, Reply]:
    """A map by its names, whichever protocol it came in."""
    assert reply.kind in "%*", reply
    return dict(zip((name.value for name in reply.value[::2]), reply.value[1::2]))


def text_of(reply: Reply) -> bytes:
    """A text, also where RESP3 says before it of what kind it is."""
    return reply.value.removeprefix(b"txt:") if reply.kind == "=" else reply.value


def line_fields(text: bytes) -> list[bytes]:
    """The names in a line of `name=value` words."""
    return [word.split(b"=", 1)[0] for word in text.strip().split(b" ")]


def is_in_order(few: list, many: list) -> bool:
    """Whether all of the few stand in the many in the same order."""
    rest = iter(many)
    return all(one in rest for one in few)


def ask(connection: Connection, words: list[bytes]) -> Reply:
    return parse(connection.ask(*words))


def raw(connection: Connection, data: bytes, replies: int) -> list[bytes]:
    """Sends bytes as they are; takes replies, with a stand-in for each that did not come."""
    connection.socket.send(data)
    return connection.exchange([], replies)
