"""The `@tool` decorator: builds a Tool from a function's signature and docstring (see `docstring`)."""

import ast
import asyncio
import contextvars
import inspect
import logging
import re
import textwrap
import threading
import time
import types
import typing
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from moot.domain.agent import FileProblem
from moot.domain.errors import BadRequest, Busy, ConfigError
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, Sink, ToolSpec
from moot.tools.plugins import docstring

logger = logging.getLogger(__name__)

# A coroutine that blocks the event loop this long is logged.
STALL_SECONDS = 0.5
# A hanging function keeps its thread until it returns; a tool gets no more threads than this.
MOST_THREADS = 16
_MARK = "__moot_tool__"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TAINT = re.compile(r"[a-z][a-z0-9-]{0,31}|")
_REFERENCE = "#/$defs/"

_F = TypeVar("_F", bound=Callable[..., Any])


class BadTool(ConfigError):
    """A function that cannot become a tool; `flaw` has the line and the reason."""

    def __init__(self, flaw: FileProblem) -> None:
        super().__init__(str(flaw), fix="Correct that line, then run `moot reload`.")
        self.flaw = flaw


@typing.overload
def tool(function: _F, /) -> _F: ...
@typing.overload
def tool(
    *, safety: Safety | str = ..., sinks: Iterable[Sink | str] | None = ..., taint: str = ..., group: str = ...
) -> Callable[[_F], _F]: ...
def tool(
    function: _F | None = None,
    /,
    *,
    safety: Safety | str = Safety.DANGEROUS,
    sinks: Iterable[Sink | str] | None = None,
    taint: str = "",
    group: str = "plugin",
) -> _F | Callable[[_F], _F]:
    """Mark a function as a tool. It is dangerous unless it says otherwise.

    `sinks` are where untrusted text in its arguments could end up (the network, unless it is safe or says otherwise).
    `taint` names the source of untrusted text in its results.
    """

    def mark(marked: _F) -> _F:
        setattr(marked, _MARK, FunctionTool(marked, safety=safety, sinks=sinks, taint=taint, group=group))
        return marked

    return mark if function is None else mark(function)


def get_tool(value: object) -> "FunctionTool | None":
    """The tool built from this function, or None if it is not decorated."""
    found = getattr(value, _MARK, None) if inspect.isfunction(value) else None
    return found if isinstance(found, FunctionTool) else None


