"""What a server can answer that plain Python values cannot express.

Integers, bulk strings, arrays, maps and nulls are `int`, `bytes`, `list`, `dict` and `None`.
"""


class Status(str):
    """A simple string such as `+OK`."""

    def __repr__(self) -> str:
        return f"+{str(self)}"


class Error(str):
    """An error reply; its first word is the code."""

    @property
    def code(self) -> str:
        return self.split(" ", 1)[0]

    def __repr__(self) -> str:
        return f"-{str(self)}"


OK = Status("OK")
PONG = Status("PONG")
