"""YAML that people write, kept with its tree so that every error can name the line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from fairlead.model.errors import InputError

Loc = tuple[str | int, ...]
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """SafeLoader without three traps of YAML 1.1: times become text (not a datetime in some zone), `1:30` stays text (not 90),
    and a key that is written twice is an error (not the last one)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is written twice", key.start_mark
                    )
                seen.add(key.value)
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag not in (_TAG + "timestamp", _TAG + "int", _TAG + "float")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_TAG + "int", re.compile(r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _TAG + "float",
    re.compile(
        r"([-+]?([0-9][0-9_]*)?\.?[0-9]+([eE][-+]?[0-9]+)?|[-+]?[0-9]+\.|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


class YamlText:
    """`data` as plain values, or an InputError with file, line and column."""

    def __init__(self, text: str, file: str | None = None) -> None:
        self.file = file
        try:
            self.tree = yaml.compose(text, Loader=_Loader)
            self.data: Any = yaml.load(text, Loader=_Loader)  # a SafeLoader
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f" at column {mark.column + 1}" if mark else ""
            what = f"the YAML is broken{where}: {error.problem or error.context or 'it can not be parsed'}"
            raise InputError(what, file=file, line=mark.line + 1 if mark else None) from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise InputError(f"the YAML is broken: {error.reason}", file=file, line=line) from None
        except (yaml.YAMLError, ValueError, TypeError) as error:
            raise InputError(f"the YAML is broken: {error}", file=file) from None
        except RecursionError:
            raise InputError("the YAML is nested too deep", file=file) from None

    @classmethod
    def read(cls, path: Path) -> YamlText:
        file = str(path)
        try:
            return cls(path.read_text(encoding="utf-8"), file)
        except FileNotFoundError:
            raise InputError("there is no such file", file=file) from None
        except OSError as error:
            raise InputError(f"this can't be read: {error.strerror}", file=file) from None
        except UnicodeDecodeError:
            raise InputError("this is not UTF-8", file=file, accepts="text in UTF-8") from None

    def line(self, loc: Loc) -> int | None:
        """Follow the keys down the tree as far as they go."""
        node, line = self.tree, None
        for part in loc:
            if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line + 1
            elif isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == str(part):
                        node, line = value, key.start_mark.line + 1
                        break
                else:
                    break
        return line

    def error(self, loc: Loc, what: str, value: object, accepts: str | None) -> InputError:
        """What is wrong with the value at the end of these keys."""
        column = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")
        return InputError(what, file=self.file, line=self.line(loc), column=column, value=value, accepts=accepts)

    def located(self, error: InputError) -> InputError:
        """The same error with the file, and the line of the field that it names."""
        loc = tuple((error.column or "").split(".")) if error.column else ()
        return InputError(
            error.what,
            file=self.file,
            line=self.line(loc),
            column=error.column,
            value=error.value,
            accepts=error.accepts,
        )