class FunctionTool:
    """Adapts one function to the Tool port. Coroutine functions run in the event loop, others in a thread."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        safety: Safety | str,
        sinks: Iterable[Sink | str] | None,
        taint: str,
        group: str,
    ) -> None:
        if not inspect.isfunction(function):
            raise TypeError("@tool goes on a function written with `def` or `async def`")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise _bad_tool(function, "it yields; a tool returns its result once")
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self._threads = 0
        signature = _Signature(function)
        self._arguments, self._context = signature.arguments, signature.context
        harm = _check_word(function, Safety, safety, "safety")
        if sinks is None:
            # It runs with the daemon's permissions and may use the network.
            sinks = () if harm is Safety.SAFE else (Sink.EGRESS,)
        self.spec = ToolSpec(
            name=_tool_name(function),
            description=signature.doc.description,
            parameters=signature.schema(),
            safety=harm,
            sinks=frozenset(_check_word(function, Sink, sink, "sinks") for sink in sinks),
            taint=_check_taint(function, taint),
            group=group,
            added=True,
        )

    @property
    def path(self) -> str:
        return self._function.__code__.co_filename

    @property
    def place(self) -> int:
        """The line where the definition starts."""
        return _definition_line(self._function)

    def line(self, arguments: dict[str, Any]) -> str:
        given = (
            f"{name} {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
            for name, value in arguments.items()
        )
        return f"{self.spec.name}: {', '.join(given)}" if arguments else self.spec.name

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str | ToolResult:
        try:
            values = msgspec.structs.asdict(msgspec.convert(arguments, self._arguments))
        except msgspec.ValidationError as error:
            raise BadRequest(f"the arguments of {self.spec.name} are not valid: {error}").mark_untainted() from None
        if self._context:
            values[self._context] = context
        if self._is_async:
            return self._to_result(await self._in_loop(self._function(**values)))
        return self._to_result(await self._in_thread(partial(self._function, **values)))

    async def _in_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await the coroutine; SystemExit and KeyboardInterrupt raised by it do not end the daemon."""
        try:
            return await _watch_stalls(work, self.spec.name)
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(f"the function raised {error!r}") from error

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Run in a separate thread, not a pool: a slow function would delay others and block the daemon's exit."""
        if self._threads >= MOST_THREADS:
            raise Busy(
                f"{MOST_THREADS} calls of {self.spec.name} are still running", fix="Wait until some have ended."
            ).mark_untainted()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        scope = contextvars.copy_context()

        def settle(value: Any, error: Exception | None) -> None:
            self._threads -= 1
            if not done.done():
                done.set_exception(error) if error is not None else done.set_result(value)

        def run() -> None:
            value: Any = None
            error: Exception | None = None
            try:
                value = scope.run(work)
            except StopIteration as stop:
                error = RuntimeError(f"the function raised {stop!r}")
            except BaseException as failure:  # noqa: BLE001 — whatever it is, it belongs to the caller
                error = failure if isinstance(failure, Exception) else RuntimeError(f"the function raised {failure!r}")
            with suppress(RuntimeError):  # the loop may be gone by now, and the caller with it
                loop.call_soon_threadsafe(settle, value, error)

        self._threads += 1
        threading.Thread(target=run, name=f"tool {self.spec.name}", daemon=True).start()
        return await done

    def _to_result(self, value: Any) -> str | ToolResult:
        if isinstance(value, str | ToolResult):
            return value
        try:
            return msgspec.json.encode(value).decode()
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise ConfigError(
                f"{self.spec.name} returned a {type(value).__name__}, which cannot be written as JSON: {error}",
                fix=f"Return text, or lists and dicts of it: {self.path}:{self.place}",
            ) from error


@types.coroutine
def _watch_stalls(work: Coroutine[Any, Any, Any], name: str) -> Generator[Any, Any, Any]:
    """Await a coroutine and log a warning when it blocks the event loop."""
    thrown: BaseException | None = None
    while True:
        started = time.monotonic()
        try:
            waited = work.send(None) if thrown is None else work.throw(thrown)
        except StopIteration as done:
            return done.value
        finally:
            took = time.monotonic() - started
            if took > STALL_SECONDS:
                logger.warning(
                    "tool %s blocked the daemon for %.1f seconds; declare it with `def`, or await slow operations",
                    name,
                    took,
                )
        thrown = None
        try:
            yield waited
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # noqa: BLE001 — it is for the coroutine, which may go on after it
            thrown = error


