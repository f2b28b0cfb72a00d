"""A YAML file with its tree beside its values, so that an error can name the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fairlead.model.errors import InputError

Loc = tuple[str | int, ...]


class YamlFile:
    def __init__(self, path: Path) -> None:
        self.file = str(path)
        try:
            text = path.read_text(encoding="utf-8")
            self.tree = yaml.compose(text, Loader=yaml.SafeLoader)
            self.data: Any = yaml.safe_load(text)
        except FileNotFoundError:
            raise InputError("there is no such file", file=self.file) from None
        except OSError as error:
            raise InputError(f"this can't be read: {error.strerror}", file=self.file) from None
        except UnicodeDecodeError:
            raise InputError("this is not UTF-8", file=self.file, accepts="text in UTF-8") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or "it can't be parsed"
            line = mark.line + 1 if mark else None
            raise InputError(f"the YAML is broken: {problem}", file=self.file, line=line) from None

    def error(self, loc: Loc, what: str, value: object, accepts: str | None) -> InputError:
        column = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")
        return InputError(what, file=self.file, line=self.line(loc), column=column, value=value, accepts=accepts)

    def line(self, loc: Loc) -> int | None:
        """Follow the keys down the YAML tree as far as they go."""
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
        return line