class _Signature:
    """A function's parameters, as a struct for decoding arguments and as a JSON schema."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.context = ""
        self.doc = docstring.parse_docstring(function.__doc__ or "")
        if not self.doc.description:
            raise _bad_tool(
                function, "it has no docstring; its first paragraph is the description of the tool for the model"
            )
        self._types = self._hints()
        self.arguments = self._struct()

    def schema(self) -> dict[str, Any]:
        try:
            (root,), parts = msgspec.json.schema_components([self.arguments], ref_template=_REFERENCE + "{name}")
            whole = _inline_schema(root, parts, ())
        except RecursionError:
            raise _bad_tool(
                self._function, "a parameter's type contains itself, which a schema cannot describe"
            ) from None
        properties: dict[str, Any] = whole.get("properties", {})
        for name, text in self.doc.parameters.items():
            if name not in properties and name != self.context:
                raise _bad_tool(self._function, f"the docstring describes {name!r}, which is not a parameter")
            if name in properties and text:
                properties[name]["description"] = text
        return {"type": "object", "properties": properties, "required": whole.get("required", [])}

    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self._function, include_extras=True)
        except Exception as error:
            raise _bad_tool(self._function, f"a type in its signature cannot be read: {error}") from error

    def _struct(self) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for name, parameter in inspect.signature(self._function).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise _bad_tool(self._function, f"{parameter} must be an ordinary parameter with a name", name)
            if name not in self._types:
                raise _bad_tool(self._function, f"{name!r} has no type; write `{name}: str`, for example", name)
            if _is_context(self._types[name]):
                if self.context:
                    raise _bad_tool(self._function, "it asks for the RunContext twice", name)
                self.context = name
                continue
            self._check(name, self._types[name])
            fields.append((name, self._types[name], *_parameter_default(parameter)))
        return msgspec.defstruct(self._function.__name__, fields, kw_only=True, forbid_unknown_fields=True)

    def _check(self, name: str, kind: Any) -> None:
        """Check each type separately, so that an error names its parameter."""
        try:
            msgspec.json.schema_components([kind])
            msgspec.json.Decoder(kind)
        except Exception as error:
            reason = str(error).strip().split("\n")[-1]
            raise _bad_tool(
                self._function, f"the type of {name!r} cannot be described to a model: {reason}", name
            ) from error


def _is_context(kind: Any) -> bool:
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return kind is RunContext or (is_union and RunContext in typing.get_args(kind))


def _parameter_default(parameter: inspect.Parameter) -> tuple[Any, ...]:
    if parameter.default is parameter.empty:
        return ()
    if isinstance(parameter.default, list | dict | set | bytearray):
        # Mutable defaults would be shared between calls.
        return (msgspec.field(default_factory=partial(type(parameter.default), parameter.default)),)
    return (msgspec.field(default=parameter.default),)


def _inline_schema(schema: dict[str, Any], parts: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
    """A schema without references, titles and optional nulls, which every provider accepts."""
    reference = schema.get("$ref", "")
    if reference:
        name = reference.removeprefix(_REFERENCE)
        if name in inside:
            raise RecursionError
        own = {key: value for key, value in schema.items() if key != "$ref"}
        return _inline_schema(parts[name], parts, (*inside, name)) | own
    plain = {key: value for key, value in schema.items() if key != "title"}
    for key in ("items", "additionalProperties"):
        if isinstance(plain.get(key), dict):
            plain[key] = _inline_schema(plain[key], parts, inside)
    if "properties" in plain:
        plain["properties"] = {name: _inline_schema(each, parts, inside) for name, each in plain["properties"].items()}
    if "anyOf" in plain:
        plain["anyOf"] = [_inline_schema(each, parts, inside) for each in plain["anyOf"]]
    return _add_type(_drop_null(plain))


def _drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("default", ...) is not None:
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return kept | (choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})


def _add_type(schema: dict[str, Any]) -> dict[str, Any]:
    values = schema.get("enum", ())
    if values and "type" not in schema:
        for kind, name in ((str, "string"), (int, "integer")):
            if all(type(value) is kind for value in values):
                return {"type": name} | schema
    return schema


def _tool_name(function: Callable[..., Any]) -> str:
    name = function.__name__
    if not _NAME.fullmatch(name):
        raise _bad_tool(function, f"the name {ascii(name)} is not allowed; use small letters, digits and _, at most 64")
    return name


_W = TypeVar("_W", Safety, Sink)


def _check_word(function: Callable[..., Any], words: type[_W], given: Any, what: str) -> _W:
    try:
        return words(given)
    except ValueError:
        allowed = ", ".join(words)
        raise _bad_tool(function, f"{what} cannot be {given!r}; it is one of {allowed}") from None


def _check_taint(function: Callable[..., Any], taint: str) -> str:
    if not _TAINT.fullmatch(taint):
        raise _bad_tool(function, f"taint cannot be {taint!r}; it is one word such as web")
    return taint


def _bad_tool(function: Callable[..., Any], reason: str, parameter: str = "") -> BadTool:
    code = function.__code__
    return BadTool(
        FileProblem(
            path=code.co_filename, line=_definition_line(function, parameter), reason=f"{code.co_name}: {reason}"
        )
    )


def _definition_line(function: Callable[..., Any], parameter: str = "") -> int:
    """The line of the `def` below its decorators, or of one of its parameters."""
    first = function.__code__.co_firstlineno
    try:
        lines, first = inspect.getsourcelines(function)
        (node,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, SyntaxError, ValueError):
        return first
    arguments = [each for each in ast.walk(node) if isinstance(each, ast.arg) and each.arg == parameter]
    place = arguments[0] if arguments else node
    return first + getattr(place, "lineno", 1) - 1
